"""The arguments of a captured function: its Tensors in order, and everything else as a key."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from loomgrad.errors import CaptureError
from loomgrad.tensor import Tensor
from loomgrad.tensor.data import is_numpy

HOLE = object()  # where a Tensor stands in a result


@dataclass(slots=True)
class Flat:
    """The Tensors inside of nested containers, in order; `key` is the structure with all other values.

    `kept` holds objects that the key knows by identity, so that none of them is confused with a later one.
    """

    tensors: list[Tensor] = field(default_factory=list)
    kept: list[object] = field(default_factory=list)
    key: Hashable = ()


def flatten(value: object) -> Flat:
    """Takes lists, tuples and dicts apart.  Raises: CaptureError for NumPy arrays."""
    flat = Flat()
    flat.key = _key(value, flat)
    return flat


def _key(value: object, flat: Flat) -> Hashable:
    if isinstance(value, Tensor):
        # The same Tensor at two places is another program than two Tensors.
        first = next((i for i, known in enumerate(flat.tensors) if known is value), None)
        flat.tensors.append(value)
        return Tensor, first, value.shape, value.dtype, value.device, value.requires_grad
    if isinstance(value, (list, tuple)):
        return type(value), tuple(_key(item, flat) for item in value)
    if isinstance(value, dict):
        return dict, tuple((_key(name, flat), _key(item, flat)) for name, item in value.items())
    if is_numpy(value):
        raise CaptureError(
            "a captured function was given a NumPy array, which would be part of the capture",
            fix="pass Tensor(array)",
        )
    if isinstance(value, float):
        return float, value.hex()  # which tells -0.0 from 0.0
    if value is None or isinstance(value, (bool, int, str, bytes)):
        return type(value), value
    flat.kept.append(value)
    return type(value), id(value)


def rebuild(value: object, tensors: Iterable[Any]) -> Any:
    """The same containers with other things in place of the Tensors (or holes), taken in order."""
    return _rebuilt(value, iter(tensors))


def _rebuilt(value: object, tensors: Iterator[Any]) -> Any:
    if isinstance(value, Tensor) or value is HOLE:
        return next(tensors)
    if isinstance(value, list):
        return [_rebuilt(item, tensors) for item in value]
    if isinstance(value, tuple):
        items = [_rebuilt(item, tensors) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, dict):
        return {name: _rebuilt(item, tensors) for name, item in value.items()}
    return value


def normaliser(
    function: Callable[..., object],
) -> Callable[..., tuple[tuple[Any, ...], dict[str, Any]]]:
    """How a call's arguments are written in one way: by position where they can be, with defaults."""
    signature = inspect.signature(function)

    def normalise(
        args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.args, bound.kwargs

    return normalise
