"""The same program at every level has the same values: random programs through the passes, evaluated after each."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import loomgrad.rules  # noqa: F401  # fills the simplifier's slot
from loomgrad.codegen.expand import expand
from loomgrad.codegen.optimise import merge_loops, optimise
from loomgrad.dtype import DType, dtypes, numpy_dtype
from loomgrad.ir.evaluate import evaluate_kernel, evaluate_tensors
from loomgrad.ir.opcode import Ops
from loomgrad.ir.ops import Level
from loomgrad.ir.shape import Shape, size_of
from loomgrad.ir.uop import UOp
from loomgrad.ir.verify import verify
from loomgrad.schedule.collapse import collapse
from loomgrad.schedule.fuse import fuse
from loomgrad.schedule.kernelize import kernelize
from loomgrad.schedule.prepare import prepare
from loomgrad.schedule.rangeify import rangeify
from loomgrad.target import host_target
from tests.ir.graphs import param

TARGET = host_target()
Contents = dict[UOp, np.ndarray]
RANGED = (prepare, rangeify, collapse, fuse)
KERNEL = ((merge_loops, Level.KERNEL), (optimise, Level.KERNEL), (expand, Level.LANES))


def checked_levels(outputs: list[UOp], contents: Contents) -> None:
    """Lowers outputs pass by pass; after each the graph is legal and has the values it had before."""
    expected = evaluate_tensors(outputs, contents)
    graph = UOp(Ops.SINK, tuple(outputs), None, "CPU")
    for step in RANGED:
        graph = step(graph, TARGET)
        verify(graph, Level.TENSOR if step is prepare else Level.RANGED, step.__name__)
        same(evaluate_tensors(graph.src, contents), expected, step.__name__)
    scheduled = kernelize(graph, TARGET)
    verify(scheduled, Level.KERNEL, "kernelize")
    calls = scheduled.src[0].src
    for last in range(len(KERNEL) + 1):
        storage = run_calls(calls, contents, last)
        name = KERNEL[last - 1][0].__name__ if last else "kernelize"
        same([storage[output] for output in scheduled.src[1:]], expected, name)


def run_calls(calls: tuple[UOp, ...], contents: Contents, count: int) -> Contents:
    """Runs kernels after the first `count` kernel passes, on storage that starts with garbage."""
    storage = dict(contents)
    for call in calls:
        kernel = call.src[0]
        for step, level in KERNEL[:count]:
            kernel = step(kernel, TARGET)
            verify(kernel, level, step.__name__)
        for argument in call.src[1:]:
            garbage = np.full(argument.arg.size, 77, numpy_dtype(argument.dtype))
            storage.setdefault(argument, garbage)
        evaluate_kernel(kernel, [storage[argument] for argument in call.src[1:]])
    return storage


def same(got: list[np.ndarray], expected: list[np.ndarray], after: str) -> None:
    for one, other in zip(got, expected, strict=True):
        flat, wanted = one.reshape(-1), other.reshape(-1)
        if wanted.dtype.kind == "f":
            assert np.allclose(flat, wanted, rtol=1e-5, atol=1e-5, equal_nan=True), after
        else:
            assert np.array_equal(flat, wanted), after


class Inputs:
    """PARAMs with contents, numbered in order."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.contents: Contents = {}

    def __call__(self, *shape: int, dtype: DType = dtypes.float32) -> UOp:
        node = param(len(self.contents), size_of(shape), dtype)
        values = self.random.integers(-4, 5, size_of(shape))
        self.contents[node] = values.astype(numpy_dtype(dtype))
        return node.reshape(shape)


def check(build: Callable[[Inputs], UOp]) -> None:
    new = Inputs()
    output = build(new)
    checked_levels([output], new.contents)


def matmul(x: UOp, w: UOp) -> UOp:
    (m, k), n = x.shape, w.shape[1]
    return (x.reshape(m, 1, k) * w.permute(1, 0).reshape(1, n, k)).sum(2)


def softmax(x: UOp) -> UOp:
    e = (x - x.max(1, keepdim=True)).exp()
    return e / e.sum(1, keepdim=True)


def gather(new: Inputs) -> UOp:
    table, rows = new(6, 5), new(7, dtype=dtypes.int32)
    return UOp(Ops.INDEX, (table, (rows + 4) % 6)) * 2


def convolution(new: Inputs) -> UOp:
    """A 1-d convolution over a padded signal, by overlapping windows."""
    x, w = new(3, 10), new(4, 3, 3)
    padded = x.pad((None, (1, 1)))
    windows = [padded.shrink((None, (k, k + 10))).reshape(3, 10) for k in range(3)]
    terms = [
        matmul(w.shrink((None, None, (k, k + 1))).reshape(4, 3), window)
        for k, window in enumerate(windows)
    ]
    return terms[0] + terms[1] + terms[2]


PROGRAMS: dict[str, Callable[[Inputs], UOp]] = {
    "linear layer": lambda new: (matmul(new(10, 12), new(12, 20)) + new(20)).maximum(0),
    "tile that does not divide": lambda new: matmul(new(13, 17), new(17, 19)),
    "long sum": lambda new: new(1000).sum(),
    "rows": lambda new: new(7, 100).max(1),
    "softmax": lambda new: softmax(new(9, 33)),
    "two layers": lambda new: matmul(matmul(new(8, 6), new(6, 10)).maximum(0), new(10, 4)),
    "gather": gather,
    "convolution": convolution,
    "padded sum": lambda new: new(10, 11).pad(((1, 2), (3, 0))).flip(0).permute(1, 0).sum(1),
    "mean removed": lambda new: (lambda x: x - x.sum() * 0.01)(new(100)),
    "where": lambda new: (lambda x: (x < 0).where(x.exp(), x.pad(((1, 0),)).shrink(((0, 40),))))(
        new(40)
    ),
    "one value": lambda new: new(1) + 1,
    "sum of nothing": lambda new: new(0, 3).sum(0),
    "ints": lambda new: (new(50, dtype=dtypes.int32) // 3 % 4).sum(),
    "casts": lambda new: new(33, dtype=dtypes.int32).cast(dtypes.float32).sqrt().cast(dtypes.int8),
    "bools": lambda new: (new(20) < 1) & (new(20) < 2),
    "views of views": lambda new: new(4, 6).permute(1, 0).reshape(3, 8).flip(1).reshape(24),
    "outer": lambda new: new(5).reshape(5, 1) + new(7),
}


@pytest.mark.parametrize("build", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_programs(build: Callable[[Inputs], UOp]) -> None:
    check(build)


def test_several_outputs_share_their_work() -> None:
    new = Inputs()
    g, p, m = new(6, 5), new(6, 5), new(6, 5)
    m_new = m * 0.5 + g * 0.5
    checked_levels([p - m_new * 0.25, m_new, g.sum(0)], new.contents)


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[UOp], Contents]:
    """A few outputs computed from two inputs of whole numbers, so that results are exact."""
    new = Inputs(draw(st.integers(0, 1000)))
    shape = st.lists(st.sampled_from([1, 2, 3, 5, 8]), min_size=1, max_size=3)
    pool = [new(*draw(shape), dtype=dtypes.int32) for _ in range(2)]
    for _ in range(draw(st.integers(1, 7))):
        made = draw(st.sampled_from(STEPS))(draw, pool)
        if size_of(made.shape) <= 600:
            pool.append(made)
    outputs = [pool[-1] + 1, *(node * 2 for node in pool[3:-1] if draw(st.booleans()))]
    return outputs, new.contents


def picked(draw: st.DrawFn, pool: list[UOp]) -> UOp:
    return draw(st.sampled_from(pool))


def elementwise(draw: st.DrawFn, pool: list[UOp]) -> UOp:
    x, y = picked(draw, pool), picked(draw, pool)
    if x.shape != y.shape:
        y = y.sum() if draw(st.booleans()) else y.max()
    kind = draw(st.integers(0, 4))
    choices = (x + y, x - y, x.maximum(y), (x < y).where(x, y), (x.eq(y)).where(x * 2, 3))
    return choices[kind]


def reduced(draw: st.DrawFn, pool: list[UOp]) -> UOp:
    x = picked(draw, pool)
    axis = draw(st.integers(0, len(x.shape) - 1)) if x.shape else None
    keep = draw(st.booleans())
    return x.sum(axis, keepdim=keep) if draw(st.booleans()) else x.max(axis, keepdim=keep)


def permuted(draw: st.DrawFn, pool: list[UOp]) -> UOp:
    x = picked(draw, pool)
    return x.permute(draw(st.permutations(range(len(x.shape)))))


def reshaped(draw: st.DrawFn, pool: list[UOp]) -> UOp:
    x = picked(draw, pool)
    total = math.prod(x.shape)
    divisors = [d for d in range(1, total + 1) if total % d == 0]
    first = draw(st.sampled_from(divisors or [1]))
    target: Shape = (first, total // first) if total else x.shape
    return x.reshape(target)


def padded(draw: st.DrawFn, pool: list[UOp]) -> UOp:
    x = picked(draw, pool)
    return x.pad([(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in x.shape])


def shrunk(draw: st.DrawFn, pool: list[UOp]) -> UOp:
    x = picked(draw, pool)
    cuts = [sorted((draw(st.integers(0, n)), draw(st.integers(0, n)))) for n in x.shape]
    return x.shrink([(low, high) if low < high else None for low, high in cuts])


def flipped(draw: st.DrawFn, pool: list[UOp]) -> UOp:
    x = picked(draw, pool)
    return x.flip([axis for axis in range(len(x.shape)) if draw(st.booleans())])


def grown(draw: st.DrawFn, pool: list[UOp]) -> UOp:
    x = picked(draw, pool)
    return x.expand(draw(st.sampled_from([1, 2, 3])), *x.shape)


STEPS = (elementwise, elementwise, reduced, permuted, reshaped, padded, shrunk, flipped, grown)


@settings(max_examples=150)
@given(programs())
def test_random_programs(case: tuple[list[UOp], Contents]) -> None:
    checked_levels(*case)
