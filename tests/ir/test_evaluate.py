"""The evaluator against NumPy: tensor, ranged and kernel graphs, whole and in slices."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomgrad.dtype import dtypes
from loomgrad.errors import CheckError
from loomgrad.ir import slices
from loomgrad.ir.args import AxisType, Invalid, ReduceArg
from loomgrad.ir.evaluate import evaluate_kernel, evaluate_tensor, evaluate_tensors
from loomgrad.ir.opcode import Ops
from loomgrad.ir.uop import UOp
from loomgrad.ir.values import Value, counting
from tests.ir.graphs import buffer, kernel, loop, matmul_kernel, param, reduction, tensor

RANDOM = np.random.default_rng(20)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype(np.float32)


def gate(condition: UOp, index: UOp) -> UOp:
    return UOp(Ops.WHERE, (condition, index, UOp.const(Invalid)))


# ---- tensor graphs


def test_matmul_with_bias_and_relu() -> None:
    x, w, b = normal(5, 7), normal(7, 6), normal(6)
    p = tensor(0, (5, 7)).reshape(5, 1, 7) * tensor(1, (7, 6)).permute(1, 0).reshape(1, 6, 7)
    y = (p.sum(2) + tensor(2, (6,))).maximum(0)
    got = evaluate_tensor(y, {buffer(0, 35): x.ravel(), buffer(1, 42): w.ravel(), buffer(2, 6): b})
    assert got.dtype == np.float32
    assert np.allclose(got, np.maximum(x @ w + b, 0), atol=1e-5)


@st.composite
def movements(draw: st.DrawFn) -> tuple[UOp, np.ndarray, np.ndarray]:
    """A chain of movement operations as a graph, its input, and NumPy's result."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    start = np.arange(1, math.prod(shape) + 1, dtype=np.float32)
    node, array = tensor(0, shape), start.reshape(shape)
    for _ in range(draw(st.integers(0, 6))):
        node, array = draw(st.sampled_from(STEPS))(draw, node, array)
    return node, start, array


def step_permute(draw: st.DrawFn, node: UOp, array: np.ndarray) -> tuple[UOp, np.ndarray]:
    order = draw(st.permutations(range(array.ndim)))
    return node.permute(order), array.transpose(order)


def step_flip(draw: st.DrawFn, node: UOp, array: np.ndarray) -> tuple[UOp, np.ndarray]:
    axes = tuple(sorted(draw(st.sets(st.integers(0, array.ndim - 1)))))
    return node.flip(axes), np.flip(array, axes)


def step_pad(draw: st.DrawFn, node: UOp, array: np.ndarray) -> tuple[UOp, np.ndarray]:
    pairs = [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in array.shape]
    return node.pad(pairs), np.pad(array, pairs) if pairs else array


def step_shrink(draw: st.DrawFn, node: UOp, array: np.ndarray) -> tuple[UOp, np.ndarray]:
    cuts = [sorted((draw(st.integers(0, n)), draw(st.integers(0, n)))) for n in array.shape]
    bounds = [(low, high) for low, high in cuts]
    return node.shrink(bounds), array[tuple(slice(*pair) for pair in bounds)]


def step_expand(draw: st.DrawFn, node: UOp, array: np.ndarray) -> tuple[UOp, np.ndarray]:
    sizes = (
        draw(st.integers(1, 3)),
        *(draw(st.integers(1, 3)) if n == 1 else n for n in array.shape),
    )
    return node.expand(sizes), np.broadcast_to(array, sizes)


def step_reshape(draw: st.DrawFn, node: UOp, array: np.ndarray) -> tuple[UOp, np.ndarray]:
    sizes = draw(st.sampled_from([(array.size,), (1, array.size), (*array.shape, 1)]))
    return node.reshape(sizes), array.reshape(sizes)


STEPS = [step_permute, step_flip, step_pad, step_shrink, step_expand, step_reshape]


@given(movements())
def test_chains_of_movement_against_numpy(case: tuple[UOp, np.ndarray, np.ndarray]) -> None:
    node, start, expected = case
    assert node.shape == expected.shape
    assert np.array_equal(evaluate_tensor(node, {buffer(0, start.size): start}), expected)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64, dtypes.int32, dtypes.uint8])
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2)])
def test_reductions(dtype: object, axis: int | tuple[int, ...] | None) -> None:
    assert dtype in (dtypes.float32, dtypes.float64, dtypes.int32, dtypes.uint8)
    source = tensor(0, (3, 4, 5), dtype)
    array = RANDOM.integers(0, 200, 60).astype(dtype.name)
    cube, contents = array.reshape(3, 4, 5), {buffer(0, 60, dtype): array}
    got = evaluate_tensor(source.sum(axis), contents)
    assert got.dtype == cube.dtype
    assert np.allclose(got, cube.sum(axis, dtype=cube.dtype))
    assert np.array_equal(evaluate_tensor(source.max(axis), contents), cube.max(axis))


def test_reductions_of_special_values() -> None:
    values = np.array([[1, np.nan], [np.inf, -np.inf], [-0.0, 2]], np.float32)
    node = tensor(0, (3, 2))
    contents = {buffer(0, 6): values.ravel()}
    assert np.array_equal(
        evaluate_tensor(node.max(1), contents), [np.nan, np.inf, 2], equal_nan=True
    )
    sums = evaluate_tensor(node.sum(1), contents)
    assert np.array_equal(sums, [np.nan, np.nan, 2], equal_nan=True)


def test_reductions_of_nothing_are_the_identity() -> None:
    for dtype, least in ((dtypes.float32, -math.inf), (dtypes.int8, -128)):
        empty = buffer(0, 0, dtype)
        contents = {empty: np.zeros(0, dtype.name)}
        for op, expected in ((Ops.ADD, 0), (Ops.MUL, 1), (Ops.MAX, least)):
            node = UOp(Ops.REDUCE, (empty,), ReduceArg(op, 1))
            assert evaluate_tensor(node, contents).item() == expected


def test_reductions_of_bools_are_logic() -> None:
    flags = tensor(0, (2, 2), dtypes.bool)
    contents = {buffer(0, 4, dtypes.bool): np.array([True, True, False, True])}
    for op, expected in (
        (Ops.ADD, [True, True]),
        (Ops.MUL, [False, True]),
        (Ops.MAX, [True, True]),
    ):
        node = UOp(Ops.REDUCE, (flags,), ReduceArg(op, 1))
        assert evaluate_tensor(node, contents).tolist() == expected


def test_sums_of_float16_round_once() -> None:
    values = np.full(4000, 0.1, np.float16)
    node = UOp(Ops.REDUCE, (buffer(0, 4000, dtypes.float16),), ReduceArg(Ops.ADD, 1))
    exact = values.astype(np.float64).sum()
    got = evaluate_tensor(node, {buffer(0, 4000, dtypes.float16): values})
    assert got == np.float16(exact)


def test_gather_by_data() -> None:
    table, rows = normal(6, 3), np.array([[5, 0], [2, 2]], np.int32)
    base = buffer(1, 4, dtypes.int32)
    node = UOp(Ops.INDEX, (tensor(0, (6, 3)), base.reshape(2, 2)))
    contents = {buffer(0, 18): table.ravel(), base: rows.ravel()}
    assert node.shape == (2, 2, 3)
    assert np.array_equal(evaluate_tensor(node, contents), table[rows])
    both = UOp(Ops.INDEX, (tensor(0, (6, 3)), base.reshape(2, 2), UOp.const(1)))
    assert np.array_equal(evaluate_tensor(both, contents), table[rows, 1])


def test_marks_and_stack() -> None:
    a, b = tensor(0, (2,)), tensor(1, (2,))
    contents = {
        buffer(0, 2): np.array([1, 2], np.float32),
        buffer(1, 2): np.array([3, 4], np.float32),
    }
    node = UOp.stack([UOp(Ops.NOOP, (a,), None, 7), UOp(Ops.DETACH, (b,))])
    assert evaluate_tensor(UOp(Ops.CONTIGUOUS, (node,)), contents).tolist() == [[1, 2], [3, 4]]


def test_several_roots_and_weak_values() -> None:
    x = tensor(0, (2,), dtypes.int32)
    contents = {buffer(0, 2, dtypes.int32): np.array([1, 2], np.int32)}
    first, second, weak = evaluate_tensors([x + 1, x * 2, UOp.const(3)], contents)
    assert (first.tolist(), second.tolist(), weak.item()) == ([2, 3], [2, 4], 3)


def test_missing_and_wrong_contents_are_named() -> None:
    x = buffer(3, 4)
    with pytest.raises(CheckError, match="no contents were given for <BUFFER"):
        evaluate_tensor(x + 1, {})
    with pytest.raises(CheckError, match="cannot be an array of 4 float64"):
        evaluate_tensor(x, {x: np.zeros(4)})
    with pytest.raises(CheckError, match="cannot be an array of 5 float32"):
        evaluate_tensor(x, {x: np.zeros(5, np.float32)})


def test_deep_graphs() -> None:
    node = tensor(0, (2,))
    for _ in range(20_000):
        node = node + 1
    got = evaluate_tensor(node, {buffer(0, 2): np.array([1, 2], np.float32)})
    assert got.tolist() == [20_001, 20_002]


def test_doubled_graphs_are_evaluated_once_per_node() -> None:
    node = tensor(0, (1,), dtypes.float64)
    for _ in range(60):
        node = node + node
    assert evaluate_tensor(node, {buffer(0, 1, dtypes.float64): np.array([1.0])}).item() == 2.0**60


# ---- ranged graphs


def test_stage_is_an_array_over_its_ranges() -> None:
    x = param(0, 4)
    i, j = loop(2, 0), loop(4, 1)
    outer = UOp(Ops.MUL, (x.index(i), x.index(j))).stage("CPU", i, j)
    contents = {x: np.arange(1, 5, dtype=np.float32)}
    assert outer.shape == (2, 4)
    assert np.array_equal(evaluate_tensor(outer, contents), np.outer([1, 2], [1, 2, 3, 4]))
    k = loop(4, 2)
    row = outer.index(1, 3 - k).stage("CPU", k)
    assert evaluate_tensor(row, contents).tolist() == [8, 6, 4, 2]


def test_stage_over_a_range_that_its_value_lacks() -> None:
    i, j = loop(2, 0), loop(3, 1)
    node = (i * 2).cast(dtypes.int32).stage("CPU", j, i)
    assert evaluate_tensor(node, {}).tolist() == [[0, 2]] * 3


def test_stage_under_an_open_range() -> None:
    """softmax's numerator: `e` is staged per row while the row's loop stays open."""
    x = param(0, 12)
    r, c, k = loop(3, 0), loop(4, 1), reduction(4, 2)
    e = x.index(r * 4 + c).exp().stage("CPU", c)
    total = e.index(k).fold_ranges(Ops.ADD, k).stage("CPU", r)
    values = normal(12)
    got = evaluate_tensor(total, {x: values})
    assert np.allclose(got, np.exp(values.reshape(3, 4)).sum(1), rtol=1e-6)


def test_values_under_open_ranges_are_refused() -> None:
    with pytest.raises(CheckError, match="open RANGEs"):
        evaluate_tensor(loop(3, 0) + 1, {})


# ---- kernels


def run_matmul(rows: int, inner: int, columns: int, *kinds: AxisType) -> None:
    x, w, b = normal(rows, inner), normal(inner, columns), normal(columns)
    out = np.zeros((rows, columns), np.float32)
    evaluate_kernel(matmul_kernel(rows, inner, columns, kinds), [out, x, w, b])
    assert np.allclose(out, np.maximum(x.astype(float) @ w + b, 0), atol=1e-5)


@pytest.mark.parametrize("kind", list(AxisType))
def test_loops_of_every_kind(kind: AxisType) -> None:
    run_matmul(5, 7, 6, kind, kind)


@pytest.mark.parametrize("limit", [1, 7, 64, 1000])
def test_slices_give_the_same_result(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "LIMIT", limit)
    run_matmul(5, 7, 6)
    row, column, inner = loop(3, 0), loop(4, 1), reduction(4, 2)
    x = param(1, 12)
    exponential = (x.index(row * 4 + column)).exp().stage("CPU", column)
    total = exponential.index(inner).fold_ranges(Ops.ADD, inner)
    values, out = normal(12), np.zeros(3, np.float32)
    evaluate_kernel(kernel(param(0, 3).index(row).store(total).end(row)), [out, values])
    assert np.allclose(out, np.exp(values.reshape(3, 4)).sum(1), rtol=1e-6)


def test_a_loop_that_also_closes_below_is_not_sliced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "LIMIT", 4)
    x, k = param(1, 8), reduction(8, 0)
    mean = x.index(k).fold_ranges(Ops.ADD, k) / 8.0
    spread = (x.index(k) - mean).fold_ranges(Ops.MAX, k)
    values, out = normal(8), np.zeros(1, np.float32)
    evaluate_kernel(kernel(param(0, 1).index(0).store(spread)), [out, values])
    assert np.allclose(out, (values - values.mean()).max(), atol=1e-6)


def test_large_reductions_keep_within_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "LIMIT", 1 << 12)
    seen: list[int] = []
    count = 1 << 16
    k = reduction(count, 0)

    def watched(node: UOp, spans: slices.Slices) -> Value:
        seen.append(spans.extent(node))
        return counting(node, spans)

    monkeypatch.setattr("loomgrad.ir.evaluate.counting", watched)
    out = np.zeros(1, np.int64)
    total = k.cast(dtypes.int64).fold_ranges(Ops.ADD, k)
    evaluate_kernel(kernel(param(0, 1, dtypes.int64).index(0).store(total)), [out])
    assert out[0] == count * (count - 1) // 2
    assert max(seen) <= 1 << 12 and sum(seen) == count


def test_several_outputs() -> None:
    i = loop(4, 0)
    x = param(2, 4)
    stores = (
        param(0, 4).index(i).store(x.index(i) + 1),
        param(1, 4).index(3 - i).store(x.index(i)),
    )
    first, second = np.zeros(4, np.float32), np.zeros(4, np.float32)
    evaluate_kernel(
        kernel(UOp.group(*stores).end(i)), [first, second, np.arange(4, dtype=np.float32)]
    )
    assert (first.tolist(), second.tolist()) == ([1, 2, 3, 4], [3, 2, 1, 0])


def test_reads_see_what_was_there_before_unless_after() -> None:
    i, j = loop(4, 0), loop(4, 1)
    p = param(0, 4)
    reverse = p.index(3 - i).store(p.index(i)).end(i)
    values = np.arange(4, dtype=np.float32)
    evaluate_kernel(kernel(reverse), [values])
    assert values.tolist() == [3, 2, 1, 0]
    doubled = param(1, 4).index(j).store(p.after(reverse).index(j) * 2).end(j)
    out = np.zeros(4, np.float32)
    evaluate_kernel(kernel(doubled), [values, out])
    assert values.tolist() == [0, 1, 2, 3] and out.tolist() == [0, 2, 4, 6]


def test_invalid_reads_zero_and_writes_nothing() -> None:
    i, x, out = loop(8, 0), param(1, 4), param(0, 8)
    inside = ~(i < 2) & (i < 6)
    padded = np.full(8, 9, np.float32)
    values = np.arange(1, 5, dtype=np.float32)
    evaluate_kernel(
        kernel(out.index(i).store(x.index(gate(inside, i - 2))).end(i)), [padded, values]
    )
    assert padded.tolist() == [0, 0, 1, 2, 3, 4, 0, 0]
    masked = np.full(8, 9, np.float32)
    evaluate_kernel(
        kernel(out.index(gate(inside, i)).store(x.index(i % 4)).end(i)), [masked, values]
    )
    assert masked.tolist() == [9, 9, 3, 4, 1, 2, 9, 9]
    gated = np.full(8, 9, np.float32)
    evaluate_kernel(kernel(out.index(i).store(x.index(i % 4), inside).end(i)), [gated, values])
    assert gated.tolist() == masked.tolist()


def test_invalid_passes_through_index_arithmetic() -> None:
    i, x, out = loop(4, 0), param(1, 4), param(0, 4)
    shifted = gate(i < 3, i) + 1
    result = np.full(4, 9, np.float32)
    evaluate_kernel(
        kernel(out.index(i).store(x.index(shifted)).end(i)),
        [result, np.arange(4, dtype=np.float32)],
    )
    assert result.tolist() == [1, 2, 3, 0]


@pytest.mark.parametrize("shift", [-1, 1])
def test_an_index_out_of_bounds_is_named(shift: int) -> None:
    i, x, out = loop(4, 0), param(1, 4), param(0, 4)
    arrays = [np.zeros(4, np.float32), np.zeros(4, np.float32)]
    bad = 4 if shift > 0 else -1
    with pytest.raises(CheckError, match=f"index {bad} is outside of 0 .. 3"):
        evaluate_kernel(kernel(out.index(i).store(x.index(i + shift)).end(i)), arrays)
    with pytest.raises(CheckError, match=f"index {bad} is outside of 0 .. 3"):
        evaluate_kernel(kernel(out.index(i + shift).store(x.index(i)).end(i)), arrays)


def test_loops_without_iterations() -> None:
    i, k = loop(0, 0), reduction(0, 1)
    out = np.full(1, 7, np.float32)
    evaluate_kernel(
        kernel(param(0, 1).index(i).store(UOp.const(1.0, dtypes.float32)).end(i)), [out]
    )
    assert out.tolist() == [7]
    nothing = param(1, 1).index(k).fold_ranges(Ops.ADD, k)
    evaluate_kernel(kernel(param(0, 1).index(0).store(nothing)), [out, out.copy()])
    assert out.tolist() == [0]


def test_a_sum_over_a_loop_its_value_lacks_counts_it() -> None:
    k, out = reduction(5, 0), np.zeros(1, np.int32)
    three = UOp.const(3, dtypes.int32).fold_ranges(Ops.ADD, k)
    evaluate_kernel(kernel(param(0, 1, dtypes.int32).index(0).store(three)), [out])
    assert out.tolist() == [15]


def test_the_last_write_wins() -> None:
    i, out = loop(5, 0), np.zeros(2, np.int32)
    store = param(0, 2, dtypes.int32).index(i % 2).store(i.cast(dtypes.int32)).end(i)
    evaluate_kernel(kernel(store), [out])
    assert out.tolist() == [4, 3]
