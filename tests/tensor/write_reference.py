"""What writes and views mean, in terms of NumPy.

A view knows its places in its root.  Reading shows the value of the moment when it was made or written
(snapshot-read); writing changes the root at these places, then this view and those between (write-through).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tensor.checks import Array

Move = Callable[[Array], Array]


class Refused(Exception):
    """A write into a view that shows an element at several places."""


class Root:
    """The elements that views share."""

    def __init__(self, value: Array) -> None:
        self.value = np.array(value).reshape(-1)


class Reference:
    """A tensor, or a view of one: `root.value[places]`, as it was when it was made or last written."""

    def __init__(self, value: Array) -> None:
        self.value = np.array(value)
        self.root = Root(self.value)
        self.places = np.arange(self.value.size).reshape(self.value.shape)
        self.between: tuple[Reference, ...] = ()
        self.repeated = False

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    # ---- views

    def _seen(self, move: Move, dtype: Any = None, repeated: bool = False) -> Reference:
        view = object.__new__(Reference)
        view.value = np.array(move(self.value)).view(dtype or self.value.dtype)
        view.root, view.places = self.root, np.asarray(move(self.places))
        view.between = (*self.between, self)
        view.repeated = self.repeated or repeated
        return view

    def reshape(self, *shape: int) -> Reference:
        return self._seen(lambda array: array.reshape(shape))

    def permute(self, *axes: int) -> Reference:
        return self._seen(lambda array: array.transpose(axes))

    def flip(self, axis: int) -> Reference:
        return self._seen(lambda array: np.flip(array, axis))

    def expand(self, *shape: int) -> Reference:
        grows = shape != self.shape
        return self._seen(lambda array: np.broadcast_to(array, shape), repeated=grows)

    def detach(self) -> Reference:
        return self._seen(lambda array: array)

    def bits(self, dtype: Any) -> Reference:
        return self._seen(lambda array: array, dtype)

    def __getitem__(self, key: Any) -> Reference:
        parts = key if isinstance(key, tuple) else (key,)
        if any(isinstance(part, np.ndarray) for part in parts):
            return Reference(self.value[key])
        return self._seen(lambda array: array[key])

    # ---- values

    def __add__(self, other: Any) -> Reference:
        return Reference(self.value + _value(other))

    def __sub__(self, other: Any) -> Reference:
        return Reference(self.value - _value(other))

    def __mul__(self, other: Any) -> Reference:
        return Reference(self.value * _value(other))

    def __or__(self, other: Any) -> Reference:
        return Reference(self.value | _value(other))

    def sum(self, axis: int) -> Reference:
        return Reference(self.value.sum(axis, dtype=self.value.dtype))

    def copy(self) -> Reference:
        return Reference(self.value)

    # ---- writes

    def assign(self, value: Any) -> Reference:
        written = np.broadcast_to(_value(value), self.shape).astype(self.value.dtype)
        self._write(written)
        self.value = written
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.repeated:
            masked = isinstance(key, np.ndarray) and key.dtype == bool
            self._refuse(self.places if masked else self.places[key])
            return
        present = np.array(self.root.value[self.places]).view(self.value.dtype)
        present[key] = _value(value)
        self._write(present)
        self.value = present

    def _refuse(self, written: Array) -> None:
        if written.size:
            raise Refused

    def _write(self, value: Array) -> None:
        if self.repeated:
            self._refuse(value)
            return
        self.root.value[self.places] = np.array(value).view(self.root.value.dtype)
        for view in self.between:
            view.value = np.array(self.root.value[view.places]).view(view.value.dtype)

    def __iadd__(self, other: Any) -> Reference:
        return self.assign(self + other)

    def __isub__(self, other: Any) -> Reference:
        return self.assign(self - other)

    def __imul__(self, other: Any) -> Reference:
        return self.assign(self * other)

    def __ior__(self, other: Any) -> Reference:
        return self.assign(self | other)


def _value(operand: Any) -> Any:
    return operand.value if isinstance(operand, Reference) else operand
