"""check_kernel: what rounding explains passes, everything else is named."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomgrad.dtype import DType, dtypes, numpy_dtype
from loomgrad.errors import CheckError
from loomgrad.ir import slices
from loomgrad.ir.check import check_kernel
from loomgrad.ir.evaluate import evaluate_kernel, run_kernel
from loomgrad.ir.opcode import Op, Ops
from loomgrad.ir.uop import UOp
from tests.ir.graphs import kernel, loop, matmul_kernel, param, reduction

RANDOM = np.random.default_rng(6)


def matmul_arrays(rows: int, inner: int, columns: int) -> list[np.ndarray]:
    shapes = ((rows, columns), (rows, inner), (inner, columns), (columns,))
    return [RANDOM.normal(size=shape).astype(np.float32) for shape in shapes]


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def with_result(arrays: list[np.ndarray], result: np.ndarray) -> list[np.ndarray]:
    return [result.astype(arrays[0].dtype), *arrays[1:]]


def elementwise(value: UOp, count: int, out: DType = dtypes.float32) -> UOp:
    """P0[i] = value, over loop 0."""
    i = loop(count, 0)
    return kernel(param(0, count, out).index(i).store(value).end(i))


def test_a_float32_matmul_passes_in_any_order() -> None:
    before = matmul_arrays(16, 300, 24)
    _, x, w, b = before
    sink = matmul_kernel(16, 300, 24)
    assert check_kernel(sink, before, with_result(before, np.maximum(x @ w + b, 0))) == 0
    backward = np.zeros((16, 24), np.float32)
    for k in reversed(range(300)):
        backward += np.outer(x[:, k], w[k])
    assert check_kernel(sink, before, with_result(before, np.maximum(backward + b, 0))) == 0


def test_the_first_wrong_element_is_named() -> None:
    before = matmul_arrays(4, 8, 4)
    _, x, w, b = before
    result = np.maximum(x @ w + b + 10, 0)
    before[3] += 10
    result[2, 1] += 1e-3
    result[3, 3] += 1e-3
    with pytest.raises(CheckError, match="kernel test: element 9 of argument 0 is") as caught:
        check_kernel(matmul_kernel(4, 8, 4), before, with_result(before, result))
    assert caught.value.facts["wrong"] == "2 of 16 elements"
    assert 0 < float(str(caught.value.facts["allowed_error"])) < 1e-4


def test_a_missing_term_of_a_sum_is_found() -> None:
    k = reduction(1000, 0)
    sink = kernel(param(0, 1).index(0).store(param(1, 1000).index(k).fold_ranges(Ops.ADD, k)))
    x = RANDOM.uniform(0.5, 1, 1000).astype(np.float32)
    before = [np.zeros(1, np.float32), x]
    assert check_kernel(sink, before, [np.array([x.sum()]), x]) == 0
    with pytest.raises(CheckError):
        check_kernel(sink, before, [np.array([x[:-1].sum()], np.float32), x])


@pytest.mark.parametrize("limit", [50, slices.LIMIT])
def test_softmax_passes_and_is_decided(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "LIMIT", limit)
    r, c, first, second = loop(8, 0), loop(100, 1), reduction(100, 2), reduction(100, 3)
    x = param(1, 800)
    peak = x.index(r * 100 + first).fold_ranges(Ops.MAX, first)
    total = (x.index(r * 100 + second) - peak).exp().fold_ranges(Ops.ADD, second)
    value = (x.index(r * 100 + c) - peak).exp() * total.reciprocal()
    sink = kernel(param(0, 800).index(r * 100 + c).store(value).end(r, c))
    values = (RANDOM.normal(size=(8, 100)) * 10).astype(np.float32)
    e = np.exp(values - values.max(1, keepdims=True))
    result = (e / e.sum(1, keepdims=True)).astype(np.float32).ravel()
    before = [np.zeros(800, np.float32), values.ravel()]
    assert check_kernel(sink, before, [result, values.ravel()]) == 0
    result[5] *= 1 + 1e-4
    with pytest.raises(CheckError, match="element 5"):
        check_kernel(sink, before, [result, values.ravel()])


def test_ints_and_bools_are_exact() -> None:
    i = loop(3, 0)
    doubled = elementwise(param(1, 3, dtypes.int32).index(i) * 2, 3, dtypes.int32)
    x = np.array([1, 2**30, -5], np.int32)
    before = [np.zeros(3, np.int32), x]
    assert check_kernel(doubled, before, [x * 2, x]) == 0
    with pytest.raises(CheckError, match="element 2 of argument 0 is -11, the evaluator says -10"):
        check_kernel(doubled, before, [x * 2 - np.array([0, 0, 1], np.int32), x])


def test_nan_infinity_and_overflow() -> None:
    i = loop(5, 0)
    sink = elementwise(param(1, 5).index(i) * 4, 5)
    x = np.array([np.nan, np.inf, -np.inf, 3e38, 1], np.float32)
    with np.errstate(over="ignore"):
        result = x * np.float32(4)
    before = [np.zeros(5, np.float32), x]
    assert check_kernel(sink, before, [result, x]) == 0
    for place, wrong in ((0, 1.0), (1, np.nan), (1, -np.inf), (3, 3.4e38), (4, np.nan)):
        changed = result.copy()
        changed[place] = wrong
        with pytest.raises(CheckError, match=f"element {place} "):
            check_kernel(sink, before, [changed, x])


def test_overflow_on_the_way_happens_as_in_the_dtype() -> None:
    i = loop(2, 0)
    x = param(1, 2).index(i)
    sink = elementwise((x.exp() - x.exp()), 2)
    values = np.array([100.0, 1.0], np.float32)
    before = [np.zeros(2, np.float32), values]
    assert check_kernel(sink, before, [np.array([np.nan, 0], np.float32), values]) == 0
    with pytest.raises(CheckError, match="element 0"):
        check_kernel(sink, before, [np.zeros(2, np.float32), values])


def test_comparisons_within_rounding_are_undecided() -> None:
    """0.1 + 0.2 < 0.3 hangs on how the sum rounds; a comparison of data as it is does not."""
    i = loop(2, 0)
    x, y = param(1, 2).index(i), param(2, 2).index(i)
    sink = elementwise(x + 0.2 < y, 2, dtypes.bool)
    data = [np.array([0.1, 0.1], np.float32), np.array([0.3, 0.5], np.float32)]
    for answer in (True, False):
        after = [np.array([answer, True]), *data]
        assert check_kernel(sink, [np.zeros(2, bool), *data], after) == 1
    with pytest.raises(CheckError, match="element 1"):
        check_kernel(sink, [np.zeros(2, bool), *data], [np.array([True, False]), *data])
    plain = elementwise(x < y, 2, dtypes.bool)
    with pytest.raises(CheckError):
        check_kernel(plain, [np.zeros(2, bool), *data], [np.array([False, True]), *data])


def test_a_choice_by_an_undecided_comparison_may_be_either_arm() -> None:
    i = loop(1, 0)
    x = param(1, 1).index(i) * 0.1
    near_zero = x - param(2, 1).index(i)
    relu = (near_zero < 0).where(UOp.const(0.0, dtypes.float32), near_zero)
    step = (near_zero < 0).where(UOp.const(0.0, dtypes.float32), 1.0)
    data = [np.array([7], np.float32), np.array([0.7], np.float32)]
    zero = [np.zeros(1, np.float32), *data]
    assert check_kernel(elementwise(relu, 1), zero, zero) == 0
    for value in (0.0, 1.0):
        assert check_kernel(elementwise(step, 1), zero, [floats(value), *data]) == 0
    with pytest.raises(CheckError):
        check_kernel(elementwise(step, 1), zero, [floats(3.5), *data])


def test_division_by_what_may_be_zero_is_undecided() -> None:
    i = loop(1, 0)
    difference = param(1, 1).index(i) * 0.1 - param(2, 1).index(i)
    data = [np.array([7], np.float32), np.array([0.7], np.float32)]
    before = [np.zeros(1, np.float32), *data]
    sink = elementwise(difference.reciprocal(), 1)
    assert check_kernel(sink, before, [floats(np.inf), *data]) == 1


def test_an_input_that_changed_is_named() -> None:
    before = matmul_arrays(2, 2, 2)
    _, x, w, b = before
    after = [np.maximum(x @ w + b, 0), x + 1, w, b]
    with pytest.raises(CheckError, match="kernel test changed argument 1"):
        check_kernel(matmul_kernel(2, 2, 2), before, after)


def test_elements_that_are_not_written_must_stay() -> None:
    i = loop(2, 0)
    sink = kernel(param(0, 4).index(i).store(UOp.const(1.0, dtypes.float32)).end(i))
    before = [np.full(4, 9, np.float32)]
    assert check_kernel(sink, before, [floats(1, 1, 9, 9)]) == 0
    with pytest.raises(CheckError, match="element 3"):
        check_kernel(sink, before, [floats(1, 1, 9, 8)])


UNARY = (
    Ops.EXP,
    Ops.EXP2,
    Ops.LOG,
    Ops.SIN,
    Ops.COS,
    Ops.TANH,
    Ops.SQRT,
    Ops.RECIPROCAL,
    Ops.NEG,
    Ops.TRUNC,
)
BINARY = (Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV, Ops.MAX)


@st.composite
def expressions(draw: st.DrawFn, count: int) -> UOp:
    """A float32 expression of two loads."""
    i = loop(count, 0)
    pool = [param(1, count).index(i), param(2, count).index(i), UOp.const(0.3, dtypes.float32)]
    for _ in range(draw(st.integers(1, 8))):
        op: Op = draw(st.sampled_from(UNARY + BINARY))
        chosen = [draw(st.sampled_from(pool)) for _ in range(1 if op in UNARY else 2)]
        pool.append(UOp(op, tuple(chosen)))
    if draw(st.booleans()):
        pool.append((pool[-1] < pool[0]).where(pool[-1], pool[-2]))
    return pool[-1]


@given(expressions(12))
def test_rounding_after_each_step_stays_within_the_bounds(value: UOp) -> None:
    """The evaluator itself in float32 is one more compiled kernel."""
    sink = elementwise(value, 12)
    arrays = [np.zeros(12, np.float32), *RANDOM.normal(size=(2, 12)).astype(np.float32)]
    after = [arrays[0].copy(), *arrays[1:]]
    evaluate_kernel(sink, after)
    check_kernel(sink, arrays, after)


@pytest.mark.parametrize(
    "dtype", [dtypes.float16, dtypes.bfloat16, dtypes.float64], ids=lambda d: d.name
)
def test_other_float_dtypes(dtype: DType) -> None:
    i = loop(50, 0)
    x = param(1, 50, dtype).index(i)
    sink = elementwise((x * x + x).exp(), 50, dtype)
    values = RANDOM.uniform(-1, 1, 50).astype(numpy_dtype(dtype))
    after = [np.zeros(50, numpy_dtype(dtype)), values]
    evaluate_kernel(sink, after)
    assert check_kernel(sink, [np.zeros(50, numpy_dtype(dtype)), values], after) == 0
    after[0][7] = after[0][7] * numpy_dtype(dtype).type(1.25)
    with pytest.raises(CheckError, match="element 7"):
        check_kernel(sink, [np.zeros(50, numpy_dtype(dtype)), values], after)


def test_bounds_are_not_much_wider_than_rounding() -> None:
    i = loop(100, 0)
    x = param(1, 100).index(i)
    sink = elementwise((x * 2.0 + 1.0).tanh() / 3.0, 100)
    values = RANDOM.normal(size=100).astype(np.float32)
    run = run_kernel(sink, [np.zeros(100, np.float32), values], wide=True)
    (written,) = run.written.values()
    assert written.error is not None
    assert written.error.max() < 20 * 2.0**-24
