"""Binary floating-point formats and exact rounding to them, without NumPy.

A format is plain numbers; a dtype owns one.  Rounding is to nearest, ties to even, done once from
the exact value: Python ints of any size do not pass through float64 on the way.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

FLOAT64_PRECISION = 53
STRUCT_OF_PRECISION = {11: struct.Struct("<e"), 24: struct.Struct("<f")}


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A binary format: `precision` counts the hidden bit; the smallest positive value is 2**lowest.

    `largest` is the greatest finite value.  Formats without infinity turn an overflow into NaN, as
    the 8-bit e4m3 does; the fnuz forms have no negative zero either.
    """

    precision: int
    lowest: int
    largest: float
    has_infinity: bool = True
    has_negative_zero: bool = True

    def holds_all_of(self, other: FloatFormat) -> bool:
        """Whether every value of `other` is a value of this format."""
        return (
            self.precision >= other.precision
            and self.lowest <= other.lowest
            and self.largest >= other.largest
            and self.has_infinity >= other.has_infinity
            and self.has_negative_zero >= other.has_negative_zero
        )

    def round(self, value: float) -> float:
        """`value` (an int or a float) rounded to this format."""
        if self.precision >= FLOAT64_PRECISION:
            return nearest_float64(value)
        exact = float_for_rounding(value) if isinstance(value, int) else value
        packer = STRUCT_OF_PRECISION.get(self.precision)
        if packer is None:
            return self._round_by_arithmetic(exact)
        try:
            (rounded,) = packer.unpack(packer.pack(exact))
        except OverflowError:
            return math.copysign(math.inf, exact)
        return float(rounded)

    def _round_by_arithmetic(self, value: float) -> float:
        if math.isnan(value):
            return math.nan
        rounded = value
        if abs(value) < 2 * self.largest:  # all others are beyond it, rounded or not
            step = max(math.frexp(value)[1] - self.precision, self.lowest)
            rounded = math.ldexp(round(math.ldexp(value, -step)), step)
        if abs(rounded) > self.largest:
            return math.copysign(math.inf, value) if self.has_infinity else math.nan
        if rounded == 0 and not self.has_negative_zero:
            return 0.0
        return math.copysign(rounded, value)


def nearest_float64(value: float) -> float:
    """`value` as a float64; an int beyond its range is infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def float_for_rounding(value: int) -> float:
    """A float64 that rounds to every shorter format as `value` itself does.

    Because: rounding twice to nearest can be wrong by one step; rounding to odd first cannot.
    """
    size = abs(value)
    excess = size.bit_length() - FLOAT64_PRECISION
    if excess <= 0:
        return float(value)
    kept = size >> excess
    if size != kept << excess:
        kept |= 1
    try:
        return math.copysign(math.ldexp(kept, excess), value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


FLOAT16 = FloatFormat(11, -24, 65504.0)
BFLOAT16 = FloatFormat(8, -133, math.ldexp(255, 120))
FLOAT32 = FloatFormat(24, -149, math.ldexp(2**24 - 1, 104))
FLOAT64 = FloatFormat(53, -1074, math.ldexp(2**53 - 1, 971))
FP8E4M3 = FloatFormat(4, -9, 448.0, has_infinity=False)
FP8E5M2 = FloatFormat(3, -16, 57344.0)
FP8E4M3FNUZ = FloatFormat(4, -10, 240.0, has_infinity=False, has_negative_zero=False)
FP8E5M2FNUZ = FloatFormat(3, -17, 57344.0, has_infinity=False, has_negative_zero=False)
