"""Floor division and its remainder, for `UOp` and `Tensor`: `//` and `%`, as NumPy has them.

Ints have operations of their own.  The remainder of floats is exact: each step takes a multiple of the divisor away
in one rounding, MULACC(-q, y, r) with q = trunc(r / y), which loses nothing; the rounded quotient may be one too
large, and then the remainder has the wrong sign and the divisor is added again.
"""

from __future__ import annotations

import math
from typing import Self, TypeVar

from loomgrad.dtype import dtypes, least_upper_dtype
from loomgrad.ir.arithmetic import Arithmetic
from loomgrad.ir.opcode import Op, Ops
from loomgrad.ir.operand import Number, check_broadcast

# Each step divides the remainder by 2**53 at least: six are enough for any two float32 numbers.
STEPS = 6
D = TypeVar("D", bound="Division")


class Division(Arithmetic):
    """Quotients of floats are computed in float64, exact up to 2**53; remainders for quotients up to 2**318."""

    __slots__ = ()

    def __floordiv__(self, other: Self | Number) -> Self:
        return self._floor_divide(other, swapped=False)

    def __rfloordiv__(self, other: Number) -> Self:
        return self._floor_divide(other, swapped=True)

    def __mod__(self, other: Self | Number) -> Self:
        return self._modulo(other, swapped=False)

    def __rmod__(self, other: Number) -> Self:
        return self._modulo(other, swapped=True)

    def _floor_divide(self, value: Self | Number, swapped: bool) -> Self:
        other = self._lift(value)
        if least_upper_dtype(self.dtype, other.dtype).is_float:
            return self._divided(Ops.FLOORDIV, other, swapped)[0]
        return self._integers(Ops.FLOORDIV, other, swapped)

    def _modulo(self, value: Self | Number, swapped: bool) -> Self:
        other = self._lift(value)
        if least_upper_dtype(self.dtype, other.dtype).is_float:
            return self._divided(Ops.FLOORMOD, other, swapped)[1]
        return self._integers(Ops.FLOORMOD, other, swapped)

    def _divided(self, op: Op, other: Self, swapped: bool) -> tuple[Self, Self]:
        """Quotient and remainder of floats."""
        check_broadcast(op, self, other)
        dtype = least_upper_dtype(self.dtype, other.dtype)
        wide = dtype if dtype.is_weak else dtypes.float64
        x, y = (operand.cast(dtype).cast(wide) for operand in (self, other))
        quotient, remainder = _floored(y, x) if swapped else _floored(x, y)
        return quotient.cast(dtype), remainder.cast(dtype)


def _floored(x: D, y: D) -> tuple[D, D]:
    """x // y and x % y of floats of one dtype."""
    quotient, rest = _truncated(x, y)
    negative = y < 0
    wrong = (rest < 0)._compare(Ops.CMPNE, negative) & rest._compare(Ops.CMPNE, 0)
    # A remainder of 0 gets the sign of the divisor: r + 0 and 0 - r are +0 for both zeros.
    signed = negative.where(-(0.0 - rest), rest + 0.0)
    return quotient - wrong.where(1.0, 0.0), wrong.where(rest + y, signed)


def _truncated(x: D, y: D) -> tuple[D, D]:
    """x / y without its fraction, but perhaps one too large, and the exact rest."""
    size = y._compare(Ops.CMPEQ, math.inf) | y._compare(Ops.CMPEQ, -math.inf)
    taken = size.where(0.0, y)  # 0 times infinity is not to be taken away
    first = quotient = x._binary(Ops.FDIV, y).trunc()
    rest = (-first)._make(Ops.MULACC, (taken, x))
    for _ in range(STEPS - 1):
        part = rest._binary(Ops.FDIV, y).trunc()
        rest = (-part)._make(Ops.MULACC, (taken, rest))
        quotient = quotient + part
    none = y._compare(Ops.CMPEQ, 0) | quotient._compare(Ops.CMPEQ, 0)
    return none.where(first, quotient), rest
