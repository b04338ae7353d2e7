"""Interval rules: from the intervals of a node's sources to an interval that holds every value of the node.

An interval is (least, greatest), both possible to be wider than the truth, never narrower.  An empty range of a
loop without iterations is (0, -1), from which nothing may be concluded.  Floats have the whole interval unless
they are constants or casts of bounded ints, since NaN is outside of every interval.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from loomgrad.dtype import DType, cast_value, dtypes
from loomgrad.ir.args import Invalid
from loomgrad.ir.fold import floor_divide, shift, truncate_toward_zero
from loomgrad.ir.opcode import Ops

if TYPE_CHECKING:
    from loomgrad.ir.uop import UOp

Number = int | float | bool
Interval = tuple[Number, Number]
BOTH: Interval = (False, True)


def whole(dtype: DType) -> Interval:
    """Every value of a dtype."""
    if dtype.is_float:
        return -math.inf, math.inf
    if dtype.is_bool:
        return BOTH
    if dtype.is_int:
        return dtypes.min(dtype), dtypes.max(dtype)
    return -math.inf, math.inf


def whole_bounds(node: UOp) -> Interval:
    """Nothing is known."""
    return whole(node.dtype)


def first_bounds(node: UOp) -> Interval:
    """As the first source."""
    return node.src[0].bounds


def const_bounds(node: UOp) -> Interval:
    """The value itself; NaN and Invalid bound nothing."""
    value = node.arg
    if value is Invalid:
        return BOTH
    if isinstance(value, float) and math.isnan(value):
        return -math.inf, math.inf
    return value, value


def range_bounds(node: UOp) -> Interval:
    """[0, extent - 1]."""
    return 0, int(node.src[0].bounds[1]) - 1


def hull_bounds(node: UOp) -> Interval:
    """The hull of all sources."""
    if not node.src:
        return whole(node.dtype)
    return min(s.bounds[0] for s in node.src), max(s.bounds[1] for s in node.src)


def trunc_bounds(node: UOp) -> Interval:
    """Towards zero, which keeps the order."""
    low, high = node.src[0].bounds
    return truncate_toward_zero(low), truncate_toward_zero(high)


def pad_bounds(node: UOp) -> Interval:
    """The source and the zeros around it."""
    low, high = node.src[0].bounds
    return min(low, 0), max(high, 0)


def _fitting(node: UOp, low: Number, high: Number) -> Interval:
    """The interval, or the whole dtype where a strong int could wrap."""
    dtype = node.dtype
    if dtype.is_int and not dtype.is_weak and (low < dtypes.min(dtype) or high > dtypes.max(dtype)):
        return whole(dtype)
    return low, high


def _usable(node: UOp) -> bool:
    """Whether all sources are integers or bools with nonempty intervals."""
    return all(
        not s.dtype.is_float and not isinstance(s.bounds[0], float) and s.bounds[0] <= s.bounds[1]
        for s in node.src
    )


def arithmetic_bounds(node: UOp) -> Interval:
    """ADD, SUB, MUL, MAX, NEG on integers by their corners."""
    if node.dtype.is_bool or not _usable(node):
        return whole(node.dtype)
    low, high = node.src[0].bounds
    if node.op is Ops.NEG:
        return _fitting(node, -high, -low)
    other_low, other_high = node.src[1].bounds
    if node.op is Ops.ADD:
        return _fitting(node, low + other_low, high + other_high)
    if node.op is Ops.SUB:
        return _fitting(node, low - other_high, high - other_low)
    if node.op is Ops.MAX:
        return max(low, other_low), max(high, other_high)
    corners = [a * b for a in (low, high) for b in (other_low, other_high)]
    return _fitting(node, min(corners), max(corners))


def division_bounds(node: UOp) -> Interval:
    """FLOORDIV, FLOORMOD, CDIV, CMOD; a divisor that may be 0 also gives 0."""
    if not _usable(node):
        return whole(node.dtype)
    low, high = (int(v) for v in node.src[0].bounds)
    div_low, div_high = (int(v) for v in node.src[1].bounds)
    if node.op is Ops.FLOORDIV or node.op is Ops.CDIV:
        return _fitting(node, *_quotient_bounds(node, low, high, div_low, div_high))
    if div_low == div_high and div_low > 0 and node.op is Ops.FLOORMOD:
        if low // div_low == high // div_low:
            return low % div_low, high % div_low
        return 0, div_low - 1
    widest = max(abs(div_low), abs(div_high), 1) - 1
    if node.op is Ops.FLOORMOD:
        return (-widest if div_low < 0 else 0), (widest if div_high > 0 else 0)
    if div_low == div_high and div_low > 0 and low >= 0 and low // div_low == high // div_low:
        return low % div_low, high % div_low
    return max(-widest, min(low, 0)), min(widest, max(high, 0))


def _quotient_bounds(node: UOp, low: int, high: int, div_low: int, div_high: int) -> Interval:
    divisors = {d for d in (div_low, div_high, -1, 1) if d != 0 and div_low <= d <= div_high}
    quotients = []
    for divisor in divisors:
        for value in (low, high):
            if node.op is Ops.FLOORDIV:
                quotients.append(floor_divide(value, divisor))
            else:
                size = abs(value) // abs(divisor)
                quotients.append(size if (value < 0) == (divisor < 0) else -size)
    if div_low <= 0 <= div_high:
        quotients.append(0)
    return min(quotients), max(quotients)


def comparison_bounds(node: UOp) -> Interval:
    """Decided where the intervals do not overlap, or are one point."""
    if not _usable(node):
        return BOTH
    (low, high), (other_low, other_high) = node.src[0].bounds, node.src[1].bounds
    if node.op is Ops.CMPLT:
        return high < other_low, low < other_high
    apart = high < other_low or other_high < low
    same = low == high == other_low == other_high
    if node.op is Ops.CMPNE:
        return apart, not same
    return same, not apart


def logic_bounds(node: UOp) -> Interval:
    """AND with something nonnegative is nonnegative and no larger; bools by cases."""
    if not _usable(node):
        return whole(node.dtype)
    (low, high), (other_low, other_high) = node.src[0].bounds, node.src[1].bounds
    if node.dtype.is_bool:
        if node.op is Ops.AND:
            return bool(low and other_low), bool(high and other_high)
        if node.op is Ops.OR:
            return bool(low or other_low), bool(high or other_high)
        return BOTH
    if node.op is Ops.AND and (low >= 0 or other_low >= 0):
        return 0, min(v for lo, v in ((low, high), (other_low, other_high)) if lo >= 0)
    if node.op is not Ops.AND and low >= 0 and other_low >= 0:
        bits = max(int(high).bit_length(), int(other_high).bit_length())
        return (max(low, other_low) if node.op is Ops.OR else 0), (1 << bits) - 1
    return whole(node.dtype)


def shift_bounds(node: UOp) -> Interval:
    """Shifts by a constant."""
    distance = node.src[1].bounds
    if not _usable(node) or distance[0] != distance[1] or not 0 <= distance[0] < 64:
        return whole(node.dtype)
    (low, high), count = node.src[0].bounds, int(distance[0])
    if 0 < node.dtype.bits <= count:
        return 0, 0
    ends = [shift(node.op, int(value), count) for value in (low, high)]
    return _fitting(node, min(ends), max(ends))


def where_bounds(node: UOp) -> Interval:
    """The hull of both arms; Invalid is never read and adds nothing."""
    arms = [arm for arm in node.src[1:] if arm.arg is not Invalid]
    if node.dtype.is_float or not arms:
        return whole(node.dtype)
    return min(arm.bounds[0] for arm in arms), max(arm.bounds[1] for arm in arms)


def cast_bounds(node: UOp) -> Interval:
    """Monotone where nothing wraps; floats saturate into ints."""
    source, target = node.src[0], node.dtype
    low, high = source.bounds
    if low > high or math.isinf(low) or math.isinf(high):
        return whole(target)
    if target.is_bool:
        return bool(low > 0 or high < 0), not low == high == 0
    if target.is_int and not source.dtype.is_float:
        return _fitting(node, int(low), int(high))
    return cast_value(low, source.dtype, target), cast_value(high, source.dtype, target)
