"""Guards of the algebra's rules, beside those that `loomgrad.ir.guard` has for every table."""

from __future__ import annotations

from loomgrad.dtype import dtypes
from loomgrad.ir.constant import constant_value, is_constant
from loomgrad.ir.guard import guard
from loomgrad.ir.uop import UOp


@guard
def all_int(*nodes: UOp) -> bool:
    """Each is an int: a weak int beside a float would be a float."""
    return all(node.dtype.is_int for node in nodes)


@guard
def is_strong(x: UOp) -> bool:
    """Not weak: the sums of weakint have a normal form of their own."""
    return not x.dtype.is_weak


@guard
def variable(x: UOp) -> bool:
    """Not a constant, so that constants have somewhere to move."""
    return not is_constant(x)


@guard
def below(x: UOp, c: UOp) -> bool:
    """0 <= x < c on every value."""
    low, high = x.bounds
    return 0 <= low <= high < c.bounds[0]


@guard
def at_least(x: UOp, y: UOp) -> bool:
    """Ints with x >= y on every value.  Floats may be NaN, which their bounds do not say."""
    if x.dtype.is_float or y.dtype.is_float:
        return False
    (low, high), (other_low, other_high) = x.bounds, y.bounds
    return high >= low >= other_high >= other_low


@guard
def divides(c: UOp, d: UOp) -> bool:
    """Positive constants with d a multiple of c."""
    divisor, multiple = constant_value(c), constant_value(d)
    return divisor > 0 and multiple > 0 and multiple % divisor == 0


@guard
def holds_product(x: UOp, c: UOp, d: UOp) -> bool:
    """Positive constants whose product the int dtype of x holds."""
    factor, other = constant_value(c), constant_value(d)
    fits = x.dtype.is_weak or factor * other <= dtypes.max(x.dtype)
    return factor > 0 and other > 0 and x.dtype.is_int and fits


@guard
def representable_difference(x: UOp, c: UOp, d: UOp) -> bool:
    """The int dtype of x has c - d."""
    difference = constant_value(c) - constant_value(d)
    return x.dtype.is_weak or dtypes.min(x.dtype) <= difference <= dtypes.max(x.dtype)


@guard
def has_before(x: UOp, c: UOp) -> bool:
    """The int dtype of x has c - 1."""
    return x.dtype.is_weak or constant_value(c) > dtypes.min(x.dtype)


@guard
def has_after(x: UOp, c: UOp) -> bool:
    """The int dtype of x has c + 1."""
    return x.dtype.is_weak or constant_value(c) < dtypes.max(x.dtype)


@guard
def is_signed(x: UOp) -> bool:
    """An int dtype with negative values; -1 is its greatest value in the others."""
    return x.dtype.is_int and not x.dtype.is_unsigned


@guard
def nonpositive(x: UOp) -> bool:
    """No value is above 0."""
    low, high = x.bounds
    return low <= high <= 0
