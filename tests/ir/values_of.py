"""Values to try operations on: special ones of every dtype, and reproducible random ones."""

from __future__ import annotations

import math
import random

from loomgrad.dtype import DType, dtypes, truncate
from loomgrad.dtype.number import Number

SPECIAL_FLOATS = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, -1.5, 2.0, 3.0, 7.25, -2.5, 1e-3, 100.0, -88.0, 1e10, -1e30),
    *(math.inf, -math.inf, math.nan, 1e-45, 2.0**-126, 2.0**31, -(2.0**31), 2.0**63, 3.4e38),
)
SPECIAL_INTS = (0, 1, -1, 2, -2, 3, 5, 7, -7, 31, 32, 63, 64, 100, 127, -128, 255)


def values_of(dtype: DType, count: int = 24, seed: int = 0) -> list[Number]:
    """Values that `dtype` holds: the special ones and `count` random ones."""
    source = random.Random(f"{dtype.name} {seed}")
    if dtype.is_bool:
        return [False, True]
    if dtype.is_float:
        drawn = [source.uniform(-10, 10) for _ in range(count // 2)]
        drawn += [source.choice((-1, 1)) * 10 ** source.uniform(-8, 8) for _ in range(count // 2)]
        return [truncate(dtype, value) for value in (*SPECIAL_FLOATS, *drawn)]
    low, high = int(dtype.min), int(dtype.max)
    drawn_ints = [source.randint(low, high) for _ in range(count // 2)]
    drawn_ints += [source.randint(max(low, -20), 20) for _ in range(count // 2)]
    chosen = (*SPECIAL_INTS, low, low + 1, high, high - 1, *drawn_ints)
    return [value for value in chosen if low <= value <= high]


def same(a: Number, b: Number) -> bool:
    """Equality in which NaN is NaN and zeros differ by sign."""
    if a != a or b != b:
        return a != a and b != b
    return a == b and math.copysign(1.0, a) == math.copysign(1.0, b)


def near(a: Number, b: Number, dtype: DType, steps: float) -> bool:
    """Equality within so many units in the last place of a float dtype."""
    if a != a or b != b or math.isinf(a) or math.isinf(b):
        return same(a, b)
    assert dtype.format is not None
    spacing = 2.0 ** (1 - dtype.format.precision)
    return abs(a - b) <= steps * max(spacing * abs(b), 2.0**dtype.format.lowest)


STRONG = tuple(dtype for dtype in dtypes.all)
