"""What the expressions of elementary functions are written with.

All constants are typed, so that the expressions mean the same before and after weak values get their dtypes.
Choices are written as WHERE of CMPLT, in the order that lets NaN through and that x86 has one instruction for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loomgrad.dtype import DType, dtypes
from loomgrad.ir.opcode import Ops
from loomgrad.ir.uop import UOp


@dataclass(frozen=True, slots=True)
class Layout:
    """How the bits of a float lie: sign, then exponent plus `bias`, then `fraction` bits."""

    signed: DType
    unsigned: DType
    fraction: int
    bias: int

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << (self.signed.bits - 1)

    @property
    def fraction_mask(self) -> int:
        """The bits of the fraction."""
        return (1 << self.fraction) - 1

    def power_of_two(self, exponent: int) -> int:
        """The bits of 2**exponent."""
        return (exponent + self.bias) << self.fraction


LAYOUTS = {
    dtypes.float32: Layout(dtypes.int32, dtypes.uint32, 23, 127),
    dtypes.float64: Layout(dtypes.int64, dtypes.uint64, 52, 1023),
}


def fused(a: UOp, b: UOp | float, c: UOp | float) -> UOp:
    """a * b + c with one rounding."""
    return a.alu(Ops.MULACC, *(v if isinstance(v, UOp) else a.const_like(v) for v in (b, c)))


def polynomial(x: UOp, coefficients: Sequence[float]) -> UOp:
    """The polynomial with these coefficients, the constant one first, by Horner's rule."""
    result: UOp | float = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        result = fused(x, result, coefficient)
    assert isinstance(result, UOp)
    return result


def clamp(x: UOp, least: float, greatest: float) -> UOp:
    """x, but not below `least` nor above `greatest`; NaN stays."""
    low, high = x.const_like(least), x.const_like(greatest)
    raised = (x < low).where(low, x)
    return (high < raised).where(high, raised)


def absolute(x: UOp) -> UOp:
    """x without its sign bit."""
    layout = LAYOUTS[x.dtype]
    bits = x.bitcast(layout.unsigned)
    return (bits & bits.const_like(layout.sign - 1)).bitcast(x.dtype)


def with_sign(x: UOp, sign: UOp) -> UOp:
    """x with its sign bit flipped where that bit of `sign`, an unsigned int, is set.  Its other bits are 0."""
    return (x.bitcast(sign.dtype) ^ sign).bitcast(x.dtype)
