"""Rounding, wrapping and casting against NumPy and ml_dtypes, and against exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomgrad.dtype import (
    DType,
    Number,
    cast_value,
    dtype_of,
    dtypes,
    holds,
    numpy_dtype,
    truncate,
)
from loomgrad.errors import DTypeError

FLOATS = st.one_of(
    st.floats(),
    st.floats(-500, 500),
    st.floats(width=32),
    st.floats(width=16),
    st.builds(math.ldexp, st.integers(-64, 64), st.integers(-30, 20)),
)
INTS = st.one_of(st.integers(-300, 300), st.integers(-(1 << 70), 1 << 70))


def same(left: Number, right: Number) -> bool:
    """Equal in value and, for zeros, in sign; NaN equals NaN."""
    if left != left or right != right:
        return left != left and right != right
    return left == right and math.copysign(1, left) == math.copysign(1, right)


@pytest.mark.parametrize("dtype", dtypes.floats)
@given(value=FLOATS)
def test_floats_round_as_numpy_does(dtype: DType, value: float) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        expected = float(np.array(value, np.float64).astype(numpy_dtype(dtype)).astype(np.float64))
    assert same(truncate(dtype, value), expected)


@pytest.mark.parametrize("dtype", dtypes.floats)
@given(value=FLOATS)
def test_rounding_is_idempotent_and_odd(dtype: DType, value: float) -> None:
    once = truncate(dtype, value)
    assert isinstance(once, float)
    assert same(truncate(dtype, once), once)
    assert dtype.format is not None
    if dtype.format.has_negative_zero or once != 0:
        assert same(truncate(dtype, -value), -once)


@pytest.mark.parametrize("dtype", dtypes.ints)
@given(value=INTS)
def test_ints_wrap(dtype: DType, value: int) -> None:
    stored = truncate(dtype, value)
    assert type(stored) is int
    assert dtype.min <= stored <= dtype.max
    assert (stored - value) % (1 << dtype.bits) == 0


@pytest.mark.parametrize("dtype", dtypes.floats)
@given(value=st.integers(-(1 << 200), 1 << 200) | INTS)
def test_ints_become_the_nearest_float_in_one_rounding(dtype: DType, value: int) -> None:
    rounded = float(truncate(dtype, value))
    assert dtype.format is not None
    if not math.isfinite(rounded):
        assert abs(value) > dtype.format.largest
        return
    unit = Fraction(2) ** max(abs(value).bit_length() - dtype.format.precision, dtype.format.lowest)
    assert abs(Fraction(rounded) - value) <= unit / 2


def test_rounding_an_int_once_differs_from_rounding_it_twice() -> None:
    value = (1 << 60) + (1 << 36) + 1  # just above a tie of float32; float64 drops the last bit
    assert truncate(dtypes.float32, float(value)) == 1 << 60
    assert truncate(dtypes.float32, value) == (1 << 60) + (1 << 37)
    assert truncate(dtypes.float32, value) == np.array(value).astype(np.float32)


# fmt: off
STORED = [
    (dtypes.float16,     65519.9,    65504.0),
    (dtypes.float16,     65520.0,    math.inf),
    (dtypes.float16,     -70000.0,   -math.inf),
    (dtypes.bfloat16,    3.4e38,     math.inf),
    (dtypes.bfloat16,    1.00390625, 1.0),
    (dtypes.float32,     1e39,       math.inf),
    (dtypes.float32,     10**400,    math.inf),
    (dtypes.float64,     -(10**400), -math.inf),
    (dtypes.fp8e4m3,     464.0,      448.0),
    (dtypes.fp8e4m3,     465.0,      math.nan),
    (dtypes.fp8e4m3,     math.inf,   math.nan),
    (dtypes.fp8e5m2,     math.inf,   math.inf),
    (dtypes.fp8e4m3,     -0.0,       -0.0),
    (dtypes.fp8e4m3fnuz, -0.0,       0.0),
    (dtypes.fp8e5m2fnuz, -1e-30,     0.0),
    (dtypes.weakint,     1 << 80,    1 << 80),
    (dtypes.weakfloat,   3,          3.0),
    (dtypes.bool,        7,          True),
    (dtypes.bool,        math.nan,   True),
]
# fmt: on


@pytest.mark.parametrize(("dtype", "value", "stored"), STORED)
def test_truncate_at_the_edges(dtype: DType, value: Number, stored: Number) -> None:
    result = truncate(dtype, value)
    assert same(result, stored)
    assert type(result) is type(stored)


# fmt: off
CASTS = [
    (300,       dtypes.int32,     dtypes.uint8,    44),
    (-1,        dtypes.int8,      dtypes.uint64,   (1 << 64) - 1),
    (1 << 31,   dtypes.int64,     dtypes.int32,    -(1 << 31)),
    (True,      dtypes.bool,      dtypes.int8,     1),
    (True,      dtypes.bool,      dtypes.float16,  1.0),
    (256.7,     dtypes.float32,   dtypes.uint8,    255),
    (-1.0,      dtypes.float32,   dtypes.uint8,    0),
    (-3.9,      dtypes.float32,   dtypes.int8,     -3),
    (-0.5,      dtypes.float32,   dtypes.int32,    0),
    (1e30,      dtypes.float32,   dtypes.int64,    (1 << 63) - 1),
    (-math.inf, dtypes.float64,   dtypes.int16,    -(1 << 15)),
    (math.inf,  dtypes.weakfloat, dtypes.uint32,   (1 << 32) - 1),
    (math.nan,  dtypes.float32,   dtypes.int32,    0),
    (math.nan,  dtypes.float32,   dtypes.weakint,  0),
    (1e30,      dtypes.weakfloat, dtypes.weakint,  int(1e30)),
    (math.inf,  dtypes.weakfloat, dtypes.weakint,  (1 << 63) - 1),
    (math.nan,  dtypes.float16,   dtypes.bool,     True),
    (-0.0,      dtypes.float16,   dtypes.bool,     False),
    (0.1,       dtypes.float32,   dtypes.bool,     True),
    (256,       dtypes.int32,     dtypes.bool,     True),
    (1e6,       dtypes.float32,   dtypes.float16,  math.inf),
    (65520,     dtypes.int32,     dtypes.float16,  math.inf),
    (7,         dtypes.weakint,   dtypes.float32,  7.0),
]
# fmt: on


@pytest.mark.parametrize(("value", "source", "target", "result"), CASTS)
def test_cast_value(value: Number, source: DType, target: DType, result: Number) -> None:
    cast = cast_value(value, source, target)
    assert same(cast, result)
    assert type(cast) is type(result)


@pytest.mark.parametrize("target", dtypes.ints)
@given(value=FLOATS.filter(math.isfinite))
def test_float_to_int_agrees_with_numpy_in_range(target: DType, value: float) -> None:
    cast = cast_value(value, dtypes.float64, target)
    if target.min <= math.trunc(value) <= target.max:
        assert cast == np.array(value).astype(target.name)
    else:
        assert cast == (target.min if value < 0 else target.max)


@given(value=INTS, source=st.sampled_from(dtypes.ints), target=st.sampled_from(dtypes.ints))
def test_int_to_int_agrees_with_numpy(value: int, source: DType, target: DType) -> None:
    start = truncate(source, value)
    expected = int(np.array(start, source.name).astype(target.name))
    assert cast_value(start, source, target) == expected


def test_a_number_has_no_place_in_void() -> None:
    with pytest.raises(DTypeError, match="cannot be stored in dtype void"):
        truncate(dtypes.void, 1)


def test_dtype_of_python_numbers() -> None:
    assert dtype_of(True) is dtypes.bool
    assert dtype_of(1) is dtypes.weakint
    assert dtype_of(1.0) is dtypes.weakfloat
    with pytest.raises(DTypeError, match="not str"):
        dtype_of("1")  # type: ignore[arg-type]  # the point of the test


# fmt: off
HELD = [
    (dtypes.int8,    127,          True),
    (dtypes.int8,    128,          False),
    (dtypes.uint8,   -1,           False),
    (dtypes.int8,    3.0,          True),
    (dtypes.int8,    3.5,          False),
    (dtypes.int8,    math.nan,     False),
    (dtypes.int8,    math.inf,     False),
    (dtypes.float32, 1 << 24,      True),
    (dtypes.float32, (1 << 24) + 1, False),
    (dtypes.float32, 10**400,      False),
    (dtypes.int64,   10**400,      False),
    (dtypes.float32, 0.1,          False),
    (dtypes.float16, 0.5,          True),
    (dtypes.float16, math.nan,     True),
    (dtypes.float16, math.inf,     True),
    (dtypes.fp8e4m3, math.inf,     False),
    (dtypes.bool,    1,            True),
    (dtypes.bool,    0.0,          True),
    (dtypes.bool,    2,            False),
    (dtypes.bool,    math.nan,     False),
    (dtypes.float32, True,         True),
    (dtypes.weakint, 10**400,      True),
]
# fmt: on


@pytest.mark.parametrize(("dtype", "value", "expected"), HELD)
def test_holds(dtype: DType, value: Number, expected: bool) -> None:
    assert holds(dtype, value) is expected


def test_the_largest_floats_round_out_of_short_formats() -> None:
    for value in (1.6853373139334212e308, 1.7976931348623157e308):
        assert truncate(dtypes.bfloat16, value) == math.inf
        assert truncate(dtypes.fp8e5m2, -value) == -math.inf
        assert math.isnan(truncate(dtypes.fp8e4m3, value))
