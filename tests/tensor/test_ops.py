"""Every operation of the front end, one row each: values, dtypes, special values, layouts, gradients."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from loomgrad import Tensor
from loomgrad.dtype import DType, dtypes, least_upper_float, numpy_dtype, sum_dtype
from loomgrad.ir.opcode import GroupOp, Ops
from tests.tensor.checks import (
    BOOL,
    FLOATS,
    INTS,
    NUMBERS,
    SIGNED,
    Array,
    check_gradient,
    check_second_gradient,
    close,
    dtype_is,
)

Values = Callable[[np.random.Generator, DType, int], Array]
SHAPE = (3, 5)


# ---- what goes in


def small(rng: np.random.Generator, dtype: DType, count: int) -> Array:
    """Numbers around 0; no two floats are equal."""
    if dtype.is_bool:
        return rng.integers(0, 2, count).astype(bool)
    if dtype.is_int:
        low = 0 if dtype.is_unsigned else -6
        return rng.integers(low, 7, count).astype(numpy_dtype(dtype))
    return rng.uniform(-3, 3, count).astype(numpy_dtype(dtype))


def spread(rng: np.random.Generator, dtype: DType, count: int) -> Array:
    """Numbers at both sides of the kinks at -3, 0, 3 and 6, and not near 0."""
    found = small(rng, dtype, count) * 3
    return np.where(np.abs(found) < 1, found + 2, found).astype(numpy_dtype(dtype))


def positive(rng: np.random.Generator, dtype: DType, count: int) -> Array:
    return np.abs(small(rng, dtype, count)) + np.ones(count, numpy_dtype(dtype))


def ties(rng: np.random.Generator, dtype: DType, count: int) -> Array:
    """Few different values, so that many are equal."""
    return rng.integers(0, 3, count).astype(numpy_dtype(dtype))


def quarters(rng: np.random.Generator, dtype: DType, count: int) -> Array:
    """Numbers whose quotients round to no whole number by accident."""
    return (rng.integers(1, 40, count) * 2 + 1).astype(numpy_dtype(dtype)) / (
        4 if dtype.is_float else 1
    )


def distances(rng: np.random.Generator, dtype: DType, count: int) -> Array:
    return rng.integers(0, 7, count).astype(numpy_dtype(dtype))


# ---- what comes out


def same(dtype: DType) -> DType:
    return dtype


def boolean(dtype: DType) -> DType:
    return dtypes.bool


def summed(dtype: DType) -> DType:
    return dtype if dtype.is_float else sum_dtype(dtype)


def index(dtype: DType) -> DType:
    return dtypes.int32


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def softplus(x: Array) -> Array:
    return np.asarray(np.logaddexp(x, 0))


def softmax(x: Array) -> Array:
    weights = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True))


def logsumexp(x: Array) -> Array:
    return np.asarray(np.log(np.exp(x).sum()))


def where_zero(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Integer division as we define it: 0 for a zero divisor."""

    def total(a: Array, b: Array) -> Array:
        return np.where(b == 0, np.zeros_like(a), function(a, np.where(b == 0, np.ones_like(b), b)))

    return total


@dataclass(frozen=True)
class OpTest:
    """One operation.  `wide` rows are compared with NumPy's result in float64, others in the dtype itself."""

    ours: Callable[..., Tensor]
    reference: Callable[..., Any]
    inputs: int
    dtypes: tuple[DType, ...]
    values: Values
    result: Callable[[DType], DType]
    tolerance: float  # in units of the result's precision
    gradient: bool
    name: str = ""

    @property
    def id(self) -> str:
        return self.name or self.ours.__name__.strip("_")


# fmt: off
# ruff: noqa: E501
OP_TESTS = (
    #      ours                  reference            inputs dtypes         values     result             ulps  gradient
    OpTest(operator.neg,         np.negative,              1, NUMBERS,       small,     same,              0,    True),
    OpTest(Tensor.abs,           np.abs,                   1, NUMBERS,       small,     same,              0,    True),
    OpTest(Tensor.sign,          np.sign,                  1, FLOATS + SIGNED, small,   same,              0,    False),
    OpTest(Tensor.square,        np.square,                1, NUMBERS,       small,     same,              1,    True),
    OpTest(Tensor.reciprocal,    np.reciprocal,            1, FLOATS,        positive,  same,              1,    True),
    OpTest(Tensor.sqrt,          np.sqrt,                  1, NUMBERS,       positive,  least_upper_float, 1,    True),
    OpTest(Tensor.rsqrt,         lambda x: 1 / np.sqrt(x), 1, FLOATS,        positive,  same,              2,    True),
    OpTest(Tensor.exp,           np.exp,                   1, NUMBERS,       small,     least_upper_float, 2,    True),
    OpTest(Tensor.exp2,          np.exp2,                  1, FLOATS,        small,     same,              2,    True),
    OpTest(Tensor.log,           np.log,                   1, NUMBERS,       positive,  least_upper_float, 2,    True),
    OpTest(Tensor.log2,          np.log2,                  1, FLOATS,        positive,  same,              2,    True),
    OpTest(Tensor.sin,           np.sin,                   1, FLOATS,        small,     same,              2,    True),
    OpTest(Tensor.cos,           np.cos,                   1, NUMBERS,       small,     least_upper_float, 3,    True),
    OpTest(Tensor.tan,           np.tan,                   1, FLOATS,        small,     same,              8,    True),
    OpTest(Tensor.tanh,          np.tanh,                  1, NUMBERS,       small,     least_upper_float, 2,    True),
    OpTest(Tensor.trunc,         np.trunc,                 1, FLOATS + INTS, small,     same,              0,    True),
    OpTest(Tensor.floor,         np.floor,                 1, FLOATS,        small,     same,              0,    True),
    OpTest(Tensor.ceil,          np.ceil,                  1, FLOATS,        small,     same,              0,    True),
    OpTest(Tensor.isnan,         np.isnan,                 1, FLOATS,        small,     boolean,           0,    False),
    OpTest(Tensor.isinf,         np.isinf,                 1, NUMBERS,       small,     boolean,           0,    False),
    OpTest(Tensor.isfinite,      np.isfinite,              1, NUMBERS,       small,     boolean,           0,    False),
    OpTest(operator.invert,      np.invert,                1, INTS + BOOL,   small,     same,              0,    False),
    OpTest(Tensor.relu,          lambda x: np.maximum(x, 0), 1, NUMBERS,     small,     same,              0,    True),
    OpTest(Tensor.sigmoid,       sigmoid,                  1, FLOATS,        small,     same,              4,    True),
    OpTest(Tensor.silu,          lambda x: x * sigmoid(x), 1, FLOATS,        small,     same,              6,    True),
    OpTest(Tensor.gelu,          lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), 1, FLOATS, small, same, 2000, True),
    OpTest(Tensor.softplus,      softplus,                 1, FLOATS,        small,     same,              4,    True),
    OpTest(Tensor.leaky_relu,    lambda x: np.where(x < 0, x * x.dtype.type(0.01), x), 1, FLOATS, small, same, 1, True),
    OpTest(Tensor.relu6,         lambda x: np.clip(x, 0, 6), 1, FLOATS + INTS, spread,  same,              0,    True),
    OpTest(Tensor.hardtanh,      lambda x: np.clip(x, -1, 1), 1, FLOATS,     small,     same,              0,    True),
    OpTest(Tensor.hardsigmoid,   lambda x: np.clip(x + 3, 0, 6) / 6, 1, FLOATS, spread, same,              2,    True),
    OpTest(Tensor.hardswish,     lambda x: x * np.clip(x + 3, 0, 6) / 6, 1, FLOATS, spread, same,          4,    True),
    OpTest(Tensor.logsigmoid,    lambda x: -softplus(-x),  1, FLOATS,        small,     same,              4,    True),
    OpTest(Tensor.quick_gelu,    lambda x: x * sigmoid(1.702 * x), 1, FLOATS, small,    same,              16,   True),
    OpTest(Tensor.elu,           lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), 1, FLOATS, small, same, 4, True),
    OpTest(Tensor.celu,          lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), 1, FLOATS, small, same, 4, True),
    OpTest(Tensor.selu,          lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0))), 1, FLOATS, small, same, 8, True),
    OpTest(Tensor.mish,          lambda x: x * np.tanh(softplus(x)), 1, FLOATS, small,  same,              8,    True),
    OpTest(Tensor.softsign,      lambda x: x / (1 + np.abs(x)), 1, FLOATS,   small,     same,              2,    True),
    OpTest(Tensor.tanhshrink,    lambda x: x - np.tanh(x), 1, FLOATS,        spread,    same,              16,   True),
    OpTest(lambda x: x.clip(-1, 2), lambda x: np.clip(x, -1, 2), 1, FLOATS + SIGNED, small, same,         0,    True,  name="clip"),

    OpTest(operator.add,         np.add,                   2, NUMBERS + BOOL, small,    same,              0,    True),
    OpTest(operator.sub,         np.subtract,              2, NUMBERS,       small,     same,              0,    True),
    OpTest(operator.mul,         np.multiply,              2, NUMBERS + BOOL, small,    same,              0,    True),
    OpTest(operator.truediv,     np.true_divide,           2, NUMBERS,       positive,  least_upper_float, 1,    True),
    OpTest(operator.floordiv,    np.floor_divide,          2, FLOATS,        quarters,  same,              0,    False, name="floordiv float"),
    OpTest(operator.floordiv,    where_zero(np.floor_divide), 2, INTS,       small,     same,              0,    False),
    OpTest(operator.mod,         np.mod,                   2, FLOATS,        quarters,  same,              0,    True,  name="mod float"),
    OpTest(operator.mod,         where_zero(np.mod),       2, INTS,          small,     same,              0,    False),
    OpTest(Tensor.maximum,       np.maximum,               2, NUMBERS + BOOL, small,    same,              0,    True),
    OpTest(Tensor.minimum,       np.minimum,               2, NUMBERS + BOOL, small,    same,              0,    True),
    OpTest(operator.pow,         np.power,                 2, FLOATS,        positive,  same,              8,    True),
    OpTest(operator.lt,          np.less,                  2, NUMBERS + BOOL, ties,     boolean,           0,    False),
    OpTest(operator.gt,          np.greater,               2, NUMBERS + BOOL, ties,     boolean,           0,    False),
    OpTest(operator.le,          np.less_equal,            2, NUMBERS + BOOL, ties,     boolean,           0,    False),
    OpTest(operator.ge,          np.greater_equal,         2, NUMBERS + BOOL, ties,     boolean,           0,    False),
    OpTest(operator.eq,          np.equal,                 2, NUMBERS + BOOL, ties,     boolean,           0,    False),
    OpTest(operator.ne,          np.not_equal,             2, NUMBERS + BOOL, ties,     boolean,           0,    False),
    OpTest(Tensor.lt,            np.less,                  2, NUMBERS,       ties,      boolean,           0,    False),
    OpTest(Tensor.gt,            np.greater,               2, NUMBERS,       ties,      boolean,           0,    False),
    OpTest(Tensor.le,            np.less_equal,            2, NUMBERS,       ties,      boolean,           0,    False),
    OpTest(Tensor.ge,            np.greater_equal,         2, NUMBERS,       ties,      boolean,           0,    False),
    OpTest(Tensor.eq,            np.equal,                 2, NUMBERS,       ties,      boolean,           0,    False),
    OpTest(Tensor.ne,            np.not_equal,             2, NUMBERS,       ties,      boolean,           0,    False),
    OpTest(operator.and_,        np.bitwise_and,           2, INTS + BOOL,   small,     same,              0,    False),
    OpTest(operator.or_,         np.bitwise_or,            2, INTS + BOOL,   small,     same,              0,    False),
    OpTest(operator.xor,         np.bitwise_xor,           2, INTS + BOOL,   small,     same,              0,    False),
    OpTest(operator.lshift,      np.left_shift,            2, INTS,          distances, same,              0,    False),
    OpTest(operator.rshift,      np.right_shift,           2, INTS,          distances, same,              0,    False),
    OpTest(lambda x, y: (x < y).where(x, y * 2), lambda x, y: np.where(x < y, x, y * 2), 2, NUMBERS, small, same, 0,   True,  name="where"),

    OpTest(Tensor.sum,           np.sum,                   1, NUMBERS + BOOL, small,    summed,            8,    True),
    OpTest(Tensor.prod,          np.prod,                  1, FLOATS,        positive,  same,              16,   True),
    OpTest(Tensor.max,           np.max,                   1, NUMBERS + BOOL, small,    same,              0,    True),
    OpTest(Tensor.min,           np.min,                   1, NUMBERS + BOOL, small,    same,              0,    True),
    OpTest(Tensor.any,           np.any,                   1, NUMBERS + BOOL, ties,     boolean,           0,    False),
    OpTest(Tensor.all,           np.all,                   1, NUMBERS + BOOL, ties,     boolean,           0,    False),
    OpTest(Tensor.mean,          np.mean,                  1, NUMBERS,       positive,  least_upper_float, 8,    True),
    OpTest(Tensor.var,           lambda x: np.var(x, ddof=1), 1, FLOATS,     small,     same,              16,   True),
    OpTest(Tensor.std,           lambda x: np.std(x, ddof=1), 1, FLOATS,     small,     same,              16,   True),
    OpTest(Tensor.argmax,        np.argmax,                1, NUMBERS,       ties,      index,             0,    False),
    OpTest(Tensor.argmin,        np.argmin,                1, NUMBERS,       ties,      index,             0,    False),
    OpTest(Tensor.softmax,       softmax,                  1, FLOATS,        small,     same,              16,   True),
    OpTest(Tensor.log_softmax,   lambda x: np.log(softmax(x)), 1, FLOATS,    small,     same,              64,   True),
    OpTest(Tensor.logsumexp,     logsumexp,                1, FLOATS,        small,     same,              8,    True),
)
# fmt: on


def arrays_of(row: OpTest, dtype: DType, shape: tuple[int, ...] = SHAPE) -> list[Array]:
    rng = np.random.default_rng(7)
    count = int(np.prod(shape))
    return [row.values(rng, dtype, count).reshape(shape) for _ in range(row.inputs)]


def compare(row: OpTest, tensors: Sequence[Tensor], arrays: Sequence[Array], dtype: DType) -> None:
    """Our result against NumPy's, which is computed in float64 where it is a float."""
    result = row.ours(*tensors)
    dtype_is(result, row.result(dtype))
    if row.result(dtype).is_float:
        arrays = [array.astype(np.float64) for array in arrays]
    with np.errstate(all="ignore"):
        wanted = np.asarray(row.reference(*arrays))
    close(result.numpy(), wanted, row.tolerance)


CASES = [
    pytest.param(row, dtype, id=f"{row.id}-{dtype.name}")
    for row in OP_TESTS
    for dtype in row.dtypes
]
ROWS = [pytest.param(row, id=row.id) for row in OP_TESTS]


@pytest.mark.parametrize(("row", "dtype"), CASES)
def test_values(row: OpTest, dtype: DType) -> None:
    arrays = arrays_of(row, dtype)
    compare(row, [Tensor(array) for array in arrays], arrays, dtype)


@pytest.mark.parametrize("row", ROWS)
def test_layouts(row: OpTest) -> None:
    """Permuted, broadcast and sliced operands, operands without axes."""
    dtype = row.dtypes[0]
    arrays = arrays_of(row, dtype, (4, 3, 5))
    turned = [Tensor(array).permute(2, 0, 1) for array in arrays]
    compare(row, turned, [array.transpose(2, 0, 1) for array in arrays], dtype)
    first, *others = arrays
    wide = [Tensor(first)[1:2, ::2], *(Tensor(array)[:, :1] for array in others)]
    compare(row, wide, [first[1:2, ::2], *(array[:, :1] for array in others)], dtype)
    if row.id not in ("var", "std"):  # of one element they are NaN
        scalars = [array.reshape(-1)[:1].reshape(()) for array in arrays]
        if row.id not in ("softmax", "log_softmax"):  # these need an axis
            compare(row, [Tensor(scalar) for scalar in scalars], scalars, dtype)


# Reductions, whose answer without elements is tested with them.
FOLDS = {"max", "min", "prod", "var", "std", "mean", "softmax", "log_softmax", "logsumexp"}
FOLDS |= {"sum", "any", "all", "argmax", "argmin"}


@pytest.mark.parametrize("row", [r for r in OP_TESTS if r.id not in FOLDS], ids=lambda r: r.id)
def test_nothing(row: OpTest) -> None:
    """Operands without elements."""
    dtype = row.dtypes[0]
    empty = np.empty((0, 3), numpy_dtype(dtype))
    compare(row, [Tensor(empty)] * row.inputs, [empty] * row.inputs, dtype)


SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, -2.5], np.float32)
EVERYWHERE = [
    row
    for row in OP_TESTS
    if row.values in (small, ties, positive) and dtypes.float32 in row.dtypes
]
# What the reference formula itself computes otherwise than the function is defined.
DIFFERENT = (
    "pow",
    "silu",
    "gelu",
    "quick_gelu",
    "mish",
    "softsign",
    "softmax",
    "log_softmax",
    "logsumexp",
    "prod",
    "std",
    "var",
    "mean",
    "sum",
)


@pytest.mark.parametrize(
    "row", [r for r in EVERYWHERE if r.id not in DIFFERENT], ids=lambda r: r.id
)
def test_special_values(row: OpTest) -> None:
    """Zeros by sign, infinities, NaN, a subnormal, a large number: in all combinations."""
    grids = np.meshgrid(*[SPECIAL] * row.inputs)
    arrays = [grid.reshape(-1) for grid in grids]
    compare(row, [Tensor(array) for array in arrays], arrays, dtypes.float32)


@pytest.mark.parametrize("row", [r for r in OP_TESTS if r.gradient], ids=lambda r: r.id)
def test_gradient(row: OpTest) -> None:
    check_gradient(row.ours, arrays_of(row, dtypes.float64, (2, 3)))


SMOOTH = (
    "square",
    "reciprocal",
    "sqrt",
    "exp",
    "exp2",
    "log",
    "log2",
    "sin",
    "tanh",
    "sigmoid",
    "silu",
    "softplus",
    "mish",
    "softmax",
)


@pytest.mark.parametrize("row", [r for r in OP_TESTS if r.id in SMOOTH], ids=lambda r: r.id)
def test_second_gradient(row: OpTest) -> None:
    check_second_gradient(row.ours, arrays_of(row, dtypes.float64, (2, 2))[0])


def test_every_elementwise_operation_is_reached() -> None:
    """The table covers the rows of the IR that the front end makes; casts and draws have their own tests."""
    reached = {
        node.op
        for row in OP_TESTS
        for dtype in row.dtypes
        for node in row.ours(*map(Tensor, arrays_of(row, dtype))).uop.toposort()
    }
    elsewhere = {Ops.BITCAST, Ops.THREEFRY, Ops.CDIV, Ops.CMOD}
    assert set(GroupOp.Elementwise) - reached == elsewhere
