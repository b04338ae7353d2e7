"""Casts and bitcasts between all dtypes, and how dtypes meet."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest

from loomgrad import Tensor, dtypes
from loomgrad.dtype import DType, Number, cast_value, least_upper_dtype
from loomgrad.errors import DTypeError
from tests.tensor.checks import dtype_is

ALL = (dtypes.bool, *dtypes.ints, dtypes.float32, dtypes.float64)
FLOAT_VALUES = [0.0, -0.0, 1.5, -1.5, 255.7, 256.0, -129.0, 3e9, -3e9, 1e20, -1e20]
FLOAT_VALUES += [math.inf, -math.inf, math.nan, 0.5, 2.0**31, 2.0**63, 2.0**64]


def values_of(dtype: DType) -> list[Number]:
    if dtype.is_float:
        return list(FLOAT_VALUES)
    return sorted({dtype.min, dtype.max, 0, 1, dtype.max // 2}) if dtype.is_int else [False, True]


@pytest.mark.parametrize("source", ALL)
@pytest.mark.parametrize("target", ALL)
def test_every_cast_gives_the_value_that_folding_gives(source: DType, target: DType) -> None:
    x = Tensor(values_of(source), dtype=source)
    found = x.cast(target)
    dtype_is(found, target)
    held = x.tolist()
    assert isinstance(held, list)
    wanted = [cast_value(value, source, target) for value in held]
    np.testing.assert_array_equal(found.numpy(), np.array(wanted, found.numpy().dtype))


def test_named_casts() -> None:
    x = Tensor([1.7, -2.7])
    assert x.int().tolist() == [1, -2] and x.long().dtype is dtypes.int64
    assert x.bool().tolist() == [True, True] and x.half().dtype is dtypes.float16
    assert x.double().dtype is dtypes.float64 and x.float().dtype is dtypes.float32


def test_a_round_trip_through_a_narrow_float_rounds() -> None:
    x = Tensor([1 / 3])
    assert x.half().float().tolist() == [0.333251953125]


def test_bitcasts_keep_the_bits() -> None:
    assert Tensor([1.0]).bitcast(dtypes.uint32).tolist() == [0x3F800000]
    assert Tensor(1.0).bitcast(dtypes.uint32).item() == 0x3F800000
    assert Tensor([-1], dtype=dtypes.int8).bitcast(dtypes.uint8).tolist() == [255]
    nan = Tensor([0x7FC00001], dtype=dtypes.uint32).bitcast(dtypes.float32)
    assert math.isnan(nan.item())


def test_ints_wrap_in_their_own_dtype() -> None:
    x = Tensor([128], dtype=dtypes.uint8)
    assert (x + x).cast(dtypes.int16).tolist() == [0]
    a, b = Tensor([40], dtype=dtypes.int8), Tensor([4], dtype=dtypes.int8)
    assert ((a * 6) + (b * 6)).cast(dtypes.int16).tolist() == [8]
    assert ((a + b) * 6).cast(dtypes.int16).tolist() == [8]
    least = Tensor([-(2**31)])
    assert (-least).tolist() == least.abs().tolist() == (least // -1).tolist() == [-(2**31)]


@pytest.mark.parametrize("left", ALL)
@pytest.mark.parametrize("right", ALL)
def test_operands_meet_in_the_lattice(left: DType, right: DType) -> None:
    a, b = Tensor([1], dtype=left), Tensor([1], dtype=right)
    meets = least_upper_dtype(left, right)
    for operation in (operator.mul, Tensor.maximum):
        assert operation(a, b).dtype is meets
    assert (a * b).tolist() == [1]


# fmt: off
WEAK = (
    (dtypes.int8,    1,     dtypes.int8),    (dtypes.int8,  1.5,  dtypes.float32),
    (dtypes.float64, 1.5,   dtypes.float64), (dtypes.bool,  1,    dtypes.int32),
    (dtypes.float16, 1.5,   dtypes.float16), (dtypes.bool,  1.5,  dtypes.float32),
    (dtypes.float32, 2**40, dtypes.float32), (dtypes.int64, True, dtypes.int64),
)
# fmt: on


@pytest.mark.parametrize(("dtype", "number", "wanted"), WEAK)
def test_python_numbers_take_the_dtype_they_meet(
    dtype: DType, number: Number, wanted: DType
) -> None:
    x = Tensor([1], dtype=dtype)
    assert (x * number).dtype is (number * x).dtype is wanted
    assert x.bool().where(x, number).dtype is x.bool().where(number, x).dtype is wanted


def test_python_numbers_on_the_left() -> None:
    x = Tensor([2, 3])
    assert (
        (1 - x).tolist() == [-1, -2] and (7 // x).tolist() == [3, 2] and (7 % x).tolist() == [1, 1]
    )
    assert (
        (6 / x).tolist() == [3.0, 2.0] and (2**x).tolist() == [4, 8] and (5 & x).tolist() == [0, 1]
    )


def test_powers() -> None:
    ints = Tensor([1, -2, 3])
    found = ints ** Tensor([2, 3, 4])
    assert found.dtype is dtypes.int32 and found.tolist() == [1, -8, 81]
    assert [(ints**k).tolist() for k in (0, 1, 5)] == [[1, 1, 1], [1, -2, 3], [1, -32, 243]]
    np.testing.assert_allclose((Tensor([1, 2, 4]) ** 0.5).numpy(), [1, 2**0.5, 2], 1e-6)
    np.testing.assert_allclose(
        (0.7 ** Tensor([-2, 0, 3])).numpy(), 0.7 ** np.array([-2.0, 0, 3]), 1e-5
    )
    base = Tensor([0.0, -0.0, 2.0, -2.0, math.inf, -math.inf, math.nan])
    for exponent in (0.0, 1.0, 2.0, 3.0, -1.0, 2.5):
        with np.errstate(all="ignore"):
            wanted = base.numpy() ** np.float32(exponent)
        np.testing.assert_allclose((base ** Tensor([exponent])).numpy(), wanted, 1e-6)
    with pytest.raises(DTypeError, match="int32 to the power -1 is not an integer"):
        ints**-1


def test_integer_extremes_do_not_pass_through_floats() -> None:
    high, low = 2**31 - 1, -(2**31)
    x = Tensor([-1234, 0, high, low])
    assert x.maximum(low).tolist() == x.minimum(high).tolist() == [-1234, 0, high, low]
    assert Tensor([2**53 + 1], dtype=dtypes.int64).max().item() == 2**53 + 1


def test_what_a_dtype_cannot_do() -> None:
    flags = Tensor([True, False])
    with pytest.raises(DTypeError, match="bools cannot be subtracted"):
        flags - flags
    with pytest.raises(DTypeError, match="a bool has no negative"):
        operator.neg(flags)
    with pytest.raises(DTypeError, match="AND needs ints or bools"):
        Tensor([1.0]) & 1
