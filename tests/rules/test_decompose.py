"""Operations in terms of simpler ones: what is left, powers, divisions, random bits."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from loomgrad.codegen.decompose import decompose
from loomgrad.dtype import DType, cast_value, dtypes, numpy_dtype
from loomgrad.ir import fold
from loomgrad.ir.evaluate import evaluate_tensor
from loomgrad.ir.opcode import GroupOp, Op, Ops, OpSet
from loomgrad.ir.rewrite import graph_rewrite
from loomgrad.ir.uop import UOp
from loomgrad.rules.decompose import DECOMPOSE, DIVISIONS, FUNCTIONS
from loomgrad.target import host_target
from tests.rules.elementwise import compiled, last_places_off, leaf

REPLACED = OpSet(*FUNCTIONS, Ops.FLOORDIV, Ops.FLOORMOD, Ops.THREEFRY)


@pytest.mark.parametrize("dtype", dtypes.floats)
@pytest.mark.parametrize("op", FUNCTIONS)
def test_nothing_replaced_is_left_and_constants_are_strong(op: Op, dtype: DType) -> None:
    sources = tuple(leaf(slot, dtype) for slot in range(2 if op is Ops.POW else 1))
    result = graph_rewrite(UOp(op, sources), DECOMPOSE)
    order = result.toposort()
    assert result.dtype is dtype
    assert result.shape == sources[0].shape
    assert not REPLACED & {node.op for node in order}
    elementwise = [node for node in order if node.op in GroupOp.Elementwise and not node.is_const()]
    assert not any(source.dtype.is_weak for node in elementwise for source in node.src)


@pytest.mark.parametrize("op", [Ops.POW, Ops.FLOORDIV, Ops.FLOORMOD])
def test_operands_broadcast_and_weak_constants_take_part(op: Op) -> None:
    dtype = dtypes.float32 if op is Ops.POW else dtypes.int32
    a, b = leaf(0, dtype, 6).reshape(6, 1), leaf(1, dtype, 4).reshape(1, 4)
    both = graph_rewrite(UOp(op, (a, b)), DECOMPOSE)
    assert (both.shape, both.dtype) == ((6, 4), dtype)
    one = graph_rewrite(UOp(op, (a, UOp.const(3))), DECOMPOSE)
    assert (one.shape, one.dtype) == ((6, 1), dtype)


def test_functions_of_ints_compute_in_the_dtype_of_their_result() -> None:
    x = np.arange(1, 20, dtype=np.int32)
    result = compiled(Ops.LOG2, dtypes.int32)(x)
    np.testing.assert_allclose(result, np.log2(x), rtol=3e-7)


# ---- powers


def random_powers(dtype: DType) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """Bases of every size with exponents that keep the result finite, and bases close to 1."""
    generator, size = np.random.default_rng(11), 20_000
    limit = np.finfo(np.dtype(dtype.name)).maxexp - 1
    bases = np.concatenate(
        (
            2.0 ** generator.uniform(-limit, limit, size),
            1 + generator.choice([-1, 1], size) * 2.0 ** generator.uniform(-20, -2, size),
        )
    ).astype(numpy_dtype(dtype))
    exponents = generator.uniform(-limit, limit, 2 * size) / np.log2(bases.astype(np.float64))
    return bases, exponents.astype(numpy_dtype(dtype))


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
def test_float_powers(dtype: DType) -> None:
    wide = np.float64 if dtype is dtypes.float32 else np.longdouble
    if np.finfo(wide).nmant == np.finfo(np.dtype(dtype.name)).nmant:
        pytest.skip("no float wider than float64 to compare with")
    a, b = random_powers(dtype)
    error = last_places_off(compiled(Ops.POW, dtype, dtype)(a, b), a.astype(wide) ** b.astype(wide))
    assert error.max() < (0.6 if dtype is dtypes.float32 else 1.0)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
def test_float_powers_at_the_edges_are_those_of_c(dtype: DType) -> None:
    sizes = (0.0, 1e-40, 0.5, 1.0, 1.5, 2.0, 3.0, 1e30, math.inf)
    values = [*sizes, *(-size for size in sizes), math.nan]
    a, b = np.array(list(itertools.product(values, values)), numpy_dtype(dtype)).T.copy()
    expected = np.array([fold.power(float(x), float(y)) for x, y in zip(a, b, strict=True)])
    with np.errstate(over="ignore", under="ignore"):
        expected = expected.astype(numpy_dtype(dtype))
    result = compiled(Ops.POW, dtype, dtype)(a, b)
    np.testing.assert_allclose(result, expected, rtol=3e-7)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result[numbers]), np.signbit(expected[numbers]))


@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.int64])
def test_int_powers_wrap(dtype: DType) -> None:
    values = [v for v in (0, 1, -1, 2, -2, 3, -7, 15, 100, 127) if dtype.min <= v <= dtype.max]
    exponents = [*range(-3 if not dtype.is_unsigned else 0, 12), 31, 63, 100]
    a, b = np.array(list(itertools.product(values, exponents)), numpy_dtype(dtype)).T.copy()
    expected = [
        cast_value(fold.power(int(x), int(y)), dtypes.weakint, dtype)
        for x, y in zip(a, b, strict=True)
    ]
    np.testing.assert_array_equal(compiled(Ops.POW, dtype, dtype)(a, b), expected)


def test_an_int_power_takes_a_square_for_each_bit_the_exponent_may_have() -> None:
    base, exponent = leaf(0, dtypes.int32), leaf(1, dtypes.int32)
    assert products(base.alu(Ops.POW, UOp.const(5))) == 3
    assert products(base.alu(Ops.POW, exponent & 7)) <= 5


def products(node: UOp) -> int:
    return sum(n.op is Ops.MUL for n in decompose(node, host_target()).toposort())


# ---- divisions


@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.uint8])
@pytest.mark.parametrize("op", DIVISIONS)
def test_all_divisions_of_bytes(op: Op, dtype: DType) -> None:
    values = np.arange(int(dtype.min), int(dtype.max) + 1).astype(numpy_dtype(dtype))
    a, b = (side.ravel() for side in np.meshgrid(values, values))
    evaluate = {
        Ops.FLOORDIV: fold.floor_divide,
        Ops.FLOORMOD: fold.floor_modulo,
        Ops.CDIV: fold.truncated_divide,
        Ops.CMOD: fold.truncated_modulo,
    }[op]
    expected = np.array([evaluate(int(x), int(y)) for x, y in zip(a, b, strict=True)])
    result = compiled(op, dtype, dtype)(a, b)
    np.testing.assert_array_equal(result, expected.astype(numpy_dtype(dtype)))


@pytest.mark.parametrize("op", DIVISIONS)
@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 8, 12, 16, -1, -3, -4])
@pytest.mark.parametrize("offset", [0, -5, -40, -100])
def test_divisions_by_constants_of_bounded_ints(op: Op, divisor: int, offset: int) -> None:
    """`offset` is where the interval of 64 numbers begins: it decides which form is taken."""
    node = leaf(0, dtypes.int32, 200)
    a = (node & 63) + offset
    values = np.arange(-100, 100, dtype=np.int32)
    expression = a.alu(op, UOp.const(divisor, dtypes.int32))
    expanded = graph_rewrite(expression, DECOMPOSE)
    assert not {Ops.FLOORDIV, Ops.FLOORMOD} & {n.op for n in expanded.toposort()}
    expected = evaluate_tensor(expression, {node: values})
    np.testing.assert_array_equal(evaluate_tensor(expanded, {node: values}), expected)


@pytest.mark.parametrize("op", DIVISIONS)
@pytest.mark.parametrize("divisor", [1, 2, 7, 64, 100, 127, -1, -7, -128])
def test_divisions_of_all_bytes_by_constants_do_not_overflow(op: Op, divisor: int) -> None:
    values = np.arange(-128, 128, dtype=np.int8)
    node = leaf(0, dtypes.int8, len(values))
    expression = node.alu(op, UOp.const(divisor, dtypes.int8))
    expected = evaluate_tensor(expression, {node: values})
    expanded = graph_rewrite(expression, DECOMPOSE)
    np.testing.assert_array_equal(evaluate_tensor(expanded, {node: values}), expected)


def operations(node: UOp) -> list[Op]:
    """The operations of a lowered node on top of its operand."""
    order = graph_rewrite(node, DECOMPOSE).toposort()
    return sorted(n.op for n in order if n.op in GroupOp.Elementwise and not n.is_const())


def test_divisions_that_need_no_division() -> None:
    x = leaf(0, dtypes.int32)
    count = leaf(0, dtypes.uint32)
    assert operations(x // 8) == [Ops.SHR]
    assert operations(x % 8) == [Ops.AND]
    assert operations(count // 5) == [Ops.CDIV]
    assert operations(count.alu(Ops.CMOD, count.const_like(16))) == [Ops.AND]
    assert operations(((x & 63) - 5) // 7) == sorted((Ops.AND, Ops.SUB, Ops.ADD, Ops.CDIV, Ops.SUB))
    assert operations(((x & 63) - 5) % 7) == sorted((Ops.AND, Ops.SUB, Ops.ADD, Ops.CMOD))
    assert operations(x % 7) == sorted((Ops.CMOD, Ops.CMPLT, Ops.WHERE, Ops.ADD))


def test_index_arithmetic_is_divided_by_shifts() -> None:
    i = UOp.range(40, 0)
    assert operations(i * 3 // 16) == [Ops.MUL, Ops.SHR]
    assert operations(i % 7) == [Ops.CMOD]


# ---- random bits

# Known answers that Random123 publishes for threefry2x32 with 20 rounds: counter, key, result.
THREEFRY_ANSWERS = (
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
)


def joined(words: tuple[int, int]) -> np.uint64:
    return np.uint64(words[1] << 32 | words[0])


def test_threefry_gives_the_published_answers() -> None:
    counters, keys, answers = (
        np.array([joined(row[column]) for row in THREEFRY_ANSWERS]) for column in range(3)
    )
    result = compiled(Ops.THREEFRY, dtypes.uint64, dtypes.uint64)(counters, keys)
    np.testing.assert_array_equal(result, answers)


def test_threefry_is_what_folding_gives() -> None:
    counters, keys = np.random.default_rng(2).integers(0, 1 << 64, (2, 50), np.uint64)
    expected = [fold.threefry(int(c), int(k)) for c, k in zip(counters, keys, strict=True)]
    result = compiled(Ops.THREEFRY, dtypes.uint64, dtypes.uint64)(counters, keys)
    np.testing.assert_array_equal(result, np.array(expected, np.uint64))
