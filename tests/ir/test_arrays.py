"""Array forms of operations against their scalar forms, on special and random values of every dtype."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from loomgrad.dtype import DType, cast_value, dtypes, numpy_dtype, truncate
from loomgrad.dtype.number import Number
from loomgrad.ir.args import ParamArg
from loomgrad.ir.arrays import FLOAT_FUNCTIONS, array_forms
from loomgrad.ir.evaluate import evaluate_tensor
from loomgrad.ir.fold import fold
from loomgrad.ir.opcode import GroupOp, Op, Ops
from loomgrad.ir.ops import ROWS
from loomgrad.ir.uop import UOp
from loomgrad.memory import Buffer
from tests.ir.graphs import buffer
from tests.ir.values_of import STRONG, near, same, values_of

# NumPy's and C's elementary functions may differ in the last place of a float64.
FUNCTIONS = GroupOp.Transcendental
SCALAR_OPS = [op for op in Ops if ROWS[op].evaluate is not None]


def array_of(values: list[Number], dtype: DType) -> np.ndarray:
    """Values as storage, ints without a detour through floats."""
    held = np.float64 if dtype.is_float else object
    return np.array(values, held).astype(numpy_dtype(dtype))


def evaluated(node: UOp, columns: list[list[Number]]) -> list[Number]:
    """The evaluator's values of an operation on BUFFERs 0, 1 ..."""
    sources = [source for source in node.toposort() if source.op is Ops.BUFFER]
    contents = {s: array_of(columns[s.arg.slot], s.dtype) for s in sources}
    result = evaluate_tensor(node, contents)
    assert result.dtype == numpy_dtype(node.dtype)
    wide = result.astype(np.float64) if node.dtype.is_float else result
    numbers: list[Number] = wide.tolist()
    return numbers


def test_every_scalar_form_has_an_array_form() -> None:
    assert set(array_forms()) == set(SCALAR_OPS)
    assert {*SCALAR_OPS, Ops.CAST, Ops.BITCAST} == set(GroupOp.Elementwise)


def operand_dtypes(op: Op, dtype: DType) -> tuple[DType, ...]:
    if op is Ops.WHERE:
        return (dtypes.bool, dtype, dtype)
    return (dtype,) * len(ROWS[op].sources.split())


def cases() -> list[tuple[Op, DType]]:
    found = []
    for op, dtype in itertools.product(SCALAR_OPS, STRONG):
        sources = operand_dtypes(op, dtype)
        node = UOp(op, tuple(buffer(slot, 1, d) for slot, d in enumerate(sources)))
        if node.dtype is not dtypes.illtyped:
            found.append((op, dtype))
    return found


def test_cases_cover_every_operation() -> None:
    assert {op for op, _ in cases()} == set(SCALAR_OPS)


@pytest.mark.parametrize(("op", "dtype"), cases(), ids=lambda v: v.name)
def test_array_form_agrees_with_scalar_form(op: Op, dtype: DType) -> None:
    sources = operand_dtypes(op, dtype)
    pools = [values_of(d, 12 if len(sources) > 1 else 200, slot) for slot, d in enumerate(sources)]
    points = list(itertools.product(*pools))[:: 1 if len(sources) < 3 else 7]
    columns = [list(column) for column in zip(*points, strict=True)]
    node = UOp(op, tuple(buffer(s, len(points), d) for s, d in enumerate(sources)))
    function = ROWS[op].evaluate
    assert function is not None
    for point, got in zip(points, evaluated(node, columns), strict=True):
        expected = fold(function, node.dtype, point)
        if op in FUNCTIONS and node.dtype.is_float:
            steps = 2 if node.dtype is dtypes.float64 else 1
            assert near(got, expected, node.dtype, steps), (point, got, expected)
        elif op is Ops.MAX and got == 0:
            assert got == expected, (point, got, expected)
        else:
            assert same(got, expected), (point, got, expected)


@pytest.mark.parametrize("source", STRONG, ids=lambda d: d.name)
@pytest.mark.parametrize("target", STRONG, ids=lambda d: d.name)
def test_casts_agree_with_cast_value(source: DType, target: DType) -> None:
    values = values_of(source, 400)
    node = buffer(0, len(values), source).cast(target)
    if source is target:
        return
    for value, got in zip(values, evaluated(node, [values]), strict=True):
        expected = cast_value(value, source, target)
        assert same(got, expected), (value, got, expected)


def test_int64_to_short_floats_rounds_once() -> None:
    """2**62 + 2**38 + 1 lies just above a tie of float32 that float64 cannot tell from the tie."""
    values: list[Number] = [2**62 + 2**38 + 1, 2**62 + 2**38, -(2**62) - 2**38 - 1, 2**54 + 1]
    for target in (dtypes.float32, dtypes.bfloat16):
        got = evaluated(buffer(0, 4, dtypes.int64).cast(target), [values])
        assert got == [truncate(target, value) for value in values]


def test_bitcast_is_its_own_inverse_and_numpys_view() -> None:
    for source, target in itertools.product(STRONG, STRONG):
        if source.itemsize != target.itemsize or source.is_bool or target.is_bool:
            continue
        values = [v for v in values_of(source, 50) if v == v]
        node = buffer(0, len(values), source).bitcast(target)
        contents = array_of(values, source)
        result = evaluate_tensor(node, {buffer(0, len(values), source): contents})
        expected = contents.view(numpy_dtype(target))
        defined = expected == expected
        assert np.array_equal(result.view(np.uint8), expected.view(np.uint8)) or np.array_equal(
            result[defined], expected[defined]
        )


def test_bitcast_to_another_width_rescales_the_last_axis() -> None:
    contents = np.arange(12, dtype=np.int16)
    base = buffer(0, 12, dtypes.int16)
    node = base.reshape(3, 4).bitcast(dtypes.int32)
    assert node.shape == (3, 2)
    expected = contents.reshape(3, 4).view(np.int32)
    assert np.array_equal(evaluate_tensor(node, {base: contents}), expected)


def test_weak_operands_take_the_strong_dtype() -> None:
    int8 = buffer(0, 2, dtypes.int8)
    contents = np.array([127, -3], np.int8)
    assert evaluate_tensor(int8 + 1, {int8: contents}).tolist() == [-128, -2]
    half = buffer(1, 1, dtypes.float16)
    result = evaluate_tensor(half + 0.1, {half: np.array([1], np.float16)})
    assert result.dtype == np.float16
    assert result[0] == np.float16(1) + np.float16(0.1)


def test_literals_beyond_int64_reach_uint64() -> None:
    node = UOp.const(2**64 - 1, dtypes.uint64)
    assert evaluate_tensor(node, {}).item() == 2**64 - 1


def test_float_functions_of_ints_are_floats() -> None:
    assert Ops.FDIV in FLOAT_FUNCTIONS
    base = buffer(0, 2, dtypes.int32)
    node = UOp(Ops.SQRT, (base,))
    assert node.dtype is dtypes.float32
    result = evaluate_tensor(node, {base: np.array([4, 2], np.int32)})
    assert result.tolist() == [2.0, float(np.float32(math.sqrt(2)))]


def test_memory_of_a_bound_buffer_is_read() -> None:
    memory = Buffer("CPU", 3, dtypes.int16)
    memory.copyin(np.array([1, -2, 3], np.int16).tobytes())
    bound = UOp(Ops.BUFFER, (), ParamArg(0, dtypes.int16, 3, "CPU", buffer=memory))
    assert evaluate_tensor(bound * 2, {}).tolist() == [2, -4, 6]
    assert evaluate_tensor(bound * 2, {bound: np.array([5, 5, 5], np.int16)}).tolist() == [10] * 3
