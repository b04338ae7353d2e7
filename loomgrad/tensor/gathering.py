"""Selection by data: gather, take_along_axis, masked_fill."""

from __future__ import annotations

from typing import Self, Unpack

from loomgrad.dtype import Number, dtypes
from loomgrad.errors import DTypeError, ShapeError
from loomgrad.ir.arguments import axis_argument
from loomgrad.ir.counting import counting
from loomgrad.ir.opcode import Ops
from loomgrad.ir.shape import broadcast
from loomgrad.tensor.joining import Joining
from loomgrad.tensor.spelling import AsAxis, OneAxis, other_names


class Gathering(Joining):
    """Indices are wrapped: -1 is the last one.  What is out of range selects 0.

    Selections are sums under a mask that is true once; the scheduler replaces their loop by the index.
    """

    __slots__ = ()

    @other_names
    def gather(self, dim: int, index: Self, **other: Unpack[AsAxis]) -> Self:
        """result[i, j, k] = x[i, index[i, j, k], k], here for dim 1.

        **Shapes** index: as many axes as x, along the others at most as long -> the shape of index
        """
        axis = axis_argument(dim, self.shape)
        fits = index.ndim == self.ndim and all(
            a == axis or size <= self.shape[a] for a, size in enumerate(index.shape)
        )
        if not fits:
            raise ShapeError(
                f"an index of shape {index.shape} cannot gather along axis {axis} of {self.shape}",
                fix="it needs as many axes, and may be longer along that axis only",
            )
        bounds = [None if a == axis else (0, size) for a, size in enumerate(index.shape)]
        return self.shrink(bounds)._gather_along(axis, index)

    @other_names
    def take_along_axis(self, indices: Self, axis: int = -1, **other: Unpack[OneAxis]) -> Self:
        """`gather` with the other axes broadcast, as in NumPy."""
        place = axis_argument(axis, self.shape)
        if indices.ndim != self.ndim:
            raise ShapeError(f"indices of shape {indices.shape} for shape {self.shape}")
        shapes = [
            tuple(1 if a == place else size for a, size in enumerate(tensor.shape))
            for tensor in (self, indices)
        ]
        shared = broadcast(shapes)
        if shared is None:
            raise ShapeError(f"indices of shape {indices.shape} do not broadcast to {self.shape}")

        def wide(tensor: Self) -> Self:
            size = tensor.shape[place]
            return tensor.expand((*shared[:place], size, *shared[place + 1 :]))

        return wide(self)._gather_along(place, wide(indices))

    def _gather_along(self, axis: int, index: Self) -> Self:
        """`gather` where all other axes agree."""
        table = self.transpose(axis, -1) if self.ndim > 1 else self
        places = index.transpose(axis, -1) if self.ndim > 1 else index
        size = table.shape[-1]
        chosen = places._wrapped(size).unsqueeze(-1)
        shape = (*places.shape, size)
        taken = chosen.eq(type(self)._of(counting(size, chosen.dtype), None)).where(
            table.unsqueeze(-2).expand(shape), self._zero
        )
        result = taken._reduce(Ops.ADD, -1, keepdim=False)
        return result.transpose(axis, -1) if self.ndim > 1 else result

    def masked_fill(self, mask: Self, value: Number | Self) -> Self:
        """`value` where the mask is true, this tensor elsewhere."""
        if not mask.dtype.is_bool:
            raise DTypeError(f"a mask must be of bools, not {mask.dtype.name}", fix="compare first")
        return mask.where(value, self)

    def _wrapped(self, size: int) -> Self:
        """Indices that count from the begin, in a dtype that holds `size`."""
        if not self.dtype.is_int:
            raise DTypeError(
                f"a tensor index must have an integer dtype, not {self.dtype.name}",
                fix="use masked_fill or where for masks; cast indices, e.g. i.int()",
            )
        narrow = self.dtype.bits < 32 or self.dtype is dtypes.int32
        fits = narrow and size <= dtypes.max(dtypes.int32)
        index = self.cast(dtypes.int32 if fits else dtypes.int64)
        return index if self.dtype.is_unsigned else (index < 0).where(index + size, index)
