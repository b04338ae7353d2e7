"""LOG and LOG2.

x = 2**n * m with m in [sqrt(1/2), sqrt(2)), and log x = n log 2 + log(1 + f) with f = m - 1, which is exact.  The
logarithm of 1 + f is f + f**2 q(f) (times log2 e), with the small term computed apart and added last, so that the
result is accurate relative to its size also where it crosses 0.

n and m come from the bits: adding the distance from sqrt(1/2) to 1 carries into the exponent where the fraction is
at least that of sqrt(1/2).  An integer of few bits under the exponent of 2**23 (for float32) is the float 2**23 + n,
which saves a conversion.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from loomgrad.dtype import dtypes
from loomgrad.ir.uop import UOp
from loomgrad.rules.functions.build import LAYOUTS, fused, polynomial
from loomgrad.rules.functions.exponential import LN2

# The bits of sqrt(1/2), of each float nearest to it.
SQRT_HALF = {dtypes.float32: 0x3F3504F3, dtypes.float64: 0x3FE6A09E667F3BCD}
# log2 e as a sum of two floats
LOG2_E = {
    dtypes.float32: (float.fromhex("0x1.715476p+0"), float.fromhex("0x1.4ae0c0p-26")),
    dtypes.float64: (float.fromhex("0x1.71547652b82fep+0"), float.fromhex("0x1.777d0ffda0d24p-56")),
}
# q on [sqrt(1/2) - 1, sqrt(2) - 1], by Remez for the error relative to the logarithm, here in units of half a last
# place of 1; each coefficient was rounded to the dtype and those after it fitted again.
# fmt: off
_LOG = {
    # error 0.51
    dtypes.float32: tuple(map(float.fromhex, (
        "-0x1.fffffap-2", "0x1.5556f4p-2", "-0x1.0004c2p-2", "0x1.98d324p-3", "-0x1.535748p-3", "0x1.317a74p-3",
        "-0x1.2522cep-3", "0x1.6643b8p-4"))),
    # error 0.47
    dtypes.float64: tuple(map(float.fromhex, (
        "-0x1.ffffffffffffbp-2", "0x1.55555555551a3p-2", "-0x1.0000000000927p-2", "0x1.9999999a332f4p-3",
        "-0x1.5555555529460p-3", "0x1.249248e033880p-3", "-0x1.ffffff8fd3833p-4", "0x1.c71c8f1c2b1fep-4",
        "-0x1.9999c9b872967p-4", "0x1.7459ab3789912p-4", "-0x1.554d336225f83p-4", "0x1.3b4c777029022p-4",
        "-0x1.254806b7fc26ep-4", "0x1.0f36dfb44b145p-4", "-0x1.eeecd2948850dp-5", "0x1.e9760e15e961cp-5",
        "-0x1.15f869d822c77p-4", "0x1.02e48f7e9efb9p-4", "-0x1.cf1e87ddd0ab5p-6"))),
}
_LOG2 = {
    # error 0.09
    dtypes.float32: tuple(map(float.fromhex, (
        "-0x1.715470p-1", "0x1.ec7078p-2", "-0x1.715b14p-2", "0x1.2786fep-2", "-0x1.eaa8b2p-3", "0x1.a18d7ap-3",
        "-0x1.867ad8p-3", "0x1.86db24p-3", "-0x1.de8c78p-4"))),
    # error 0.48
    dtypes.float64: tuple(map(float.fromhex, (
        "-0x1.71547652b82fbp-1", "0x1.ec709dc39fe8ep-2", "-0x1.71547652b8d74p-2", "0x1.2776c50f6a5c9p-2",
        "-0x1.ec709dc39ec08p-3", "0x1.a6176243c3680p-3", "-0x1.715475ee93478p-3", "0x1.484b29305e06ep-3",
        "-0x1.2776eae6c7365p-3", "0x1.0c980a544a215p-3", "-0x1.ec644fb80cd06p-4", "0x1.c6e0f796aa759p-4",
        "-0x1.a724fdb4603bap-4", "0x1.87525223369d3p-4", "-0x1.64d43e46f8bb9p-4", "0x1.60a04bede9223p-4",
        "-0x1.9154fcb785876p-4", "0x1.7722a043429fep-4", "-0x1.508789c064818p-5"))),
}
# fmt: on


@dataclass(frozen=True, slots=True)
class Parts:
    """x = 2**exponent * (1 + fraction), for finite x above 0."""

    exponent: UOp
    fraction: UOp


def split(x: UOp) -> Parts:
    """The exponent and the fraction of x, subnormals included."""
    layout = LAYOUTS[x.dtype]
    number, digits = x.const_like, layout.fraction + 1
    tiny = x < number(2.0 ** (1 - layout.bias))
    scaled = tiny.where(x * number(2.0**digits), x)
    bits = scaled.bitcast(layout.unsigned)
    sqrt_half = SQRT_HALF[x.dtype]
    raised = bits + bits.const_like(layout.power_of_two(0) - sqrt_half)
    biased = raised >> bits.const_like(layout.fraction)
    aligned = biased | bits.const_like(layout.power_of_two(layout.fraction))
    offset = 2.0**layout.fraction + layout.bias
    exponent = aligned.bitcast(x.dtype) - tiny.where(number(offset + digits), number(offset))
    mantissa = (raised & bits.const_like(layout.fraction_mask)) + bits.const_like(sqrt_half)
    return Parts(exponent, mantissa.bitcast(x.dtype) - number(1.0))


def log(x: UOp) -> UOp:
    """The natural logarithm for float32 (28 operations, error below 1.2 last places) and float64."""
    parts, (high, low) = split(x), LN2[x.dtype]
    f = parts.fraction
    rest = fused(f * f, polynomial(f, _LOG[x.dtype]), fused(parts.exponent, low, f))
    return _at_edges(x, fused(parts.exponent, high, rest))


def log2(x: UOp) -> UOp:
    """The logarithm to base 2 for float32 (29 operations, error below 1 last place) and float64."""
    parts, (high, low) = split(x), LOG2_E[x.dtype]
    f = parts.fraction
    small = f * fused(f, polynomial(f, _LOG2[x.dtype]), low)
    return _at_edges(x, parts.exponent + fused(f, high, small))


def _at_edges(x: UOp, value: UOp) -> UOp:
    """`value` for finite x above 0; infinity at infinity, -infinity at 0, else NaN."""
    number = x.const_like
    zero = number(0.0)
    below = x.eq(zero).where(number(-math.inf), number(math.nan))
    return (zero < x).where((x < number(math.inf)).where(value, x), below)
