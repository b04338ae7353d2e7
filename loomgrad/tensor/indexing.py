"""`x[...]`: ints, slices with any step, None, Ellipsis, and one tensor of ints."""

from __future__ import annotations

from collections.abc import Iterator
from operator import index as as_int
from types import EllipsisType
from typing import Self, SupportsIndex

from loomgrad.errors import IndexingError
from loomgrad.ir.opcode import Ops
from loomgrad.tensor.gathering import Gathering
from loomgrad.tensor.views import EveryNth

Selector = int | slice | EllipsisType | None


class Indexing(Gathering):
    """Selection of elements."""

    __slots__ = ()

    def __getitem__(self, key: object) -> Self:
        selectors = _complete(key if isinstance(key, tuple) else (key,), self.ndim, self.shape)
        result = self._unmoved()
        axis = 0
        gathered: list[tuple[int, Indexing]] = []
        for selector in selectors:
            if selector is None:
                result = result.unsqueeze(axis)
                axis += 1
            elif isinstance(selector, slice):
                result = result._slice(axis, selector)
                axis += 1
            elif isinstance(selector, Indexing):
                gathered.append((axis, selector))
                axis += 1
            elif isinstance(selector, SupportsIndex):
                result = result._pick(axis, as_int(selector))
        for place, indices in gathered:
            result = result._gather(place, indices)
        return result

    def __iter__(self) -> Iterator[Self]:
        if not self.shape:
            raise IndexingError("a tensor without axes has no items", fix="use x.item()")
        return iter([self[position] for position in range(self.shape[0])])

    def __len__(self) -> int:
        if not self.shape:
            raise IndexingError("a tensor without axes has no length", fix="use x.numel()")
        return self.shape[0]

    def _pick(self, axis: int, position: int) -> Self:
        """One position of an axis, which goes."""
        size = self.shape[axis]
        if not -size <= position < size:
            raise IndexingError(
                f"index {position} is out of range for axis {axis} of size {size}",
                fix=f"indices are {-size} to {size - 1}" if size else "the axis is empty",
                shape=self.shape,
            )
        place = position % size
        box = self._box(axis, place, place + 1)
        return box.reshape(self.shape[:axis] + self.shape[axis + 1 :])

    def _slice(self, axis: int, selector: slice) -> Self:
        """Every step-th position between the ends of a slice."""
        if selector.step is not None and as_int(selector.step) == 0:
            raise IndexingError(
                "the step of a slice is 0", fix="use a step of 1 or more, or below 0"
            )
        start, stop, step = selector.indices(self.shape[axis])
        count = len(range(start, stop, step))
        if count == 0:
            return self._box(axis, 0, 0)
        last = start + (count - 1) * step
        low, high = min(start, last), max(start, last) + 1
        box = self._box(axis, low, high)
        if step < 0:
            box = box.flip(axis)
        return box._every(axis, abs(step))

    def _every(self, axis: int, step: int) -> Self:
        """The positions 0, step, 2 * step ... of an axis that ends with one of them."""
        return self if step == 1 else self._seen_through(EveryNth(axis, step))

    def _box(self, axis: int, begin: int, end: int) -> Self:
        bounds: list[tuple[int, int] | None] = [None] * self.ndim
        bounds[axis] = (begin, end)
        return self.shrink(bounds)

    def _gather(self, axis: int, indices: Indexing) -> Self:
        """The positions of an axis that a tensor names; negative ones count from the end.

        What is out of range selects 0.
        """
        wrapped = indices._wrapped(self.shape[axis])
        order = (axis, *(a for a in range(self.ndim) if a != axis))
        front = self.permute(order)
        taken = front._make(Ops.INDEX, (wrapped,))  # type: ignore[arg-type]
        back = (*range(indices.ndim, indices.ndim + axis), *range(indices.ndim))
        return taken.permute(*back, *range(indices.ndim + axis, taken.ndim))


def _complete(key: tuple[object, ...], rank: int, shape: tuple[int, ...]) -> list[object]:
    """The selectors of all axes: an Ellipsis, or the end, stands for full slices."""
    for selector in key:
        known = selector is None or selector is ... or isinstance(selector, (slice, Indexing))
        if isinstance(selector, bool) or not (known or isinstance(selector, SupportsIndex)):
            raise IndexingError(
                f"an index of type {type(selector).__name__} is not known",
                fix="use ints, slices, None, ... or a tensor of ints",
            )
    used = sum(selector is not None and selector is not ... for selector in key)
    if used > rank or sum(selector is ... for selector in key) > 1:
        raise IndexingError(
            f"{used} indices for a tensor of {rank} axes", shape=shape, fix="at most one per axis"
        )
    full: list[object] = [slice(None)] * (rank - used)
    for position, selector in enumerate(key):
        if selector is ...:
            return [*key[:position], *full, *key[position + 1 :]]
    return [*key, *full]
