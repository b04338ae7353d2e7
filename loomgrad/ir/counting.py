"""0, 1, 2 ... as a graph: there is no operation for it, and none is needed."""

from __future__ import annotations

from loomgrad.dtype import DType, dtypes
from loomgrad.ir.uop import UOp

BLOCK = 64


def counting(count: int, dtype: DType = dtypes.int32) -> UOp:
    """The numbers 0 .. count - 1: a running sum of ones, minus one.

    The scheduler turns such a sum into the index itself.  Longer counts are made of blocks, so that also
    whoever computes the sums, as the evaluator does, needs time in proportion to the count.
    """
    if count <= BLOCK:
        return _running_count(count, dtype)
    rows = -(-count // BLOCK)
    grid = counting(rows, dtype).reshape(rows, 1) * BLOCK + _running_count(BLOCK, dtype)
    return grid.reshape(rows * BLOCK).shrink(((0, count),))


def _running_count(count: int, dtype: DType) -> UOp:
    """How many ones stand before each of `count` places.

    Row i of the window sees the places i .. i + count - 1 of count zeros followed by ones: i ones.
    """
    if count == 0:
        return UOp.const(0, dtype).expand(0)
    width = 2 * count
    ones = UOp.const(1, dtype).expand(count).pad(((count, 0),))
    windows = ones.expand(count + 1, width).reshape((count + 1) * width)
    skewed = windows.shrink(((0, count * (width + 1)),)).reshape(count, width + 1)
    return skewed.shrink((None, (0, count))).sum(1)
