"""Elementary functions: distance from the truth, special values, cost.  All float32: `exhaustive.py`."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from loomgrad.codegen.decompose import decompose
from loomgrad.dtype import DType, dtypes, numpy_dtype
from loomgrad.ir.evaluate import evaluate_tensor
from loomgrad.ir.opcode import GroupOp, Op, Ops, OpSet
from loomgrad.ir.ops import ROWS
from loomgrad.ir.uop import UOp
from loomgrad.target import host_target
from tests.rules.elementwise import Array, compiled, floats_by_bits, last_places_off, leaf

Reference = Callable[[Array], Array]
# fmt: off
# With the error allowed for float32, in last places, and the number of operations.
FUNCTIONS: dict[Op, tuple[Reference, float, int]] = {
    Ops.EXP:  (np.exp,  2.0, 18),
    Ops.EXP2: (np.exp2, 1.0, 19),
    Ops.LOG:  (np.log,  2.0, 28),
    Ops.LOG2: (np.log2, 1.0, 29),
    Ops.SIN:  (np.sin,  2.0, 39),
    Ops.COS:  (np.cos,  2.0, 41),
    Ops.TANH: (np.tanh, 2.0, 25),
}
# fmt: on
OPS = tuple(FUNCTIONS)
STEP = 4093  # every 4093rd float32: 2**20 of them
SPECIAL = (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 1e-38, -1e-38, 3e38)
needs_long_double = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="no float wider than float64 to compare with"
)


@pytest.mark.parametrize("op", OPS)
def test_float32_of_every_size(op: Op) -> None:
    reference, allowed, _ = FUNCTIONS[op]
    x = floats_by_bits(STEP)
    with np.errstate(all="ignore"):
        error = last_places_off(compiled(op, dtypes.float32)(x), reference(x.astype(np.float64)))
    worst = int(np.argmax(error))
    assert error[worst] <= allowed, f"{error[worst]:.3f} last places at {x[worst]!r}"


def interesting(op: Op, generator: np.random.Generator) -> Array:
    """float64 arguments where the function is neither 0 nor infinite, and where it is difficult."""
    size = 20_000
    sign = generator.choice([-1.0, 1.0], size)
    small = sign * 2.0 ** generator.uniform(-60, 1, size)
    around_one = 1 + sign * 2.0 ** generator.uniform(-52, -1, size)
    if op in (Ops.LOG, Ops.LOG2):
        return np.concatenate((around_one, 2.0 ** generator.uniform(-1074, 1023, size)))
    if op in (Ops.SIN, Ops.COS):
        turns = np.round(2.0 ** generator.uniform(0, 60, size))
        multiples = (turns + (0.5 if op is Ops.COS else 0.0)) * np.pi
        return np.concatenate((small, sign * 2.0 ** generator.uniform(0, 1023, size), multiples))
    bound = {Ops.EXP: 745.0, Ops.EXP2: 1075.0, Ops.TANH: 20.0}[op]
    return np.concatenate((small, generator.uniform(-bound, min(bound, 1024), size)))


@needs_long_double
@pytest.mark.parametrize("op", OPS)
def test_float64(op: Op) -> None:
    x = interesting(op, np.random.default_rng(3))
    with np.errstate(all="ignore"):
        truth = FUNCTIONS[op][0](x.astype(np.longdouble))
    error = last_places_off(compiled(op, dtypes.float64)(x), truth)
    worst = int(np.argmax(error))
    assert error[worst] <= 2, f"{error[worst]:.3f} last places at {x[worst]!r}"


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
@pytest.mark.parametrize("op", OPS)
def test_special_values(op: Op, dtype: DType) -> None:
    x = np.array(SPECIAL, numpy_dtype(dtype))
    result = compiled(op, dtype)(x)
    evaluate = ROWS[op].evaluate
    assert evaluate is not None
    with np.errstate(all="ignore"):
        expected = np.array([evaluate(float(value)) for value in x]).astype(x.dtype)
    np.testing.assert_allclose(result, expected, rtol=3e-7)
    zero = (x == 0) & (expected == 0)
    np.testing.assert_array_equal(np.signbit(result[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16])
@pytest.mark.parametrize("op", OPS)
def test_short_floats_are_rounded_once_from_float32(op: Op, dtype: DType) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(numpy_dtype(dtype))
    with np.errstate(all="ignore"):
        truth = FUNCTIONS[op][0](x.astype(np.float64))
        result = compiled(op, dtype)(x).astype(np.float64)
        nearest = truth.astype(numpy_dtype(dtype)).astype(np.float64)
    differing = (result != nearest) & ~(np.isnan(result) & np.isnan(nearest))
    assert np.mean(differing) < 1e-3
    np.testing.assert_allclose(result, nearest, rtol=2.0**-7, atol=1e-40)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
@pytest.mark.parametrize("op", OPS)
def test_machine_code_computes_what_the_evaluator_does(op: Op, dtype: DType) -> None:
    """Bit for bit, so nothing depends on how LLVM or a processor treats an operation."""
    generator = np.random.default_rng(5)
    sizes = 2.0 ** generator.uniform(-30, 60, 200) * generator.choice([-1.0, 1.0], 200)
    x = np.concatenate((SPECIAL, sizes, generator.uniform(-20, 20, 200))).astype(numpy_dtype(dtype))
    node = leaf(1, dtype, len(x))
    expanded = decompose(UOp(op, (node,)), host_target())
    with np.errstate(all="ignore"):
        expected = evaluate_tensor(expanded, {node: x})
    np.testing.assert_array_equal(compiled(op, dtype)(x), expected)


@pytest.mark.parametrize("op", OPS)
def test_cost(op: Op) -> None:
    expanded = decompose(UOp(op, (leaf(1, dtypes.float32),)), host_target())
    counted = OpSet(*(GroupOp.Elementwise - {Ops.BITCAST}))
    operations = [n for n in expanded.toposort() if n.op in counted and not n.is_const()]
    assert len(operations) <= FUNCTIONS[op][2]


def test_sine_and_tangent_stay_within_one() -> None:
    near_peak = np.float32(np.pi / 2) + np.arange(-3000, 3000, dtype=np.float32) * np.float32(
        2**-23
    )
    large = floats_by_bits(65537)
    for x in (near_peak, large):
        for op in (Ops.SIN, Ops.COS, Ops.TANH):
            assert not np.any(np.abs(compiled(op, dtypes.float32)(x)) > 1)


@pytest.mark.parametrize(("op", "zero"), [(Ops.SIN, 0.0), (Ops.COS, 0.5)])
def test_next_to_zeros(op: Op, zero: float) -> None:
    """The float32 nearest to zeros, up to the largest: the result is all that rounding them left."""
    function = FUNCTIONS[op][0]
    zeros = (np.unique(np.round(2.0 ** np.linspace(0, 120, 200_000))) + zero) * np.pi
    x = zeros.astype(np.float32)
    close = np.argsort(np.abs(function(x.astype(np.float64))))[:2000]
    truth = function(x[close].astype(np.float64))
    assert last_places_off(compiled(op, dtypes.float32)(x[close]), truth).max() <= 1


def test_the_cosine_of_zero_is_one() -> None:
    for dtype in (dtypes.float32, dtypes.float64):
        small = np.array([0.0, -0.0, 1e-300, 2.0**-28, -(2.0**-40)], numpy_dtype(dtype))
        assert compiled(Ops.COS, dtype)(small).tolist() == [1.0] * 5
