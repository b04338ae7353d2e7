"""Promotion, lossless casts and the tables of `dtype.py`."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import struct
import subprocess
import sys

import numpy as np
import pytest

from loomgrad.dtype import (
    DType,
    Number,
    can_cast_lossless,
    commit_dtype,
    dtypes,
    from_numpy_dtype,
    least_upper_dtype,
    least_upper_float,
    named_dtype,
    numpy_dtype,
    sum_dtype,
    truncate,
)
from loomgrad.errors import DTypeError

SHORT = {
    "b": dtypes.bool,
    "i1": dtypes.int8,
    "i2": dtypes.int16,
    "i4": dtypes.int32,
    "i8": dtypes.int64,
    "u1": dtypes.uint8,
    "u2": dtypes.uint16,
    "u4": dtypes.uint32,
    "u8": dtypes.uint64,
    "bf": dtypes.bfloat16,
    "f2": dtypes.float16,
    "f4": dtypes.float32,
    "f8": dtypes.float64,
    "i*": dtypes.weakint,
    "f*": dtypes.weakfloat,
}

# JAX's table, except that a weak number which decides the kind of a result beside a strong operand
# gives the strong default of that kind: `F` where JAX has weak float and `I` where it has weak int.
PROMOTION = """
      b   u1  u2  u4  u8  i1  i2  i4  i8  bf  f2  f4  f8  i*  f*
b     b   u1  u2  u4  u8  i1  i2  i4  i8  bf  f2  f4  f8  I   F
u1    u1  u1  u2  u4  u8  i2  i2  i4  i8  bf  f2  f4  f8  u1  F
u2    u2  u2  u2  u4  u8  i4  i4  i4  i8  bf  f2  f4  f8  u2  F
u4    u4  u4  u4  u4  u8  i8  i8  i8  i8  bf  f2  f4  f8  u4  F
u8    u8  u8  u8  u8  u8  F   F   F   F   bf  f2  f4  f8  u8  F
i1    i1  i2  i4  i8  F   i1  i2  i4  i8  bf  f2  f4  f8  i1  F
i2    i2  i2  i4  i8  F   i2  i2  i4  i8  bf  f2  f4  f8  i2  F
i4    i4  i4  i4  i8  F   i4  i4  i4  i8  bf  f2  f4  f8  i4  F
i8    i8  i8  i8  i8  F   i8  i8  i8  i8  bf  f2  f4  f8  i8  F
bf    bf  bf  bf  bf  bf  bf  bf  bf  bf  bf  f4  f4  f8  bf  bf
f2    f2  f2  f2  f2  f2  f2  f2  f2  f2  f4  f2  f4  f8  f2  f2
f4    f4  f4  f4  f4  f4  f4  f4  f4  f4  f4  f4  f4  f8  f4  f4
f8    f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  f8
i*    I   u1  u2  u4  u8  i1  i2  i4  i8  bf  f2  f4  f8  i*  f*
f*    F   F   F   F   F   F   F   F   F   bf  f2  f4  f8  f*  f*
"""


def promotion_rows() -> list[tuple[DType, DType, DType]]:
    """(left, right, result) of every cell of the table."""
    names = SHORT | {"I": dtypes.int32, "F": dtypes.float32}
    header, *lines = (line.split() for line in PROMOTION.strip().splitlines())
    return [
        (names[left], names[right], names[cell])
        for left, *cells in lines
        for right, cell in zip(header, cells, strict=True)
    ]


ARITHMETIC = (*dtypes.all, dtypes.weakint, dtypes.weakfloat)


@pytest.mark.parametrize(("left", "right", "result"), promotion_rows())
def test_promotion_table(left: DType, right: DType, result: DType) -> None:
    assert least_upper_dtype(left, right) is result


def test_promotion_table_is_complete() -> None:
    assert len(promotion_rows()) == len(SHORT) ** 2
    assert set(SHORT.values()) | set(dtypes.float8s) == set(ARITHMETIC)


def join(*operands: DType) -> DType | None:
    try:
        return least_upper_dtype(*operands)
    except DTypeError:
        return None


def test_promotion_does_not_depend_on_order() -> None:
    for operands in itertools.combinations(ARITHMETIC, 3):
        assert len({join(*order) for order in itertools.permutations(operands)}) == 1, operands


def test_promotion_of_strong_operands_is_associative() -> None:
    strong = [dtype for dtype in dtypes.all if not dtype.is_float8]
    for x, y, z in itertools.product(strong, repeat=3):
        if dtypes.uint64 in (x, y, z) and any(dt.is_int and not dt.is_unsigned for dt in (x, y, z)):
            continue  # the default float stands for "some float" here, which a half would narrow
        assert least_upper_dtype(least_upper_dtype(x, y), z) is least_upper_dtype(x, y, z)
        assert least_upper_dtype(x, least_upper_dtype(y, z)) is least_upper_dtype(x, y, z)


def test_promotion_of_one_operand_and_of_weak_ones() -> None:
    for dtype in ARITHMETIC:
        assert least_upper_dtype(dtype) is dtype
        assert least_upper_dtype(dtype, dtype) is dtype
    assert least_upper_dtype(dtypes.weakint, dtypes.weakfloat) is dtypes.weakfloat
    assert least_upper_dtype(dtypes.int8, dtypes.weakfloat, dtypes.float16) is dtypes.float16


@pytest.mark.parametrize("float8", dtypes.float8s)
def test_float8_promotes_to_every_wider_float(float8: DType) -> None:
    for wider in (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64):
        assert least_upper_dtype(float8, wider) is wider
    for narrower in (dtypes.bool, dtypes.int64, dtypes.uint8, dtypes.weakint, dtypes.weakfloat):
        assert least_upper_dtype(narrower, float8) is float8


def test_mixed_float8_forms_raise_and_say_what_to_do() -> None:
    for left, right in itertools.permutations(dtypes.float8s, 2):
        with pytest.raises(DTypeError, match="together"):
            least_upper_dtype(left, right)
        with pytest.raises(DTypeError, match="cast one of them first"):
            least_upper_dtype(left, dtypes.float32, right)


def test_void_takes_no_part_in_arithmetic() -> None:
    for dtype in (dtypes.void, dtypes.illtyped):
        with pytest.raises(DTypeError, match=f"dtype {dtype.name} cannot take part in arithmetic"):
            least_upper_dtype(dtype, dtypes.int32)
    with pytest.raises(DTypeError, match="at least one"):
        least_upper_dtype()


def test_least_upper_float() -> None:
    for dtype in (*dtypes.ints, dtypes.bool):
        assert least_upper_float(dtype) is dtypes.float32
    for dtype in (*dtypes.floats, dtypes.weakfloat):
        assert least_upper_float(dtype) is dtype
    assert least_upper_float(dtypes.weakint) is dtypes.weakfloat


@pytest.mark.parametrize(
    ("dtype", "accumulator"),
    [
        (dtypes.bool, dtypes.int32),
        (dtypes.int8, dtypes.int32),
        (dtypes.int16, dtypes.int32),
        (dtypes.int32, dtypes.int32),
        (dtypes.int64, dtypes.int64),
        (dtypes.uint8, dtypes.uint32),
        (dtypes.uint16, dtypes.uint32),
        (dtypes.uint32, dtypes.uint32),
        (dtypes.uint64, dtypes.uint64),
        (dtypes.fp8e4m3, dtypes.float32),
        (dtypes.float16, dtypes.float32),
        (dtypes.bfloat16, dtypes.float32),
        (dtypes.float32, dtypes.float32),
        (dtypes.float64, dtypes.float64),
        (dtypes.weakint, dtypes.weakint),
        (dtypes.weakfloat, dtypes.weakfloat),
    ],
)
def test_sum_dtype(dtype: DType, accumulator: DType) -> None:
    assert sum_dtype(dtype) is accumulator


def test_commit_dtype() -> None:
    assert commit_dtype(dtypes.weakint) is dtypes.int32
    assert commit_dtype(dtypes.weakfloat) is dtypes.float32
    assert commit_dtype(dtypes.int8) is dtypes.int8


def all_values(dtype: DType) -> list[Number]:
    """Every value of a dtype of 16 bits or less, as Python numbers."""
    codes = np.arange(1 << dtype.bits, dtype=f"u{dtype.itemsize}")
    if dtype.is_bool:
        return [False, True]
    with np.errstate(invalid="ignore"):
        wide = np.int64 if dtype.is_int else np.float64
        return list(codes.view(numpy_dtype(dtype)).astype(wide).tolist())


def same(left: Number, right: Number) -> bool:
    """Equal in value and, for zeros, in sign; NaN equals NaN."""
    if left != left or right != right:
        return left != left and right != right
    return left == right and math.copysign(1, left) == math.copysign(1, right)


def survives(source: DType, target: DType) -> bool:
    """By trial: whether each value of `source` is still there after a visit to `target`."""
    if target.is_bool:
        return source.is_bool
    if source.is_float and not target.is_float:
        return False
    return all(same(truncate(target, value), value) for value in all_values(source))


@pytest.mark.parametrize("source", [dtype for dtype in dtypes.all if dtype.bits <= 16])
def test_lossless_casts_from_small_dtypes_by_trial(source: DType) -> None:
    for target in dtypes.all:
        assert can_cast_lossless(source, target) is survives(source, target), target


def test_lossless_casts_from_large_dtypes() -> None:
    large = (
        dtypes.int32,
        dtypes.uint32,
        dtypes.int64,
        dtypes.uint64,
        dtypes.float32,
        dtypes.float64,
    )
    allowed = {
        (dtypes.int32, dtypes.int64),
        (dtypes.int32, dtypes.float64),
        (dtypes.uint32, dtypes.int64),
        (dtypes.uint32, dtypes.uint64),
        (dtypes.uint32, dtypes.float64),
        (dtypes.float32, dtypes.float64),
    } | {(dtype, dtype) for dtype in large}
    found = {(x, y) for x in large for y in dtypes.all if can_cast_lossless(x, y)}
    assert found == allowed


def test_lossless_casts_of_weak_and_void() -> None:
    assert can_cast_lossless(dtypes.weakfloat, dtypes.float64)
    assert not can_cast_lossless(dtypes.weakfloat, dtypes.float32)
    assert can_cast_lossless(dtypes.uint64, dtypes.weakint)
    assert not can_cast_lossless(dtypes.weakint, dtypes.int64)
    assert not can_cast_lossless(dtypes.void, dtypes.int32)
    assert not can_cast_lossless(dtypes.int32, dtypes.illtyped)


def test_a_lossless_cast_never_goes_down_the_lattice() -> None:
    for source, target in itertools.product(ARITHMETIC, repeat=2):
        weak = source.is_weak or target.is_weak
        if can_cast_lossless(source, target) and not weak:
            assert least_upper_dtype(source, target) is target


def test_facts_of_each_dtype() -> None:
    for dtype in dtypes.all:
        assert dtype.itemsize * 8 == dtype.bits
        assert numpy_dtype(dtype).itemsize == dtype.itemsize
        if dtype.fmt is not None:
            assert struct.calcsize("<" + dtype.fmt) == dtype.itemsize
            assert np.dtype(dtype.fmt) == numpy_dtype(dtype)
        assert dtype.is_bool + dtype.is_int + dtype.is_float == 1
        assert dtypes.is_int(dtype) is dtype.is_int
        assert dtypes.is_float(dtype) is dtype.is_float
        assert dtypes.is_unsigned(dtype) is (numpy_dtype(dtype).kind == "u")
    for dtype in dtypes.ints:
        info = np.iinfo(dtype.name)
        assert (dtypes.min(dtype), dtypes.max(dtype)) == (info.min, info.max)
    for dtype in (*dtypes.floats, dtypes.weakfloat):
        assert (dtypes.min(dtype), dtypes.max(dtype)) == (-math.inf, math.inf)
    assert (dtypes.min(dtypes.bool), dtypes.max(dtypes.bool)) == (False, True)
    assert dtypes.min(dtypes.weakint) == -(1 << 63)
    assert dtypes.weakint.is_int
    assert dtypes.weakfloat.is_float
    assert dtypes.is_weak(dtypes.weakint)
    assert dtypes.is_weak(dtypes.weakfloat)
    assert not dtypes.is_weak(dtypes.int32)
    assert dtypes.is_bool(dtypes.bool)
    assert dtypes.weakint.itemsize == dtypes.void.itemsize == 0
    assert len({dtype.priority for dtype in (*ARITHMETIC, dtypes.void, dtypes.illtyped)}) == 21


def test_largest_and_smallest_of_float_formats() -> None:
    for dtype in dtypes.floats:
        assert dtype.format is not None
        if dtype.bits > 16:
            info = np.finfo(dtype.name)
            largest, lowest = float(info.max), float(info.smallest_subnormal)
        else:
            finite = [value for value in all_values(dtype) if math.isfinite(value)]
            largest, lowest = max(finite), min(value for value in finite if value > 0)
        assert dtype.format.largest == largest
        assert math.ldexp(1, dtype.format.lowest) == lowest


def test_names_and_aliases() -> None:
    assert dtypes.half is dtypes.float16
    assert dtypes.long is dtypes.int64
    assert dtypes.default_float is dtypes.float32
    assert named_dtype("half") is dtypes.float16
    assert named_dtype("uchar") is dtypes.uint8
    for dtype in dtypes.all:
        assert named_dtype(dtype.name) is dtype
        assert getattr(dtypes, dtype.name) is dtype
    with pytest.raises(DTypeError, match=r"no dtype named 'float23'[\s\S]*did you mean float32"):
        named_dtype("float23")
    with pytest.raises(DTypeError):
        named_dtype("is_int")


def test_a_dtype_is_one_immutable_object() -> None:
    for dtype in (*ARITHMETIC, dtypes.void, dtypes.illtyped):
        assert pickle.loads(pickle.dumps(dtype)) is dtype
        assert copy.deepcopy(dtype) is dtype
        assert repr(dtype) == f"dtypes.{dtype.name}"
        with pytest.raises(AttributeError):
            dtype.bits = 7


def test_numpy_dtypes_round_trip() -> None:
    for dtype in dtypes.all:
        assert from_numpy_dtype(numpy_dtype(dtype)) is dtype
    assert from_numpy_dtype(np.dtype("longlong")) is dtypes.int64
    assert from_numpy_dtype(np.dtype(">f4")) is dtypes.float32
    for unknown in ("complex64", "U3", "O", "datetime64[s]"):
        with pytest.raises(DTypeError, match=r"no counterpart here[\s\S]*astype"):
            from_numpy_dtype(np.dtype(unknown))
    with pytest.raises(DTypeError, match="weakint has no storage"):
        numpy_dtype(dtypes.weakint)


def test_importing_dtypes_loads_no_numpy() -> None:
    code = "import sys, loomgrad.dtype; assert not {'numpy', 'ml_dtypes'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
