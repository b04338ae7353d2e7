"""Joining tensors and taking them apart: cat, stack, split, repeat, roll, triangles."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index as as_int
from typing import Self, TypeVar, Unpack

from loomgrad.dtype import dtypes, least_upper_dtype
from loomgrad.errors import ShapeError
from loomgrad.ir.arguments import axis_argument, sizes_argument
from loomgrad.ir.counting import counting
from loomgrad.ir.uop import UOp
from loomgrad.tensor.movement import Movement
from loomgrad.tensor.spelling import AsAxes, AsAxis, other_names

J = TypeVar("J", bound="Joining")


class Joining(Movement):
    """One kernel computes what is joined here, however many parts there are."""

    __slots__ = ()

    @other_names
    def cat(self, *others: Self, dim: int = 0, **other: Unpack[AsAxis]) -> Self:
        """The tensors one behind the other along an axis: `x.cat(y, z, dim=1)`, `Tensor.cat(x, y, z)`.

        **Raises** ShapeError unless all other axes agree.
        """
        tensors = (self, *others)
        axis = axis_argument(dim, self.shape)
        for tensor in others:
            same = tensor.ndim == self.ndim and all(
                a == axis or tensor.shape[a] == size for a, size in enumerate(self.shape)
            )
            if not same:
                raise ShapeError(
                    f"cannot join shapes {self.shape} and {tensor.shape} along axis {axis}",
                    fix="all axes but that one must be equal; stack makes a new axis",
                )
        dtype = tensors[0].dtype
        for tensor in others:
            dtype = least_upper_dtype(dtype, tensor.dtype)
        parts = [tensor.cast(dtype) for tensor in tensors if tensor.shape[axis]]
        if not parts:
            return self.cast(dtype)
        ends = [0]
        for part in parts:
            ends.append(ends[-1] + part.shape[axis])
        return _joined(parts, ends, axis, ends[-1])

    @other_names
    def stack(self, *others: Self, dim: int = 0, **other: Unpack[AsAxis]) -> Self:
        """Tensors of one shape along a new axis: `x.stack(y, z)`, `Tensor.stack(x, y, z)`."""
        for tensor in others:
            if tensor.shape != self.shape:
                raise ShapeError(
                    f"cannot stack shapes {self.shape} and {tensor.shape}",
                    fix="all shapes must be equal; cat joins along an axis that is there",
                )
        first, *rest = (tensor.unsqueeze(dim) for tensor in (self, *others))
        return first.cat(*rest, dim=axis_argument(dim, first.shape))

    @other_names
    def split(
        self, sizes: int | Sequence[int], dim: int = 0, **other: Unpack[AsAxis]
    ) -> tuple[Self, ...]:
        """Parts of the given sizes along an axis; of one size, the last may be smaller."""
        axis = axis_argument(dim, self.shape)
        length = self.shape[axis]
        if isinstance(sizes, int):
            if sizes < 1:
                raise ShapeError(f"cannot split into parts of size {sizes}")
            parts = [min(sizes, length - begin) for begin in range(0, length, sizes)] or [0]
        else:
            parts = [as_int(size) for size in sizes]
        if sum(parts) != length or any(size < 0 for size in parts):
            raise ShapeError(
                f"sizes {tuple(parts)} do not add up to {length}, the size of axis {axis}",
                shape=self.shape,
            )
        begins = [sum(parts[:i]) for i in range(len(parts))]
        return tuple(
            _box(self, axis, begin, size) for begin, size in zip(begins, parts, strict=True)
        )

    @other_names
    def chunk(self, chunks: int, dim: int = 0, **other: Unpack[AsAxis]) -> tuple[Self, ...]:
        """At most `chunks` parts of equal size, the last may be smaller."""
        if chunks < 1:
            raise ShapeError(f"cannot split into {chunks} parts")
        length = self.shape[axis_argument(dim, self.shape)]
        return self.split(max(1, -(-length // chunks)), dim)

    def repeat(self, *repeats: int | Sequence[int]) -> Self:
        """The whole tensor this many times along each axis; more counts than axes add axes in front."""
        times = sizes_argument(repeats)
        if len(times) < self.ndim or any(count < 0 for count in times):
            raise ShapeError(
                f"repeat{times} of shape {self.shape}", fix="give one count for each axis, or more"
            )
        shape = (1,) * (len(times) - self.ndim) + self.shape
        pairs = [size for each in zip(times, shape, strict=True) for size in each]
        ones = [size for each in shape for size in (1, each)]
        return (
            self.reshape(ones)
            .expand(pairs)
            .reshape(tuple(count * size for count, size in zip(times, shape, strict=True)))
        )

    @other_names
    def repeat_interleave(
        self, repeats: int, dim: int | None = None, **other: Unpack[AsAxis]
    ) -> Self:
        """Each element this many times in a row along an axis; without one, of the flattened tensor."""
        if dim is None:
            return self.flatten().repeat_interleave(repeats, 0)
        axis = axis_argument(dim, self.shape)
        before, size, after = self.shape[:axis], self.shape[axis], self.shape[axis + 1 :]
        wide = self.reshape(*before, size, 1, *after).expand(*before, size, repeats, *after)
        return wide.reshape(*before, size * repeats, *after)

    @other_names
    def roll(
        self,
        shifts: int | Sequence[int],
        dims: int | Sequence[int] | None = None,
        **other: Unpack[AsAxes],
    ) -> Self:
        """Elements moved on along axes; those that leave at the end enter at the begin.

        Without axes, of the flattened tensor.
        """
        if dims is None:
            return self.flatten().roll(shifts, 0).reshape(self.shape)
        steps = (shifts,) if isinstance(shifts, int) else tuple(shifts)
        axes = (dims,) if isinstance(dims, int) else tuple(dims)
        if len(steps) != len(axes):
            raise ShapeError(f"{len(steps)} shifts for {len(axes)} axes")
        result = self
        for step, dim in zip(steps, axes, strict=True):
            axis = axis_argument(dim, self.shape)
            size = self.shape[axis]
            begin = -step % size if size else 0
            if begin:
                head, tail = _box(result, axis, 0, begin), _box(result, axis, begin, size - begin)
                result = tail.cat(head, dim=axis)
        return result

    def meshgrid(self, *others: Self) -> tuple[Self, ...]:
        """Vectors as the axes of a grid: tensor i of the result varies along axis i."""
        vectors = (self, *others)
        shape = tuple(vector.numel() for vector in vectors)
        return tuple(
            vector.reshape(tuple(size if a == i else 1 for a, size in enumerate(shape))).expand(
                shape
            )
            for i, vector in enumerate(vectors)
        )

    def tril(self, diagonal: int = 0) -> Self:
        """The lower triangle of the last two axes, 0 above it; `diagonal` moves its edge to the right."""
        return self._triangle(diagonal, lower=True)

    def triu(self, diagonal: int = 0) -> Self:
        """The upper triangle of the last two axes, 0 below it; `diagonal` moves its edge to the right."""
        return self._triangle(diagonal, lower=False)

    def _triangle(self, diagonal: int, lower: bool) -> Self:
        if self.ndim < 2:
            raise ShapeError(f"a triangle of shape {self.shape}", fix="it needs two axes")
        rows, columns = self.shape[-2:]
        row = counting(rows, dtypes.weakint).reshape(rows, 1) + diagonal
        column = counting(columns, dtypes.weakint)
        inside = ~(row < column) if lower else ~(column < row)
        return type(self)._of(inside, None).where(self, self._zero)

    @property
    def _zero(self) -> int | bool:
        """0 as a number that leaves the dtype as it is."""
        return False if self.dtype.is_bool else 0


def _box(x: J, axis: int, begin: int, size: int) -> J:
    return x.shrink([(begin, begin + size) if a == axis else None for a in range(x.ndim)])


def _joined(parts: Sequence[J], ends: Sequence[int], axis: int, length: int) -> J:
    """Parts that begin at `ends`, chosen by halves, so that many parts are not a deep graph."""
    first = parts[0]
    if len(parts) == 1:
        begin, size = ends[0], first.shape[axis]
        padding = [(begin, length - begin - size) if a == axis else None for a in range(first.ndim)]
        return first.pad(padding)
    half = len(parts) // 2
    left = _joined(parts[:half], ends[: half + 1], axis, length)
    right = _joined(parts[half:], ends[half:], axis, length)
    return type(first)._of(_before(ends[half], length, axis, first.ndim), None).where(left, right)


def _before(position: int, length: int, axis: int, rank: int) -> UOp:
    """Whether places along an axis lie before a position."""
    shape = tuple(length if a == axis else 1 for a in range(rank))
    return (counting(length, dtypes.weakint) < position).reshape(shape)
