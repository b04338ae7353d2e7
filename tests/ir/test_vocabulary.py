"""The operators of nodes, evaluated, against NumPy: promotion, signs, NaN, and what is refused."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loomgrad.dtype import DType, dtypes, least_upper_dtype, numpy_dtype
from loomgrad.errors import DTypeError, IndexingError, ShapeError
from loomgrad.ir.evaluate import evaluate_tensor
from loomgrad.ir.opcode import Ops
from loomgrad.ir.uop import UOp
from tests.ir.graphs import buffer, tensor
from tests.ir.values_of import values_of

DTYPES = (
    dtypes.bool,
    dtypes.int8,
    dtypes.uint8,
    dtypes.int32,
    dtypes.uint32,
    dtypes.int64,
    dtypes.float32,
)
Binary = Callable[[Any, Any], Any]


def pairs(first: DType, second: DType) -> tuple[np.ndarray, np.ndarray]:
    points = list(itertools.product(values_of(first, 6)[:14], values_of(second, 6, 1)[:14]))
    columns = zip(*points, strict=True)
    types = (first, second)
    arrays = [
        np.array(list(column), np.float64 if dtype.is_float else object).astype(numpy_dtype(dtype))
        for column, dtype in zip(columns, types, strict=True)
    ]
    return arrays[0], arrays[1]


def both_ways(function: Binary, expected: Binary, first: DType, second: DType) -> None:
    a, b = pairs(first, second)
    x, y = buffer(0, a.size, first), buffer(1, b.size, second)
    node = function(x, y)
    got = evaluate_tensor(node, {x: a, y: b})
    common = numpy_dtype(least_upper_dtype(first, second))
    with np.errstate(all="ignore"):
        wanted = np.asarray(expected(a.astype(common), b.astype(common)))
    if wanted.dtype.kind == "f":
        assert np.allclose(got, wanted, rtol=1e-6, equal_nan=True), (first, second)
    else:
        assert np.array_equal(got, wanted), (first, second)


def minimum(a: Any, b: Any) -> Any:
    return a.minimum(b)


def maximum(a: Any, b: Any) -> Any:
    return a.maximum(b)


# fmt: off
ARITHMETIC = (
    (operator.add, np.add),        (operator.mul, np.multiply),
    (operator.lt, np.less),        (operator.gt, np.greater),
    (operator.le, np.less_equal),  (operator.ge, np.greater_equal),
    (maximum, np.maximum),         (minimum, np.minimum),
    (UOp.eq, np.equal),            (UOp.ne, np.not_equal),
)
BITS = ((operator.and_, np.bitwise_and), (operator.or_, np.bitwise_or), (operator.xor, np.bitwise_xor))
# fmt: on


@pytest.mark.parametrize(("function", "expected"), ARITHMETIC, ids=lambda f: f.__name__)
def test_arithmetic_and_comparison(function: Binary, expected: Binary) -> None:
    for first, second in itertools.product(DTYPES, DTYPES):
        both_ways(function, expected, first, second)


@pytest.mark.parametrize(("function", "expected"), BITS, ids=lambda f: f.__name__)
def test_bits(function: Binary, expected: Binary) -> None:
    for first, second in itertools.product(DTYPES[:-1], DTYPES[:-1]):
        both_ways(function, expected, first, second)


def test_subtraction_and_division() -> None:
    numbers = DTYPES[1:]
    for first, second in itertools.product(numbers, numbers):
        both_ways(operator.sub, np.subtract, first, second)
        if not least_upper_dtype(first, second).is_float:
            both_ways(operator.floordiv, np.floor_divide, first, second)
            both_ways(operator.mod, np.remainder, first, second)
    both_ways(operator.truediv, lambda a, b: (a / b).astype(np.float32), dtypes.int32, dtypes.int8)
    both_ways(operator.truediv, np.divide, dtypes.float32, dtypes.float32)


def test_floor_division_and_modulo_of_floats() -> None:
    a = np.array([7.5, -7.5, 7.5, -7.5, 0.0, 6.0], np.float32)
    b = np.array([2.0, 2.0, -2.0, -2.0, 3.0, 0.5], np.float32)
    x, y = buffer(0, 6), buffer(1, 6)
    contents = {x: a, y: b}
    assert np.array_equal(evaluate_tensor(x // y, contents), a // b)
    assert np.array_equal(evaluate_tensor(x % y, contents), a % b)
    assert np.array_equal(evaluate_tensor(x.floor(), contents), np.floor(a))


def test_numbers_on_either_side() -> None:
    a = np.array([1, 2, 3, -4], np.int32)
    x = buffer(0, 4, dtypes.int32)
    contents = {x: a}
    cases: list[tuple[UOp, np.ndarray]] = [
        (10 - x, 10 - a),
        (2 * x, 2 * a),
        (x - 1, a - 1),
        (10 // x, 10 // a),
        (10 % x, 10 % a),
        (1 + x, 1 + a),
        (6 & x, 6 & a),
        (x < 2, a < 2),
        (x < 3, a < 3),
        (-x, -a),
        (~x, ~a),
        (x << 2, a << 2),
        (x >> 1, a >> 1),
        (x.maximum(2), np.maximum(a, 2)),
        (x.minimum(2), np.minimum(a, 2)),
        ((x < 2).where(x, 0), np.where(a < 2, a, 0)),
        ((x < 2).where(5, x), np.where(a < 2, 5, a)),
        (x.where(1, 2), np.where(a != 0, 1, 2)),
    ]
    for node, expected in cases:
        assert node.dtype in (dtypes.int32, dtypes.bool)
        assert np.array_equal(evaluate_tensor(node, contents), expected), node
    half = 1 / x
    assert half.dtype is dtypes.float32
    assert np.array_equal(evaluate_tensor(half, contents), (1 / a).astype(np.float32))


def test_float_numbers_beside_ints_make_floats() -> None:
    x = buffer(0, 2, dtypes.int8)
    contents = {x: np.array([3, -100], np.int8)}
    assert (x + 1).dtype is dtypes.int8 and (x + 1.5).dtype is dtypes.float32
    assert evaluate_tensor(x + 1.5, contents).tolist() == [4.5, -98.5]
    assert evaluate_tensor(x.minimum(-200.5), contents).tolist() == [-200.5, -200.5]


def test_functions_of_ints_are_of_floats() -> None:
    x = buffer(0, 3, dtypes.int32)
    a = np.array([1, 4, 9], np.int32)
    for node, expected in (
        (x.sqrt(), np.sqrt(a)),
        (x.exp(), np.exp(a)),
        (x.exp2(), np.exp2(a)),
        (x.log(), np.log(a)),
        (x.log2(), np.log2(a)),
        (x.sin(), np.sin(a)),
        (x.tanh(), np.tanh(a)),
        (x.reciprocal(), 1 / a),
    ):
        got = evaluate_tensor(node, {x: a})
        assert got.dtype == np.float32
        assert np.allclose(got, expected, rtol=2e-7)
    assert x.trunc() is x and x.floor() is x


def test_what_is_refused() -> None:
    x, flags = tensor(0, (2, 3)), tensor(1, (2, 3), dtypes.bool)
    with pytest.raises(ShapeError, match=r"ADD of shapes \(2, 3\) and \(2,\) does not broadcast"):
        _ = x + tensor(2, (2,))
    with pytest.raises(DTypeError, match="bools cannot be subtracted"):
        _ = flags - flags
    with pytest.raises(DTypeError, match="a bool has no negative"):
        _ = -flags
    with pytest.raises(DTypeError, match="AND needs ints or bools"):
        _ = x & 1
    with pytest.raises(OverflowError, match="300 does not fit"):
        _ = tensor(3, (2,), dtypes.uint8) + 300
    with pytest.raises(ShapeError, match=r"cannot reshape \(2, 3\)"):
        x.reshape(4)
    with pytest.raises(IndexingError, match="axis 2 is out of range"):
        x.sum(2)


def test_movement_that_changes_nothing_makes_no_node() -> None:
    x = tensor(0, (2, 3))
    assert x.reshape(2, 3) is x and x.permute(0, 1) is x and x.flip(()) is x
    assert x.pad((None, (0, 0))) is x and x.shrink((None, (0, 3))) is x and x.expand(2, -1) is x
    assert x.cast(dtypes.float32) is x and x.bitcast(dtypes.float32) is x


def test_reductions_skip_axes_of_size_one() -> None:
    x = tensor(0, (1, 4, 1))
    assert [node.op for node in x.sum(0).toposort()].count(Ops.REDUCE) == 0
    assert x.sum(0).shape == (4, 1) and x.sum((0, 1), keepdim=True).shape == (1, 1, 1)
    a = np.arange(4, dtype=np.float32)
    assert evaluate_tensor(x.sum(), {buffer(0, 4): a}).item() == 6
    assert evaluate_tensor(x.max((0, 1)), {buffer(0, 4): a}).tolist() == [3]


def test_expand_repeats_axes_of_size_one() -> None:
    x = tensor(0, (2, 1))
    a = np.array([1, 2], np.float32)
    got = evaluate_tensor(x.expand(3, 2, 4), {buffer(0, 2): a})
    assert np.array_equal(got, np.broadcast_to(a.reshape(2, 1), (3, 2, 4)))
