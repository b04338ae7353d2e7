"""POW.

|a|**b = 2**(b log2 |a|).  For float32 this is computed in float64, which leaves one rounding.  For float64 the
logarithm and its product with b are sums of two floats; what the logarithm's polynomial loses remains, so the error
grows with the exponent of the result, to some 100 last places at its ends.

Signs and edges are those of C: anything to the power 0 is 1, and so is 1 to any power; a negative finite number to a
power that is no integer is NaN.
"""

from __future__ import annotations

import math

from loomgrad.dtype import dtypes
from loomgrad.ir.opcode import Ops
from loomgrad.ir.uop import UOp
from loomgrad.rules.functions.build import LAYOUTS, absolute, fused
from loomgrad.rules.functions.exponential import exp2
from loomgrad.rules.functions.logarithm import log2, log2_terms


def power(a: UOp, b: UOp) -> UOp:
    """a**b for float32 (error below 0.6 last places) and float64."""
    if a.dtype is dtypes.float32:
        return power(a.cast(dtypes.float64), b.cast(dtypes.float64)).cast(dtypes.float32)
    number = a.const_like
    size = absolute(a)
    one, zero = number(1.0), number(0.0)
    whole = b.trunc().eq(b)
    half = b * number(0.5)
    odd = whole & ~half.trunc().eq(half)
    value = _of_positive(size, b)
    value = (size.eq(one) & b.eq(b)).where(one, value)
    layout = LAYOUTS[a.dtype]
    bits = a.bitcast(layout.unsigned)
    sign = odd.where(bits & bits.const_like(layout.sign), bits.const_like(0))
    value = (value.bitcast(layout.unsigned) ^ sign).bitcast(a.dtype)
    refused = (a < zero) & (size < number(math.inf)) & ~whole
    value = refused.where(number(math.nan), value)
    return (b.eq(zero) | a.eq(one)).where(one, value)


def _of_positive(a: UOp, b: UOp) -> UOp:
    """a**b for a >= 0, other than 1."""
    high, low = log2_terms(a)
    edge = log2(a)
    product = b * edge
    rest = fused(b, high, product.alu(Ops.NEG)) + b * low
    finite = a.eq(a) & (a.const_like(0.0) < a) & (a < a.const_like(math.inf))
    small = absolute(rest) < a.const_like(1.0)
    return exp2(product, (finite & small).where(rest, a.const_like(0.0)))
