"""Gradients where it is easy to be wrong: what was not selected, kinks, aliases."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from loomgrad import Tensor
from loomgrad.errors import GradientError
from loomgrad.ir.opcode import Ops
from loomgrad.ir.uop import UOp
from loomgrad.nn.optim import SGD
from tests.tensor.checks import Array

ZERO_ROW = np.array([[3.0, 4.0], [0.0, 0.0]])


def slopes(function: Callable[[Tensor], Tensor], values: object) -> Array:
    """The gradient of a sum, in float64."""
    x = Tensor(np.asarray(values, np.float64))
    return function(x).sum().gradient(x)[0].numpy()


def normalised(x: Tensor) -> Tensor:
    """Rows of length 1; NaN for a row of zeros."""
    return x / (x * x).sum(1, keepdim=True).sqrt()


# fmt: off
ROWS = Tensor([[True], [False]])
UNSELECTED = (
    ("gather",     lambda x: x.log()[Tensor([1])],                                [0.0, 2.0],  [0, 0.5]),
    ("repeated",   lambda x: x.log()[Tensor([1, 1])],                             [0.0, 2.0],  [0, 1]),
    ("cells",      lambda x: x.reshape(2, 2).log()[Tensor([1]), Tensor([0])],     [0.0, 0.0, 2.0, 0.0], [0, 0, 0.5, 0]),
    ("root",       lambda x: Tensor([False, False]).where(x.sqrt(), 0.0),         [0.0],       [0]),
    ("expanded",   lambda x: ROWS.where(x.reshape(2, 1).log().expand(2, 3), 0.0), [1.0, 0.0],  [3, 0]),
    ("leading",    lambda x: Tensor([True, False]).where(x.log().expand(3, 2), 0.0), [1.0, 0.0], [3, 0]),
    ("broadcast",  lambda x: Tensor([True, False]).where(x.log() + Tensor(np.ones((3, 2))), 0.0), [2.0, 0.0], [1.5, 0]),
    ("then where", lambda x: Tensor([True, True]).where(x.log(), 0.0)[:1],        [2.0, 0.0],  [0.5, 0]),
    ("then row",   lambda x: (x.reshape(2, 1).log() * 2).expand(2, 3)[0],         [1.0, 0.0],  [6, 0]),
    ("masked max", lambda x: x.reshape(2, 2).log().max(1)[:1],                    [1.0, 2.0, 0.0, 0.0], [0, 0.5, 0, 0]),
    ("row where", lambda x: ROWS.where(normalised(x), 0.0), ZERO_ROW, [[0.032, -0.024], [0, 0]]),
    ("row slice", lambda x: normalised(x)[:1], ZERO_ROW, [[0.032, -0.024], [0, 0]]),
    ("row gather", lambda x: normalised(x)[Tensor([0, 0])], ZERO_ROW, [[0.064, -0.048], [0, 0]]),
    ("row sum", lambda x: Tensor([True, False]).where(normalised(x).sum(1), 0.0), ZERO_ROW, [[0.032, -0.024], [0, 0]]),
)
# fmt: on


@pytest.mark.parametrize("row", UNSELECTED, ids=lambda row: row[0])
def test_what_is_not_selected_gets_exactly_0(
    row: tuple[str, Callable[[Tensor], Tensor], object, object],
) -> None:
    _, function, values, wanted = row
    found = slopes(function, values)
    expected = np.asarray(wanted, np.float64)
    np.testing.assert_array_equal(found[expected == 0], 0)
    np.testing.assert_allclose(found, expected, 1e-12)


def masks_reduced(found: list[Tensor]) -> list[UOp]:
    """The reductions of bools in graphs."""
    nodes = {node for tensor in found for node in tensor.uop.toposort()}
    return [node for node in nodes if node.op is Ops.REDUCE and node.dtype.is_bool]


def test_ordinary_networks_pay_nothing_for_masks() -> None:
    """Where no derivative can be infinite nobody asks whether some element of a row was selected."""
    x, w, g = Tensor(np.ones((4, 3))), Tensor(np.ones((3, 5))), Tensor(np.ones(3))
    labels = Tensor([0, 1, 2, 3])
    for loss in (
        ((x.layernorm() * g).relu() @ w).cross_entropy(labels),
        (x.softmax() @ w).max(1).sum() + (x.rmsnorm() * g).clip(0, 1).sum(),
        ((x.sigmoid() * g).relu() @ w).log_softmax()[:2].sum(),
    ):
        assert not masks_reduced(loss.gradient(x, g))
    assert masks_reduced((x.sum(1, keepdim=True).sqrt() * x)[:2].sum().gradient(x))


ALPHA, SCALE = 1.6732632423543772, 1.0507009873554805
# fmt: off
KINKS = (
    (Tensor.relu,                      [0.0, -0.0, 1.0, -1.0],  [0, 0, 1, 0]),
    (Tensor.relu6,                     [0.0, 6.0, 1.0, 7.0],    [0, 0, 1, 0]),
    (Tensor.hardtanh,                  [-1.0, 0.0, 1.0],        [0, 1, 0]),
    (Tensor.hardsigmoid,               [-3.0, 0.0, 3.0],        [0, 1 / 6, 0]),
    (Tensor.hardswish,                 [-3.0, 0.0, 3.0],        [0, 0.5, 1]),
    (Tensor.leaky_relu,                [0.0, 1.0, -1.0],        [0.01, 1, 0.01]),
    (Tensor.abs,                       [0.0, -0.0, 1.0, -1.0],  [0, 0, 1, -1]),
    (Tensor.softplus,                  [0.0, -0.0],             [0.5, 0.5]),
    (lambda x: x.softplus(2.0),        [0.0],                   [0.5]),
    (Tensor.logsigmoid,                [0.0, -0.0],             [0.5, 0.5]),
    (Tensor.mish,                      [0.0],                   [0.6]),
    (Tensor.sigmoid,                   [0.0, -0.0],             [0.25, 0.25]),
    (Tensor.silu,                      [0.0],                   [0.5]),
    (Tensor.elu,                       [0.0, 1.0],              [1, 1]),
    (Tensor.celu,                      [0.0, 1.0],              [1, 1]),
    (Tensor.selu,                      [0.0, 1.0],              [ALPHA * SCALE, SCALE]),
    (Tensor.softsign,                  [0.0, 1.0, -1.0],        [1, 0.25, 0.25]),
    (lambda x: x.maximum(1),           [0.0, 1.0, 2.0],         [0, 0, 1]),
    (lambda x: x.minimum(1),           [0.0, 1.0, 2.0],         [1, 0, 0]),
    (lambda x: Tensor.minimum(x, 1.0), [1.0],                   [0]),
    (lambda x: x.clip(-1, 1),          [-1.0, 0.5, 1.0],        [0, 1, 0]),
    (lambda x: x.clip(high=0.5),       [0.5, 0.25],             [0, 1]),
    (lambda x: x.minimum(x * 0 + 1),   [0.0, 1.0, 2.0],         [1, 0.5, 0]),
)
SECOND = (
    (Tensor.softplus, 0.25),
    (Tensor.mish,     0.64),
    (Tensor.silu,     0.5),
    (Tensor.softsign, 0.0),
    (Tensor.elu,      1.0),
)
# fmt: on


@pytest.mark.parametrize(("function", "values", "wanted"), KINKS, ids=lambda v: "")
def test_slopes_at_kinks(
    function: Callable[[Tensor], Tensor], values: list[float], wanted: list[float]
) -> None:
    """A tie with a number goes to the number; functions that are smooth there have their true slope."""
    np.testing.assert_allclose(slopes(function, values), wanted, 1e-12, 1e-15)


@pytest.mark.parametrize(("function", "wanted"), SECOND, ids=lambda v: "")
def test_second_derivatives_at_zero(function: Callable[[Tensor], Tensor], wanted: float) -> None:
    found = slopes(lambda x: function(x).sum().gradient(x)[0], [0.0, -0.0])
    np.testing.assert_allclose(found, [wanted, wanted], 1e-12, 1e-15)


def same_memory(x: Tensor) -> tuple[Tensor, Tensor]:
    return Tensor(x), Tensor(x)


def same_view(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.reshape(2), x.reshape(1, 2).reshape(2)


def same_sum(x: Tensor) -> tuple[Tensor, Tensor]:
    a, b = x + 1, x + 1
    a.realize(b)
    return a - 1, b - 1


def one_realised(x: Tensor) -> tuple[Tensor, Tensor]:
    a, b = x * 1.0, x * 1.0
    return a.realize(), b


def through_assignment(x: Tensor) -> tuple[Tensor, Tensor]:
    a, b = Tensor.zeros(2), Tensor.zeros(2)
    return a.assign(x), b.assign(x)


@pytest.mark.parametrize(
    "pair", [same_memory, same_view, same_sum, one_realised, through_assignment]
)
def test_leaves_of_one_value_are_apart(
    pair: Callable[[Tensor], tuple[Tensor, Tensor]],
) -> None:
    a, b = pair(Tensor(np.ones(2, np.float32)))
    optimizer = SGD([a, b], lr=1.0)
    for step in (1, 2):
        optimizer.zero_grad()
        (a * 3 + b * 5).sum().backward()
        optimizer.step()
        assert a.tolist() == [1 - 3 * step] * 2
        assert b.tolist() == [1 - 5 * step] * 2


def test_a_leaf_is_apart_from_what_it_was_made_of() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    other = Tensor(x.detach(), requires_grad=True)
    (x * 3 + other * 5).sum().backward()
    assert x.grad is not None and other.grad is not None
    assert (x.grad.tolist(), other.grad.tolist()) == ([3, 3], [5, 5])


def test_realising_a_leaf_with_history_changes_nothing() -> None:
    for realised in (False, True):
        w = Tensor([2.0], requires_grad=True)
        hidden = (w * 3).requires_grad_()
        copy = Tensor(w)
        if realised:
            hidden.realize(copy)
        (hidden * hidden + copy).sum().backward()
        assert hidden.grad is not None and w.grad is not None
        assert (hidden.grad.tolist(), w.grad.tolist()) == ([12.0], [37.0])


def test_targets_of_one_value_are_a_mistake() -> None:
    x = Tensor([1.0, 2.0])
    a, b = x + 1, x + 1
    with pytest.raises(GradientError, match="targets 0 and 2 are one value") as caught:
        (a * 3 + b * 5).sum().gradient(a, x, b)
    assert "detach().requires_grad_()" in str(caught.value)
    assert [g.tolist() for g in (a * 3 + b * 5).sum().gradient(a, a)] == [[8, 8], [8, 8]]
    a, b = a.detach().requires_grad_(), b.detach().requires_grad_()
    assert [g.tolist() for g in (a * 3 + b * 5).sum().gradient(a, b)] == [[3, 3], [5, 5]]


def test_the_error_names_a_history_that_realising_let_go_of() -> None:
    x = Tensor([1.0, 2.0])
    hidden = x * x
    hidden.realize()
    with pytest.raises(GradientError, match="history of a value on the way went when it was real"):
        (hidden * 3).sum().gradient(x)
    with pytest.raises(GradientError, match="target 0: it was not computed from it"):
        (x * 3).sum().gradient(hidden)
    x.requires_grad = True
    kept = (x * x).realize()
    assert (kept * 3).sum().gradient(x)[0].tolist() == [6.0, 12.0]
