"""Random programs of elementwise operations, movements and reductions: compiled against evaluated."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from loomgrad import GlobalCounters, Tensor
from loomgrad.ir.evaluate import evaluate_tensor
from tests.tensor.checks import Array

UNARY: tuple[Callable[[Tensor], Tensor], ...] = (
    *(Tensor.relu, Tensor.tanh, Tensor.sigmoid, Tensor.square, Tensor.sin, Tensor.abs),
    *(lambda x: -x, lambda x: x * 0.5 + 1, lambda x: (x * x + 1).sqrt(), lambda x: x.clip(-1, 1)),
    *(lambda x: (x > 0).where(x, 0.25), lambda x: (x * x + 0.5).log(), lambda x: x.sigmoid().exp()),
    lambda x: (x @ x.T @ x).tanh(),
)
BINARY: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    *(lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, Tensor.maximum, Tensor.minimum),
    *(lambda x, y: x / (y * y + 1), lambda x, y: (x < y).where(x, y * 0.5)),
)
FOLDS: tuple[Callable[[Tensor, int], Tensor], ...] = (
    *(lambda x, a: x.sum(a, keepdim=True), lambda x, a: x.max(a, keepdim=True)),
    *(lambda x, a: x.mean(a, keepdim=True), lambda x, a: x.softmax(a)),
)
MOVES: tuple[Callable[[Tensor], Tensor], ...] = (
    *(
        lambda x: x.flip(0),
        lambda x: x.transpose().transpose(),
        lambda x: x.pad([(1, 0), (0, 1)])[1:, :-1],
    ),
    *(lambda x: x.reshape(-1).reshape(x.shape), lambda x: x[::-1, ::-1]),
)


def build(data: st.DataObject, inputs: list[Tensor]) -> list[Tensor]:
    """A program: each line takes values of earlier lines.  The result is its last three values."""
    values = list(inputs)
    for _ in range(data.draw(st.integers(1, 8), label="lines")):
        x = data.draw(st.sampled_from(values))
        kind = data.draw(st.sampled_from("uubbfm"))
        if kind == "u":
            values.append(data.draw(st.sampled_from(UNARY))(x))
        elif kind == "b":
            values.append(data.draw(st.sampled_from(BINARY))(x, data.draw(st.sampled_from(values))))
        elif kind == "f":
            values.append(data.draw(st.sampled_from(FOLDS))(x, data.draw(st.integers(0, 1))))
        else:
            values.append(data.draw(st.sampled_from(MOVES))(x))
    return values[-3:]


def evaluated(values: list[Tensor]) -> list[Array]:
    """The values by the reference evaluator, before anything is compiled."""
    return [evaluate_tensor(value.uop, {}) for value in values]


@settings(max_examples=120)
@given(st.data())
def test_compiled_programs_give_what_the_evaluator_gives(data: st.DataObject) -> None:
    rows, columns = data.draw(st.tuples(st.integers(1, 9), st.integers(1, 20)), label="shape")
    rng = np.random.default_rng(data.draw(st.integers(0, 9), label="seed"))
    inputs = [
        Tensor(rng.standard_normal((rows, columns)).astype(np.float32)),
        Tensor(rng.standard_normal((1, columns)).astype(np.float32)),
        Tensor(rng.standard_normal((rows, 1)).astype(np.float32)),
    ]
    values = build(data, inputs)
    wanted = evaluated(values)
    Tensor.realize(*values)
    for value, expected in zip(values, wanted, strict=True):
        np.testing.assert_allclose(value.numpy(), expected, 2e-4, 2e-4)


@settings(max_examples=60)
@given(st.data())
def test_gradients_of_programs_are_the_evaluators(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 9), label="seed"))
    inputs = [Tensor(rng.standard_normal(shape)) for shape in ((3, 5), (1, 5), (3, 1))]
    root = build(data, inputs)[-1].sum()
    reached = [x for x in inputs if x.uop in root.uop.toposort()]
    slopes = root.gradient(*reached)
    wanted = evaluated([root, *slopes])
    root.realize(*slopes)
    for value, expected in zip([root, *slopes], wanted, strict=True):
        np.testing.assert_allclose(value.numpy(), expected, 1e-9, 1e-9)


def test_a_chain_of_operations_is_one_kernel() -> None:
    x, w = Tensor.in_memory([[1.0] * 8] * 4), Tensor.in_memory([[0.5] * 6] * 8)
    b = Tensor.in_memory([1.0] * 6)
    for value in ((x @ w + b).relu(), ((x + 1) * x).sum()):
        before = GlobalCounters.kernel_count
        value.realize()
        assert GlobalCounters.kernel_count == before + 1
