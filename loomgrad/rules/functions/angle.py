"""Arguments of periodic functions, reduced exactly: r with sin r = sin x, or = cos x, and |r| at most pi/2.

A float32 may be as large as 2**128, a float64 as 2**1024, and x mod pi needs all digits of x / pi down to some 2**-60
(2**-120), because x can lie that close to a multiple of pi.  WHERE computes both of its arms, so a separate path for
large arguments costs the small ones as much.  Therefore:

float32: one path, in float64.  x = m * 2**k, and 2**k / pi mod 2 is a constant; there are five k, chosen by the size
of x so that m is an integer (for k = 0 m is x itself) and its product with the constant below 2**44.  The constant is
a sum of two float64, about 107 bits, which gives the product mod 2 to within 2**-61; the nearest that a float32 comes
to a multiple of pi is some 2**-31 half turns.

float64: below 2**40 the classical reduction of Cody and Waite, n pi subtracted in three parts with fused
multiplications.  Above it Payne and Hanek's: 192 bits of 1 / pi, from the place where their product with x has the
units, as three 64-bit words times the 53 bits of x.  That arm costs some 100 integer operations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from loomgrad.dtype import dtypes
from loomgrad.ir.uop import UOp
from loomgrad.rules.functions.build import LAYOUTS, absolute, fused, with_sign

# fmt: off
# From which size of x on: 2**-k, and 2**k / pi mod 2 as a sum of two float64.  With these k the products are small.
_HALF_TURNS = (
    (0.0,      1.0,      float.fromhex("0x1.45f306dc9c883p-2"), float.fromhex("-0x1.6b01ec5417056p-56")),
    (2.0**45,  2.0**-19, float.fromhex("0x1.b727220a94fe1p-5"), float.fromhex("0x1.d5f47d4d37703p-60")),
    (2.0**67,  2.0**-44, float.fromhex("0x1.054a7f09d5f48p-3"), float.fromhex("-0x1.596447e493ad5p-58")),
    (2.0**90,  2.0**-65, float.fromhex("-0x1.ec54170565912p-7"), float.fromhex("0x1.b6c52b3278872p-65")),
    (2.0**115, 2.0**-92, float.fromhex("0x1.1f534ddc0db63p-1"), float.fromhex("-0x1.a99b0ef1bef80p-55")),
)
_PI = (float.fromhex("0x1.921fb54442d18p+1"), float.fromhex("0x1.1a62633145c07p-53"),
       float.fromhex("-0x1.f1976b7ed8fbcp-109"))
# 1 / pi * 2**1203: its first 1203 bits.
_INVERSE_PI = int(
    "28be60db9391054a7f09d5f47d4d377036d8a5664f10e4107f9458eaf7aef1586dc91b8e909374b801924bba827464873f877ac72c4a69cf"
    "ba208d7d4baed1213a671c09ad17df904e64758e60d4ce7d272117e2ef7e4a0ec7fe25fff7816603fbcbc462d6829b47db4d9fb3c9f2c26d"
    "d3d18fd9a797fa8b5d49eeb1faf97c5ecf41ce7de294a4ba9afed7ec47e357421580cc11bf1ed", 16)
# fmt: on
_WORDS = tuple(_INVERSE_PI >> 64 * place & (1 << 64) - 1 for place in reversed(range(19)))
_LARGE = 40  # from 2**40 on, Payne and Hanek
_SIGN = 1 << 63


def reduced_float(x: UOp, quarter: bool = False) -> UOp:
    """r for float32 x; NaN for infinities.  With `quarter` sin r = cos x: half of a half turn is added."""
    size = absolute(x)
    scale: UOp = x.const_like(_HALF_TURNS[0][1])
    high, low = (UOp.const(value, dtypes.float64) for value in _HALF_TURNS[0][2:])
    for least, factor, *turns in _HALF_TURNS[1:]:
        small = size < x.const_like(least)
        scale = small.where(scale, x.const_like(factor))
        high, low = (
            small.where(old, old.const_like(new))
            for old, new in zip((high, low), turns, strict=True)
        )
    m = (x * scale).cast(dtypes.float64)
    product = m * high
    to_integer = m.const_like(1.5 * 2.0**52)
    half = m.const_like(0.5)
    moved = (product + half if quarter else product) + to_integer
    missing = fused(m, low, fused(m, high, -product))
    turns_left = product - (moved - to_integer)
    turns_left = (turns_left + half if quarter else turns_left) + missing
    r = with_sign(turns_left * m.const_like(math.pi), _parity(moved.bitcast(dtypes.uint64)))
    return r.cast(dtypes.float32)


def reduced_double(x: UOp, quarter: bool = False) -> UOp:
    """r for float64 x; NaN for infinities.  With `quarter` sin r = cos x."""
    to_integer = x.const_like(1.5 * 2.0**52)
    if quarter:
        moved = fused(x, 1 / math.pi, 0.5) + to_integer
        n = moved - to_integer - x.const_like(0.5)
    else:
        moved = fused(x, 1 / math.pi, to_integer)
        n = moved - to_integer
    rest = x
    for part in _PI:
        rest = fused(n, -part, rest)
    near = with_sign(rest, _parity(moved.bitcast(dtypes.uint64)))
    return _large_double(x, near, quarter)


def _parity(number: UOp) -> UOp:
    """The sign bit if an integer is odd."""
    return number << number.const_like(63)


def _large_double(x: UOp, near: UOp, quarter: bool) -> UOp:
    """r by Payne and Hanek's method where x is large and finite, else `near`."""
    layout = LAYOUTS[x.dtype]
    bits = x.bitcast(dtypes.uint64)
    number = bits.const_like
    exponent = (bits >> number(layout.fraction)) & number(2 * layout.bias + 1)
    start = exponent - number(layout.bias + _LARGE)
    large = start < number(layout.bias + 1 - _LARGE)
    significand = (bits & number(layout.fraction_mask)) | number(1 << layout.fraction)
    high, low = _product(significand, _window(start))
    if quarter:
        high = high + number(1 << 62)
    # Half turns in units of 2**-127.  Without the highest bit and doubled, a signed fraction of one half turn.
    odd = (high + number(1 << 62)) & number(_SIGN)
    fraction = (high << number(1)) | (low >> number(63))
    negative = (fraction.bitcast(dtypes.int64) >> UOp.const(63, dtypes.int64)).bitcast(
        dtypes.uint64
    )
    turns = _fraction(fraction ^ negative, (low << number(1)) ^ negative)
    r = fused(turns, _PI[0], turns * turns.const_like(_PI[1]))
    # The product is that of |x|: the sine has the sign of x, the cosine not.
    sign = odd ^ ((negative if quarter else bits ^ negative) & number(_SIGN))
    return large.where(with_sign(r, sign), near)


def _window(start: UOp) -> list[UOp]:
    """The three words of 64 bits of 1 / pi that begin at bit `start` of `_WORDS`."""
    number = start.const_like
    words: Sequence[UOp] = [number(word) for word in _WORDS]
    for step in (8, 4, 2, 1):
        skip = (start & number(64 * step)).ne(number(0))
        count = 4 + step - 1
        words = [skip.where(words[i + step], words[i]) for i in range(count)]
    within = start & number(63)
    rest = within ^ number(63)
    return [
        (word << within) | ((following >> number(1)) >> rest) for word, following in pairwise(words)
    ]


def _product(m: UOp, words: list[UOp]) -> tuple[UOp, UOp]:
    """The two high words of m times three words, modulo 2**192, short of a few units of the lower one."""
    lowest = _wide_product(m, words[2])[0]
    carried, middle = _wide_product(m, words[1])
    low = middle + lowest
    return m * words[0] + carried + (low < middle).cast(dtypes.uint64), low


def _wide_product(a: UOp, b: UOp) -> tuple[UOp, UOp]:
    """The high and the low 64 bits of a product, for a below 2**53."""
    half, mask = a.const_like(32), a.const_like((1 << 32) - 1)
    a_low, a_high, b_low, b_high = a & mask, a >> half, b & mask, b >> half
    bottom = a_low * b_low
    upper = a_low * b_high + (bottom >> half)
    middle = a_high * b_low + (upper & mask)
    high = a_high * b_high + (upper >> half) + (middle >> half)
    return high, (middle << half) | (bottom & mask)


def _fraction(high: UOp, low: UOp) -> UOp:
    """128 bits as a fraction in float64: 32 bits at a time, from the lowest, each put under a fitting exponent."""
    half, mask = high.const_like(32), high.const_like((1 << 32) - 1)
    layout = LAYOUTS[dtypes.float64]
    total: UOp | None = None
    for place, piece in enumerate((low & mask, low >> half, high & mask, high >> half)):
        exponent = layout.fraction - 128 + 32 * place
        under = piece | piece.const_like(layout.power_of_two(exponent))
        value = under.bitcast(dtypes.float64) - UOp.const(2.0**exponent, dtypes.float64)
        total = value if total is None else total + value
    assert total is not None
    return total
