"""POW, of floats and of ints.

Floats: |a|**b = 2**(b log2 |a|), then the cases that C's pow lists.  The product can reach 1024, and its error is
multiplied by as much in the result, so the logarithm must carry ten more bits than the result.  For float32 all of it
is done in float64.  For float64 the logarithm is a sum of two floats, good to some 64 bits (Dekker's arithmetic).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from loomgrad.dtype import dtypes
from loomgrad.ir.uop import UOp
from loomgrad.rules.functions.build import LAYOUTS, absolute, fused, polynomial, with_sign
from loomgrad.rules.functions.exponential import exp2
from loomgrad.rules.functions.logarithm import log2, split

# With z = s**2, log2((1 + s) / (1 - s)) / s = A + z (B + z R(z)).  A = 2 log2 e and B = A / 3 are sums of two floats;
# R is by Remez for |s| <= 3 - sqrt(8), with an error of 2**-66 relative to the logarithm.
# fmt: off
_A = (float.fromhex("0x1.71547652b82fep+1"), float.fromhex("0x1.777d0ffda0d24p-55"))
_B = (float.fromhex("0x1.ec709dc3a03fdp-1"), float.fromhex("0x1.d27f05548af0cp-55"))
_R = tuple(map(float.fromhex, (
    "0x1.2776c50ef9d23p-1", "0x1.a61762a759bcap-2", "0x1.484b142173069p-2", "0x1.0c9a63e378b0fp-2",
    "0x1.c69f8792af026p-3", "0x1.87b12a13b0d35p-3", "0x1.85e558e7835f8p-3")))
# fmt: on


def float_power(a: UOp, b: UOp) -> UOp:
    """a**b for float32 (error below 0.6 last places) and float64 (below 1)."""
    if a.dtype is dtypes.float32:
        wide = [x.cast(dtypes.float64) for x in (absolute(a), b)]
        size = exp2(wide[1] * log2(wide[0])).cast(dtypes.float32)
    else:
        size = _double_power(absolute(a), b)
    return _at_edges(a, b, size)


def int_power(a: UOp, b: UOp) -> UOp:
    """a**b for ints, wrapping, 0 for negative b: a product of squares, one for each bit that b may have."""
    least, greatest = b.bounds
    result = a.const_like(1)
    square = a
    for bit in range(int(greatest).bit_length()):
        odd = (b & b.const_like(1 << bit)).ne(b.const_like(0))
        result = odd.where(result * square, result)
        square = square * square
    return result if least >= 0 else (b < b.const_like(0)).where(a.const_like(0), result)


def _at_edges(a: UOp, b: UOp, size: UOp) -> UOp:
    """a**b where |a|**b is `size`, as far as its logarithm gives that: C's special cases.

    1**b and a**0 are 1 even beside NaN.  A negative base has the sign of an odd exponent, gives NaN for one with a
    fraction unless the base is infinite, and counts infinite exponents as even: so (-1)**inf is 1.
    """
    number, layout = a.const_like, LAYOUTS[a.dtype]
    one, zero = number(1.0), number(0.0)
    whole = b.trunc().eq(b)
    half = b * number(0.5)
    odd = whole & half.trunc().ne(half)
    certain = absolute(a).eq(one) & b.eq(b)
    size = certain.where(one, size)
    bits = a.bitcast(layout.unsigned)
    sign = odd.where(bits & bits.const_like(layout.sign), bits.const_like(0))
    complex_result = (a < zero) & (number(-math.inf) < a) & ~whole
    value = complex_result.where(number(math.nan), with_sign(size, sign))
    return (b.eq(zero) | a.eq(one)).where(one, value)


@dataclass(frozen=True, slots=True)
class Pair:
    """The unrounded sum of two floats, the second about half a last place of the first at most."""

    high: UOp
    low: UOp


def _sum(a: UOp, b: UOp, low: UOp | None = None) -> Pair:
    """a + b + low, where |a| is at least |b|, or a is 0."""
    high = a + b
    lost = (a - high) + b
    return Pair(high, lost if low is None else lost + low)


def _product(a: Pair, b: Pair) -> Pair:
    high = a.high * b.high
    return Pair(high, fused(a.low, b.high, fused(a.high, b.low, fused(a.high, b.high, -high))))


def _double_power(a: UOp, b: UOp) -> UOp:
    """a**b for float64 a without sign, apart from special cases."""
    number, logarithm = a.const_like, _log2_pair(a)
    high = b * logarithm.high
    low = fused(b, logarithm.low, fused(b, logarithm.high, -high))
    zero = number(0.0)
    finite = (zero < a) & (a < number(math.inf))
    edge = a.eq(zero).where(number(-math.inf), a)
    return exp2(finite.where(high, b * edge), low)


def _log2_pair(x: UOp) -> Pair:
    """The logarithm to base 2 of a finite float64 above 0, by s = f / (2 + f) with x = 2**n (1 + f)."""
    parts, number = split(x), x.const_like
    s = _quotient(parts.fraction, _sum(number(2.0), parts.fraction))
    z = _product(s, s)
    inner = _sum(number(_B[0]), z.high * polynomial(z.high, _R), number(_B[1]))
    outer = _product(z, inner)
    slope = _sum(number(_A[0]), outer.high, outer.low + number(_A[1]))
    mantissa = _product(s, slope)
    return _sum(parts.exponent, mantissa.high, mantissa.low)


def _quotient(a: UOp, b: Pair) -> Pair:
    inverse = b.high.reciprocal()
    high = a * inverse
    return Pair(high, fused(high, -b.low, fused(high, -b.high, a)) * inverse)
