"""Reads by lists, arrays, masks and several index tensors; `selection` says what they name."""

from __future__ import annotations

from typing import Self, SupportsIndex

from loomgrad.errors import UnsupportedError
from loomgrad.ir.opcode import Ops
from loomgrad.tensor.data import is_numpy
from loomgrad.tensor.selection import Mask, Selection, selection
from loomgrad.tensor.values import Values


class Reading(Values):
    """`x[...]` with NumPy's rules."""

    __slots__ = ()

    def __getitem__(self, key: object) -> Self:
        """Elements by ints, slices, None, Ellipsis, tensors of ints, lists and arrays of ints or bools.

        Indices in lists and arrays are checked now; those in tensors select 0 where they are out of range.

        **Raises** UnsupportedError for a mask in a tensor, which would make a shape that is not known yet.
        """
        parts = key if isinstance(key, tuple) else (key,)
        parts = tuple(list(part) if isinstance(part, (tuple, range)) else part for part in parts)
        if not _needs_selection(parts):
            return super().__getitem__(key)
        if any(isinstance(part, Values) and part.dtype.is_bool for part in parts):
            raise UnsupportedError(
                "how many elements a mask chooses is not known before it is computed",
                fix="use x.masked_fill(mask, value) or mask.where(x, 0), or a mask in a list or array",
            )
        chosen = selection(self, parts)
        if isinstance(chosen, Mask):
            chosen = chosen.selected()
        assert chosen is not None, "the key has a list, an array or a tensor"
        return self._selected(chosen)

    def _selected(self, chosen: Selection[Self]) -> Self:
        view = super().__getitem__(chosen.basic).permute(chosen.order)
        table = view.reshape(chosen.count, *chosen.rest)
        taken = table._make(Ops.INDEX, (chosen.positions,))
        rank, place = chosen.positions.ndim, chosen.place
        before = range(rank, rank + place)
        return taken.permute((*before, *range(rank), *range(rank + place, taken.ndim)))


def _needs_selection(parts: tuple[object, ...]) -> bool:
    """Whether a key has more than one tensor of ints between slices."""
    tensors = sum(isinstance(part, Values) for part in parts)
    arrays = any(isinstance(part, list) or (is_numpy(part) and part.ndim > 0) for part in parts)
    masks = any(isinstance(part, Values) and part.dtype.is_bool for part in parts)
    ints = any(isinstance(part, SupportsIndex) for part in parts)
    return arrays or masks or tensors > 1 or (tensors == 1 and ints)
