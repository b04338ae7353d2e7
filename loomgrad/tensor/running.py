"""Running reductions: cumsum, cumprod, cummax, logcumsumexp."""

from __future__ import annotations

import math
from typing import Self, TypeVar, Unpack

from loomgrad.dtype import dtypes, sum_dtype
from loomgrad.ir.arguments import axis_argument
from loomgrad.ir.counting import counting
from loomgrad.ir.opcode import Op, Ops
from loomgrad.ir.ops import identity_element
from loomgrad.ir.uop import UOp
from loomgrad.tensor.halves import in_float32
from loomgrad.tensor.reduce import Reduction
from loomgrad.tensor.spelling import OneAxis, other_names

# A running reduction of n elements takes n * BLOCK steps, in blocks that know what those before them came to.
BLOCK = 128

R = TypeVar("R", bound="Running")


class Running(Reduction):
    """Element i of the result is the reduction of the elements 0 .. i along the axis."""

    __slots__ = ()

    @other_names
    def cumsum(self, axis: int = 0, **other: Unpack[OneAxis]) -> Self:
        """The running sum, in the dtype of a sum."""
        total = self.cast(sum_dtype(self.dtype))._running(Ops.ADD, axis)
        return total.cast(self.dtype) if self.dtype.is_float else total

    @other_names
    def cumprod(self, axis: int = 0, **other: Unpack[OneAxis]) -> Self:
        """The running product, in the dtype of a sum."""
        total = self.cast(sum_dtype(self.dtype))._running(Ops.MUL, axis)
        return total.cast(self.dtype) if self.dtype.is_float else total

    @other_names
    def cummax(self, axis: int = 0, **other: Unpack[OneAxis]) -> Self:
        """The greatest element so far; NaN from the first one on."""
        return self._running(Ops.MAX, axis)

    @other_names
    @in_float32
    def logcumsumexp(self, axis: int = 0, **other: Unpack[OneAxis]) -> Self:
        """The running log(sum(e**x)), without overflow."""
        x = self._as_float()
        if not x.shape:
            return x
        place = axis_argument(axis, x.shape)
        rows = x.transpose(place, -1)
        top = rows.cummax(-1)._make(Ops.DETACH)
        infinite = top.eq(math.inf) | top.eq(-math.inf)
        finite = infinite.where(0.0, top)
        weights = (rows.unsqueeze(-2) - finite.unsqueeze(-1)).exp()
        total = type(self)._of(_so_far(rows.shape[-1]), None).where(weights, 0).sum(-1)
        return (total.log() + finite).transpose(place, -1)

    def _running(self, op: Op, axis: int) -> Self:
        if not self.shape:
            axis_argument(axis, (1,))
            return self
        place = axis_argument(axis, self.shape)
        rows = self if place == self.ndim - 1 else self.transpose(place, -1)
        result = rows._running_rows(op)
        return result if rows is self else result.transpose(place, -1)

    def _running_rows(self, op: Op) -> Self:
        """Along the last axis."""
        *lead, length = self.shape
        neutral = identity_element(op, self.dtype)
        if length <= BLOCK:
            wide = self.unsqueeze(-2).expand((*lead, length, length))
            chosen = type(self)._of(_so_far(length), None).where(wide, neutral)
            return chosen._reduce(op, -1, keepdim=False)
        count = -(-length // BLOCK)
        fill = type(self)._of(counting(count * BLOCK, dtypes.weakint) < length, None)
        padded = self.pad([(0, 0)] * len(lead) + [(0, count * BLOCK - length)])
        inside = fill.where(padded, neutral).reshape(*lead, count, BLOCK)
        # The blocks are used twice, by their own elements and by the totals: as one value, they are stored.
        blocks = inside._running_rows(op)._make(Ops.CONTIGUOUS)
        totals = blocks[..., -1]._running_rows(op)
        before = totals.shrink([None] * len(lead) + [(0, count - 1)])
        shifted = before.pad([(0, 0)] * len(lead) + [(1, 0)]).unsqueeze(-1)
        first = type(self)._of(counting(count, dtypes.weakint).reshape(count, 1) < 1, None)
        whole = first.where(blocks, _both(op, blocks, shifted))
        ends = [None] * len(lead) + [(0, length)]
        return whole.reshape(*lead, count * BLOCK).shrink(ends)


def _both(op: Op, x: R, y: R) -> R:
    if op is Ops.ADD:
        return x + y
    return x * y if op is Ops.MUL else x.maximum(y)


def _so_far(length: int) -> UOp:
    """Whether element j stands before or at element i, for i in rows and j in columns."""
    row = counting(length, dtypes.weakint).reshape(length, 1)
    return ~(row < counting(length, dtypes.weakint))
