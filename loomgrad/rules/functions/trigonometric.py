"""SIN and COS, over the whole range of float32 and float64.

sin x = +-sin r where r = x - n pi, n the integer nearest to x / pi, the sign by the parity of n.  On [-pi/2, pi/2] an
odd polynomial gives sin r.  cos x is sin(x + pi/2): there n is the integer nearest to x / pi + 1/2, and pi/2 is added
where r is computed, as x + pi/2 itself would be rounded.  How r is found exactly for arguments of every size is in
`angle.py`.
"""

from __future__ import annotations

from loomgrad.dtype import dtypes
from loomgrad.ir.uop import UOp
from loomgrad.rules.functions.angle import reduced_double, reduced_float
from loomgrad.rules.functions.build import absolute, fused, polynomial

# (sin(r) / r - 1) / r**2 as a polynomial in r**2 for |r| <= pi/2 (1 + 2**-10), by Remez for the error relative to the
# sine, here in units of half a last place of 1; each coefficient was rounded to the dtype and those after it fitted
# again.  Those for float32 were then varied by a few last places, for the least error of the sine as it is computed and
# so that no result is beyond 1.
# fmt: off
_SINE = {
    # error 0.11 before that
    dtypes.float32: tuple(map(float.fromhex, (
        "-0x1.55554ep-3", "0x1.110eeep-7", "-0x1.9f71dep-13", "0x1.5dc720p-19"))),
    # error 0.003
    dtypes.float64: tuple(map(float.fromhex, (
        "-0x1.5555555555555p-3", "0x1.11111111110c8p-7", "-0x1.a01a01a014d6ep-13", "0x1.71de3a52a0a13p-19",
        "-0x1.ae6454d4680b2p-26", "0x1.6123cd02cbb6dp-33", "-0x1.ae4382e5f2794p-41", "0x1.88327377c5df9p-49"))),
}
# fmt: on
# Below these 1 - x**2 / 2 rounds to 1.
_COSINE_IS_ONE = {dtypes.float32: 2.0**-12, dtypes.float64: 2.0**-27}


def sin(x: UOp) -> UOp:
    """The sine for float32 (39 operations, 20 of them in float64; error below 1.95 last places) and float64.

    The sum at the end loses the sign of -0.0, which the last line gives back.
    """
    r = reduced_float(x) if x.dtype is dtypes.float32 else reduced_double(x)
    value = _sine(r)
    return x.eq(x.const_like(0.0)).where(x, value)


def cos(x: UOp) -> UOp:
    """The cosine for float32 (41 operations) and float64, as accurate as the sine, also next to its zeros.

    The sine is flat at its peak and so is its error: where 1 is the nearest number, the last line says so.
    """
    r = (
        reduced_float(x, quarter=True)
        if x.dtype is dtypes.float32
        else reduced_double(x, quarter=True)
    )
    small = absolute(x) < x.const_like(_COSINE_IS_ONE[x.dtype])
    return small.where(x.const_like(1.0), _sine(r))


def _sine(r: UOp) -> UOp:
    """The sine of |r| <= pi/2."""
    square = r * r
    return fused(square * r, polynomial(square, _SINE[r.dtype]), r)
