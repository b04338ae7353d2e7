"""Reductions over axes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Self, Unpack

from loomgrad.dtype import DType, dtype_argument, dtypes, sum_dtype
from loomgrad.errors import ShapeError, UnsupportedError
from loomgrad.ir.arguments import axes_argument, axis_argument
from loomgrad.ir.counting import counting
from loomgrad.ir.opcode import Ops
from loomgrad.tensor.halves import in_float32
from loomgrad.tensor.indexing import Indexing
from loomgrad.tensor.spelling import Axes as Axes
from loomgrad.tensor.spelling import AxisOrAll, SeveralAxes, other_names

if TYPE_CHECKING:
    from loomgrad.dtype.argument import DTypeLike


class Reduction(Indexing):
    """`axis` is an axis, several, or None for all; `keepdim` leaves them with size 1."""

    __slots__ = ()

    @other_names
    def sum(
        self,
        axis: Axes = None,
        keepdim: bool = False,
        dtype: DTypeLike | None = None,
        **other: Unpack[SeveralAxes],
    ) -> Self:
        """The sum.  Half floats are added in float32, bools and small ints in int32."""
        wide = dtype_argument(dtype) or sum_dtype(self.dtype)
        total = self.cast(wide)._reduce(Ops.ADD, axis, keepdim)
        return total.cast(self.dtype) if dtype is None and self.dtype.is_float else total

    @other_names
    def prod(self, axis: Axes = None, keepdim: bool = False, **other: Unpack[SeveralAxes]) -> Self:
        """The product, in the dtype of a sum."""
        total = self.cast(sum_dtype(self.dtype))._reduce(Ops.MUL, axis, keepdim)
        return total.cast(self.dtype) if self.dtype.is_float else total

    @other_names
    def max(self, axis: Axes = None, keepdim: bool = False, **other: Unpack[SeveralAxes]) -> Self:
        """The greatest element; NaN if there is one.  Equal ones share the gradient."""
        return self._reduce(Ops.MAX, axis, keepdim)

    @other_names
    def min(self, axis: Axes = None, keepdim: bool = False, **other: Unpack[SeveralAxes]) -> Self:
        """The least element; NaN if there is one."""
        if self.dtype.is_float:
            return -((-self).max(axis, keepdim))
        return ~((~self).max(axis, keepdim))

    @other_names
    def any(self, axis: Axes = None, keepdim: bool = False, **other: Unpack[SeveralAxes]) -> Self:
        """Whether some element differs from 0."""
        return self.bool().max(axis, keepdim)

    @other_names
    def all(self, axis: Axes = None, keepdim: bool = False, **other: Unpack[SeveralAxes]) -> Self:
        """Whether every element differs from 0."""
        return self.bool().min(axis, keepdim)

    @other_names
    def mean(self, axis: Axes = None, keepdim: bool = False, **other: Unpack[SeveralAxes]) -> Self:
        """The mean, a float.  Half floats are added in float32."""
        values = self if self.dtype.is_float else self.cast(dtypes.default_float)
        total = values.sum(axis, keepdim, dtype=sum_dtype(values.dtype))
        return (total / float(self._count(axis))).cast(values.dtype)

    @other_names
    @in_float32
    def var(
        self,
        axis: Axes = None,
        keepdim: bool = False,
        correction: int = 1,
        **other: Unpack[SeveralAxes],
    ) -> Self:
        """The variance: squared distances from the mean, over the count less `correction`.

        Of half floats in float32.
        """
        distance = self - self.mean(axis, keepdim=True)
        total = (distance * distance).sum(axis, keepdim)
        return total / float(max(0, self._count(axis) - correction))

    @other_names
    @in_float32
    def std(
        self,
        axis: Axes = None,
        keepdim: bool = False,
        correction: int = 1,
        **other: Unpack[SeveralAxes],
    ) -> Self:
        """The square root of the variance."""
        return self.var(axis, keepdim, correction).sqrt()

    @other_names
    @in_float32
    def norm(
        self,
        p: float = 2,
        axis: Axes = None,
        keepdim: bool = False,
        **other: Unpack[SeveralAxes],
    ) -> Self:
        """The length of vectors: sqrt(sum(x * x)) for p = 2, sum(|x|) for 1, max(|x|) for inf.

        Its gradient at the origin is 0.  **Raises** UnsupportedError for another p.
        """
        x = self._as_float()
        if p == 1:
            return x.abs().sum(axis, keepdim)
        if p == math.inf:
            return x.abs().max(axis, keepdim)
        if p != 2:
            raise UnsupportedError(f"a norm with p = {p}", fix="use 1, 2 or math.inf")
        total = (x * x).sum(axis, keepdim)
        origin = total.eq(0)
        return origin.where(0, origin.where(1, total).sqrt())

    def _count(self, axis: Axes) -> int:
        """How many elements a reduction over `axis` folds into one."""
        axes = axes_argument(() if axis is None else (axis,), self.shape, axis is None)
        return math.prod(self.shape[a] for a in axes)

    @other_names
    def argmax(
        self, axis: int | None = None, keepdim: bool = False, **other: Unpack[AxisOrAll]
    ) -> Self:
        """Where the greatest element stands first; the first NaN if there is one.  int32.

        Without an axis, the place in the flattened tensor.
        """
        if axis is None:
            place = self.flatten().argmax(0)
            return place.reshape((1,) * self.ndim) if keepdim else place
        a = axis_argument(axis, self.shape)
        size = self.shape[a]
        if size == 0:
            raise ShapeError(f"argmax over the empty axis {a} of {self.shape}")
        best = self.eq(self.max(a, keepdim=True)) | self.ne(self)
        dtype = dtypes.int64 if size > dtypes.max(dtypes.int32) else dtypes.int32
        left = size - self._numbers(size, a, dtype)
        return size - best.where(left, 0).max(a, keepdim)

    @other_names
    def argmin(
        self, axis: int | None = None, keepdim: bool = False, **other: Unpack[AxisOrAll]
    ) -> Self:
        """Where the least element stands first; the first NaN if there is one."""
        return (-self if self.dtype.is_float else ~self).argmax(axis, keepdim)

    def _numbers(self, count: int, axis: int, dtype: DType = dtypes.int32) -> Self:
        """0 .. count - 1 along an axis of this tensor's rank."""
        shape = tuple(count if a == axis else 1 for a in range(self.ndim))
        return type(self)._of(counting(count, dtype).reshape(shape), None)
