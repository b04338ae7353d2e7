"""Every operation and cast on every dtype, against the meanings in the table of operations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
import pytest

from loomgrad.backends.cpu.spelling import SPELLINGS
from loomgrad.dtype import DType, Number, cast_value, dtypes, numpy_dtype, truncate
from loomgrad.errors import UnsupportedError
from loomgrad.ir.opcode import GroupOp, Op, Ops
from loomgrad.ir.ops import ROWS
from loomgrad.ir.uop import UOp
from tests.backends.programs import lane_numbers, linear, number, parameter, run

FLOATS = (dtypes.float16, dtypes.float32, dtypes.float64)
TYPES = (dtypes.bool, *dtypes.ints, *FLOATS)
# Not dyadic, ties of rounding, limits of the ints, results beyond the largest float16.
REALS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.1,
    -2.5,
    3.5,
    127.5,
    1e-7,
    300.0,
    -70000.0,
    2.0**31,
    -(2.0**63),
    1e300,
)
SPECIAL = (math.inf, -math.inf, math.nan)


def samples(dtype: DType) -> list[Number]:
    """Values of a dtype that are likely to go wrong."""
    if dtype.is_bool:
        return [False, True]
    if dtype.is_float:
        return list(dict.fromkeys([truncate(dtype, value) for value in REALS] + list(SPECIAL)))
    least, greatest = int(dtypes.min(dtype)), int(dtypes.max(dtype))
    near = (0, 1, 2, 3, 7, 100, -1, -2, -7, least, least + 1, greatest, greatest - 1, greatest // 3)
    return [value for value in dict.fromkeys(near) if least <= value <= greatest]


def computed(
    op: Op, arguments: Iterable[tuple[Number, ...]], sources: list[DType], arg: DType | None = None
) -> list[Number]:
    """`op` of many operands by a compiled kernel, a vector of 7 at a time, with what is left over."""
    columns = [
        np.array(column, numpy_dtype(dtype))
        for column, dtype in zip(zip(*arguments, strict=True), sources, strict=True)
    ]
    lanes = lane_numbers(len(columns[0]))
    loads = [parameter(slot + 1, dtype).index(lanes).load() for slot, dtype in enumerate(sources)]
    node = UOp(op, tuple(loads), arg)
    result = parameter(0, node.dtype).index(lanes).store(node)
    out = np.zeros(len(columns[0]), numpy_dtype(node.dtype))
    run(linear(result), [out, *columns])
    values: list[Number] = out.tolist()
    return [float(value) for value in values] if node.dtype.is_float else values


def same(a: Number, b: Number) -> bool:
    return a == b or (a != a and b != b)


def fused(a: float, b: float, c: float) -> Fraction | float:
    """a * b + c, exact where it is finite and not a zero, whose sign counts."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b + c
    if not math.isfinite(c):
        return c
    return Fraction(a) * Fraction(b) + Fraction(c) or a * b + c


def nearest(dtype: DType, exact: Number | Fraction) -> Number:
    """The value of a dtype that is nearest to an exact one, ties to even, by one rounding."""
    if not isinstance(exact, Fraction):
        return truncate(dtype, exact)
    numpy = numpy_dtype(dtype).type
    try:
        middle = numpy(float(exact))
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
    if not np.isfinite(middle):
        return float(middle)
    around = [np.nextafter(middle, numpy(-math.inf)), middle, np.nextafter(middle, numpy(math.inf))]
    finite = [value for value in around if np.isfinite(value)]
    bits = numpy_dtype(dtypes.uint32 if dtype is dtypes.float32 else dtypes.uint64)
    return float(
        min(finite, key=lambda v: (abs(Fraction(float(v)) - exact), int(v.view(bits)) & 1))
    )


CASES = [
    (op, dtype)
    for op, row in SPELLINGS.items()
    for dtype in TYPES
    if (row.bools if dtype.is_bool else row.floats if dtype.is_float else row.signed)
    if (op, dtype) != (Ops.MULACC, dtypes.float16)
]


@pytest.mark.parametrize("op, dtype", CASES, ids=str)
def test_operation(op: Op, dtype: DType) -> None:
    count = len(ROWS[op].sources.split())
    sources = [dtypes.bool if op is Ops.WHERE and i == 0 else dtype for i in range(count)]
    arguments = list(itertools.product(*map(samples, sources)))
    evaluate = fused if op is Ops.MULACC and dtype.is_float else ROWS[op].evaluate
    assert evaluate is not None
    result_dtype = dtypes.bool if op in GroupOp.Comparison else dtype
    for found, item in zip(computed(op, arguments, sources), arguments, strict=True):
        if op in (Ops.SHL, Ops.SHR) and not 0 <= item[1] < dtype.bits:
            wanted: Number = 0
        else:
            wanted = nearest(result_dtype, evaluate(*item))
        assert same(found, wanted), (item, found, wanted)


@pytest.mark.parametrize("source", (*TYPES, dtypes.bfloat16), ids=str)
@pytest.mark.parametrize("target", (*TYPES, dtypes.bfloat16), ids=str)
def test_cast(source: DType, target: DType) -> None:
    values = samples(source)
    if source is target:
        return
    if target is dtypes.bfloat16 and source.is_int and source.bits == 64:
        with pytest.raises(UnsupportedError, match="cast to float32 first"):
            computed(Ops.CAST, [(value,) for value in values], [source], target)
        return
    found = computed(Ops.CAST, [(value,) for value in values], [source], target)
    for value, result in zip(values, found, strict=True):
        wanted = cast_value(value, source, target)
        assert same(result, wanted), (value, result, wanted)


@pytest.mark.parametrize("target", (dtypes.float16, dtypes.bfloat16), ids=str)
def test_doubles_round_once_to_few_bits(target: DType) -> None:
    """Values beside the ties of the target, which rounding to float32 first would move onto them."""
    random = np.random.default_rng(3)
    exact = random.standard_normal(400).astype(np.float32).astype(np.float64)
    ties = np.array([float(truncate(target, x)) for x in exact])
    step = 2.0 ** (np.floor(np.log2(np.abs(ties))) - (8 if target is dtypes.bfloat16 else 11))
    values = np.concatenate(
        [ties + s * step * (1 + e) for s in (1, -1) for e in (0, 1e-12, -1e-12)]
    )
    found = computed(Ops.CAST, [(float(v),) for v in values], [dtypes.float64], target)
    assert found == [cast_value(float(v), dtypes.float64, target) for v in values]


@pytest.mark.parametrize(
    "source, target",
    [
        (dtypes.float32, dtypes.int32),
        (dtypes.uint64, dtypes.float64),
        (dtypes.int16, dtypes.bfloat16),
        (dtypes.float16, dtypes.uint16),
        (dtypes.int8, dtypes.uint8),
    ],
    ids=str,
)
def test_bitcast(source: DType, target: DType) -> None:
    values = np.array(samples(source), numpy_dtype(source))
    values = values[values == values]  # a NaN has many bit patterns
    found = computed(Ops.BITCAST, [(value,) for value in values.tolist()], [source], target)
    expected = [
        float(x) if target.is_float else x for x in values.view(numpy_dtype(target)).tolist()
    ]
    assert all(same(a, b) for a, b in zip(found, expected, strict=True))


def test_bitcast_to_another_width_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="float32 as int16"):
        computed(Ops.BITCAST, [(1.0,)], [dtypes.float32], dtypes.int16)


@pytest.mark.parametrize("distance", [dtypes.int64, dtypes.int8, dtypes.uint32], ids=str)
@pytest.mark.parametrize("op", [Ops.SHL, Ops.SHR], ids=str)
def test_shift_by_a_distance_of_another_dtype(op: Op, distance: DType) -> None:
    sources = [dtypes.int16, distance]
    far: list[Number] = [
        value for value in (1 << 32, (1 << 32) + 3, 256, 16, 15) if value <= distance.max
    ]
    arguments = list(itertools.product(samples(dtypes.int16), samples(distance) + far))
    for found, (value, places) in zip(computed(op, arguments, sources), arguments, strict=True):
        wanted: Number = 0
        if 0 <= places < 16:
            shifted = int(value) << int(places) if op is Ops.SHL else int(value) >> int(places)
            wanted = truncate(dtypes.int16, shifted)
        assert found == wanted, (value, places)


@pytest.mark.parametrize("op", [Ops.CDIV, Ops.CMOD, Ops.MAX, Ops.SHR, Ops.CMPLT], ids=str)
@pytest.mark.parametrize("constant", [-1, 0, 1, 7])
def test_operation_with_a_constant(op: Op, constant: int) -> None:
    """LLVM folds the checks of the divisor; a weak constant takes the dtype beside it."""
    evaluate = ROWS[op].evaluate
    assert evaluate is not None
    values = samples(dtypes.int32)
    lanes = lane_numbers(len(values))
    for operand in (number(constant), UOp.const(constant)):
        node = UOp(op, (parameter(1, dtypes.int32).index(lanes).load(), operand))
        out = np.zeros(len(values), numpy_dtype(node.dtype))
        source = np.array(values, np.int32)
        run(linear(parameter(0, node.dtype).index(lanes).store(node)), [out, source])
        assert out.tolist() == [truncate(node.dtype, evaluate(v, constant)) for v in values]


@pytest.mark.parametrize("swapped", [False, True])
def test_max_of_a_constant_keeps_nan(swapped: bool) -> None:
    values = [truncate(dtypes.float32, value) for value in samples(dtypes.float32)]
    lanes = lane_numbers(len(values))
    operands = (parameter(1).index(lanes).load(), number(0.5, dtypes.float32))
    node = UOp(Ops.MAX, operands[::-1] if swapped else operands)
    out = np.zeros(len(values), np.float32)
    run(linear(parameter(0).index(lanes).store(node)), [out, np.array(values, np.float32)])
    np.testing.assert_array_equal(out, np.maximum(np.array(values, np.float32), np.float32(0.5)))


def test_bfloat16_is_moved_but_not_computed_with() -> None:
    lanes = lane_numbers(5)
    a, b = (parameter(slot, dtypes.bfloat16).index(lanes).load() for slot in (1, 2))
    chosen = UOp(Ops.WHERE, (lanes < number(3), a, b))
    one, two, out = (np.full(5, value, numpy_dtype(dtypes.bfloat16)) for value in (1.5, -2.0, 0))
    run(linear(parameter(0, dtypes.bfloat16).index(lanes).store(chosen)), [out, one, two])
    assert out.astype(float).tolist() == [1.5, 1.5, 1.5, -2, -2]
    with pytest.raises(UnsupportedError, match="ADD of bfloat16"):
        computed(Ops.ADD, [(1.0, 1.0)], [dtypes.bfloat16] * 2)
    with pytest.raises(UnsupportedError, match="MULACC of float16"):
        computed(Ops.MULACC, [(1.0, 1.0, 1.0)], [dtypes.float16] * 3)


@pytest.mark.parametrize("dtype", dtypes.float8s, ids=str)
def test_float8_is_refused(dtype: DType) -> None:
    with pytest.raises(UnsupportedError, match=dtype.name):
        computed(Ops.CAST, [(1.0,)], [dtypes.float32], dtype)
