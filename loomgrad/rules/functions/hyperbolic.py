"""TANH.

With u = (e**2x - 1) / 2 for x at least 0, tanh x = u / (1 + u) = u - u u / (1 + u).  The second form is the more
accurate one for small u: only its first term must be.  Beyond 10 (20 for float64) the result rounds to 1.

u is computed without cancellation: e**2x = 2**n (1 + p) where p = e**2r - 1 is a polynomial without constant term, so
u = 2**(n-1) p + (2**(n-1) - 1/2).  How n is found is told in `exponential.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from loomgrad.dtype import dtypes
from loomgrad.ir.opcode import Ops
from loomgrad.ir.uop import UOp
from loomgrad.rules.functions.build import LAYOUTS, absolute, fused, polynomial, with_sign
from loomgrad.rules.functions.exponential import LN2, LOG2_E


@dataclass(frozen=True, slots=True)
class Tangent:
    """Where the result is 1, and (e**2r - 1 - 2r) / r**2 as a polynomial in r."""

    greatest: float
    coefficients: tuple[float, ...]


# For |r| <= ln 2 / 4, by Remez for the error relative to e**2r - 1, here in units of half a last place of 1; each
# coefficient was rounded to the dtype and those after it fitted again.
# fmt: off
_TANH = {
    # error 0.24
    dtypes.float32: Tangent(10.0, tuple(map(float.fromhex, (
        "0x1.fffffep+0", "0x1.5554acp+0", "0x1.55578ap-1", "0x1.122938p-2", "0x1.6afdaep-4")))),
    # error 0.003
    dtypes.float64: Tangent(20.0, tuple(map(float.fromhex, (
        "0x1p+1", "0x1.5555555555559p+0", "0x1.5555555555558p-1", "0x1.111111110f721p-2", "0x1.6c16c16c17728p-4",
        "0x1.a01a01af95f4ep-6", "0x1.a01a0198504c2p-8", "0x1.71ddf93d5ee25p-10", "0x1.27e506ff2239dp-12",
        "0x1.af5d11aff2351p-15", "0x1.1f21ad4cfb5ddp-17")))),
}
# fmt: on
_SWITCH = 0.75


def tanh(x: UOp) -> UOp:
    """The hyperbolic tangent for float32 (23 operations, one a division, error below 1.81 last places) and float64."""
    tangent, layout = _TANH[x.dtype], LAYOUTS[x.dtype]
    high, low = LN2[x.dtype]
    number = x.const_like
    size = absolute(x)
    bounded = (number(tangent.greatest) < size).where(number(tangent.greatest), size)
    to_integer = number(1.5 * 2.0**layout.fraction + layout.bias - 1)
    moved = fused(bounded, 2 * LOG2_E, to_integer)
    n = moved - to_integer
    r = fused(n, -low / 2, fused(n, -high / 2, bounded))
    growth = fused(r * r, polynomial(r, tangent.coefficients), r + r)
    bits = moved.bitcast(layout.unsigned)
    half_power = (bits << bits.const_like(layout.fraction)).bitcast(x.dtype)
    u = fused(half_power, growth, half_power - number(0.5))
    ratio = u.alu(Ops.FDIV, u + number(1.0))
    value = (u < number(_SWITCH)).where(fused(-u, ratio, u), ratio)
    sign = x.bitcast(layout.unsigned) & bits.const_like(layout.sign)
    return with_sign(value, sign)
