"""EXP and EXP2.

e**x = 2**n * e**r with r = x - n ln 2, and 2**x = 2**n * 2**r with r = x - n; a polynomial gives the value at r.

n is found without a conversion to an int: adding 1.5 * 2**23 (in float32) to a number rounds it to an integer, which
then stands in the low bits of the sum.  What is added here contains the bias of exponents too, so that shifting
these bits to the place of the exponent makes a power of two.

Results span more powers of two than there are normal numbers, so 2**n is multiplied in as two factors: for EXP the
same one twice (n is even, so |r| may reach ln 2), for EXP2, which is to be more accurate, two of about half of n each
(|r| at most 1/2).  All but the last product are exact, so a subnormal result is rounded once.
"""

from __future__ import annotations

from dataclasses import dataclass

from loomgrad.dtype import dtypes
from loomgrad.ir.uop import UOp
from loomgrad.rules.functions.build import LAYOUTS, clamp, fused, polynomial

LOG2_E = 1.4426950408889634


@dataclass(frozen=True, slots=True)
class Exponential:
    """A base in one dtype.

    Below `least` the result is 0, above `greatest` infinity.  The polynomial is in r; its errors are in last places
    of the result.
    """

    least: float
    greatest: float
    coefficients: tuple[float, ...]


# Minimax polynomials (Remez) for the error in last places of the result; each coefficient was rounded to the dtype and
# those after it fitted again.  The neighbours of the first rounded ones were tried as well.
# fmt: off
_EXP = {
    # |r| <= ln 2, error 0.18
    dtypes.float32: Exponential(-104.0, 89.0, tuple(map(float.fromhex, (
        "0x1p+0", "0x1p+0", "0x1.00000ep-1", "0x1.555536p-3", "0x1.554908p-5", "0x1.111a14p-7", "0x1.71ec90p-10",
        "0x1.a018f4p-13")))),
    # |r| <= ln 2, error 0.12
    dtypes.float64: Exponential(-746.0, 710.0, tuple(map(float.fromhex, (
        "0x1p+0", "0x1p+0", "0x1.ffffffffffff3p-2", "0x1.55555555555a2p-3", "0x1.5555555556a12p-5",
        "0x1.111111110a918p-7", "0x1.6c16c169a8734p-10", "0x1.a01a01ac74a14p-13", "0x1.a01a05a10c95fp-16",
        "0x1.71de2fbecfacep-19", "0x1.27e1b885a4287p-22", "0x1.ae6c17063b0e6p-26", "0x1.2181c7698de75p-29",
        "0x1.601ca924e67a1p-33")))),
}
_EXP2 = {
    # |r| <= 1/2, error 0.04
    dtypes.float32: Exponential(-151.0, 129.0, tuple(map(float.fromhex, (
        "0x1p+0", "0x1.62e430p-1", "0x1.ebfbdap-3", "0x1.c6af74p-5", "0x1.3b2ed8p-7", "0x1.5f0c42p-10",
        "0x1.40f3b8p-13")))),
    # |r| <= 1/2, error 0.07
    dtypes.float64: Exponential(-1076.0, 1025.0, tuple(map(float.fromhex, (
        "0x1p+0", "0x1.62e42fefa39f0p-1", "0x1.ebfbdff82c59dp-3", "0x1.c6b08d7049dc8p-5", "0x1.3b2ab6fba104ep-7",
        "0x1.5d87fe7927fbbp-10", "0x1.4309130c6e91ep-13", "0x1.ffcbfa2f31104p-17", "0x1.62bfcc487fa50p-20",
        "0x1.b529036d2f646p-24", "0x1.e6156548caac1p-28", "0x1.e4ad8fb754547p-32")))),
}
# ln 2 as a sum of two floats.  The first is below ln 2, so that both products with n = 0 have the same sign and
# subtracting them keeps -0.0.
LN2 = {
    dtypes.float32: (float.fromhex("0x1.62e42ep-1"), float.fromhex("0x1.efa39ep-25")),
    dtypes.float64: (float.fromhex("0x1.62e42fefa39efp-1"), float.fromhex("0x1.abc9e3b39803fp-56")),
}
# fmt: on


def exp(x: UOp) -> UOp:
    """e**x for float32 (16 operations, error below 1.6 last places) and float64."""
    base, layout = _EXP[x.dtype], LAYOUTS[x.dtype]
    high, low = LN2[x.dtype]
    bounded = clamp(x, base.least, base.greatest)
    to_even = x.const_like(1.5 * 2.0 ** (layout.fraction + 1) + 2 * layout.bias)
    moved = fused(bounded, LOG2_E, to_even)
    n = moved - to_even
    value = polynomial(fused(n, -low, fused(n, -high, bounded)), base.coefficients)
    bits = moved.bitcast(layout.unsigned)
    root = (bits << bits.const_like(layout.fraction)).bitcast(x.dtype)
    return value * root * root


def exp2(x: UOp, correction: UOp | None = None) -> UOp:
    """2**x for float32 (17 operations, error below 0.9 last places) and float64.

    `correction` is a small number to be added to x, without effect where the result is 0 or infinite.
    """
    base, layout = _EXP2[x.dtype], LAYOUTS[x.dtype]
    bounded = clamp(x, base.least, base.greatest)
    to_integer = x.const_like(1.5 * 2.0**layout.fraction + 2 * layout.bias)
    moved = bounded + to_integer
    rest = bounded - (moved - to_integer)
    if correction is not None:
        rest = rest + bounded.eq(x).where(correction, x.const_like(0.0))
    value = polynomial(rest, base.coefficients)
    bits = moved.bitcast(layout.unsigned)
    half = bits >> bits.const_like(1)
    first, second = (
        (part << bits.const_like(layout.fraction)).bitcast(x.dtype) for part in (half, bits - half)
    )
    return value * first * second
