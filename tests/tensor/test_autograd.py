"""Gradients: policies at kinks and unselected branches, leaves and histories, mistakes."""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Callable

import numpy as np
import pytest

from loomgrad import Tensor, dtypes, no_grad
from loomgrad.errors import DeviceError, GradientError, ShapeError
from tests.tensor.checks import check_gradient, check_second_gradient

INF, NAN = math.inf, math.nan


def slope(function: Callable[[Tensor], Tensor], values: object) -> list[float]:
    """The gradient of a sum, in float64."""
    x = Tensor(np.asarray(values, np.float64))
    found = function(x).sum().gradient(x)[0].tolist()
    assert isinstance(found, list)
    return found


# fmt: off
POLICIES = (
    # at kinks the slope is 0, or shared by what ties
    (lambda x: x.relu(),                                   [-1.0, 0.0, 2.0],        [0, 0, 1]),
    (lambda x: x.abs(),                                    [-2.0, 0.0, -0.0, 3.0],  [-1, 0, 0, 1]),
    (lambda x: x.sign(),                                   [-2.0, 0.0],             None),
    (lambda x: x.floor(),                                  [0.5, 1.0],              [0, 0]),
    (lambda x: x.max(),                                    [1.0, 3.0, 3.0],         [0, 0.5, 0.5]),
    (lambda x: x.min(),                                    [1.0, 1.0, 3.0],         [0.5, 0.5, 0]),
    (lambda x: x.maximum(x * 1),                           [1.0, 2.0],              [1, 1]),
    (lambda x: x.prod(),                                   [0.0, 2.0, 3.0],         [6, 0, 0]),
    (lambda x: x.prod(),                                   [0.0, 0.0, 3.0],         [0, 0, 0]),
    (lambda x: (x * x).sum().sqrt() * (x * x).sum().sqrt(), [3.0, 4.0],             [6, 8]),
    # what is not selected gets exactly 0
    (lambda x: (x > 0).where(x.sqrt(), x),                 [-1.0, -4.0],            [1, 1]),
    (lambda x: x.eq(0).where(0.0, x * x.sqrt()),           [0.0],                   [0]),
    (lambda x: (x > 0).where(x.log(), 0.0),                [0.0, 2.0],              [0, 0.5]),
    (lambda x: (x < 9).where(x, x.exp()),                  [1.0, 2000.0],           [1, INF]),
    (lambda x: (x < 9).where(x.exp(), x),                  [0.0, 2000.0],           [1, 1]),
    (lambda x: (x < 9).where(x * x, 0.0),                  [2.0, INF],              [4, 0]),
    (lambda x: x.ne(0).where(x.reciprocal(), 0.0),         [0.0, 2.0],              [0, -0.25]),
    (lambda x: x.ne(0).where(1 / x, 0.0),                  [0.0, 2.0],              [0, -0.25]),
    (lambda x: x.log()[1:],                                [0.0, 2.0],              [0, 0.5]),
    (lambda x: x.log().flip(0)[:1],                        [0.0, 2.0],              [0, 0.5]),
    (lambda x: x.log().pad([(1, 1)]),                      [1.0, 2.0],              [1, 0.5]),
    (lambda x: x.log().maximum(-5.0),                      [0.0, 2.0],              [0, 0.5]),
    (lambda x: x.reshape(2, 2).log().sum(1)[1],            [0.0, 1.0, 2.0, 4.0],    [0, 0, 0.5, 0.25]),
    (lambda x: Tensor([True, False]).where(x.reshape(2, 2).log().sum(1), 0.0), [1.0, 2.0, 0.0, 0.0], [1, 0.5, 0, 0]),
    # powers
    (lambda x: x ** 0.3,                                   [-INF],                  [0]),
    (lambda x: x ** Tensor.zeros(3, dtype=dtypes.float64), [-INF, INF, 0.0],        [0, 0, 0]),
    (lambda x: Tensor(np.zeros(2)) ** x,                   [1.0, 2.0],              [0, 0]),
    (lambda x: x ** 3,                                     [-2.0, 0.0],             [12, 0]),
    (lambda x: 2.0 ** x,                                   [1.0],                   [2 * math.log(2)]),
    # an infinite slope is infinite where it was selected
    (lambda x: x.sqrt(),                                   [0.0, 4.0],              [INF, 0.25]),
)
# fmt: on


@pytest.mark.parametrize(("function", "values", "wanted"), POLICIES)
def test_policies(
    function: Callable[[Tensor], Tensor], values: list[float], wanted: list[float] | None
) -> None:
    if wanted is None:
        with pytest.raises(GradientError, match="no gradient for target 0"):
            slope(function, values)
        return
    np.testing.assert_allclose(slope(function, values), wanted, 1e-12)


def test_ties_of_half_floats_are_counted_exactly() -> None:
    x = Tensor.ones(70000, dtype=dtypes.float16)
    shares = x.max().gradient(x)[0].numpy().astype(np.float64)
    assert (shares > 0).all()
    np.testing.assert_allclose(shares.sum(), 1.0, 2e-2)


def test_equal_constants_are_different_leaves() -> None:
    a, b = Tensor(3.0), Tensor(3.0)
    assert [g.item() for g in (a + b).gradient(a, b)] == [1.0, 1.0]
    x, y = Tensor.ones(2), Tensor.ones(2)
    assert [g.tolist() for g in (x * y * y).sum().gradient(x, y)] == [[1, 1], [2, 2]]
    x.realize(y)
    assert [g.tolist() for g in (x * y * y).sum().gradient(x, y)] == [[1, 1], [2, 2]]


def test_equal_parameters_are_different_leaves() -> None:
    base = Tensor([1.0, 2.0])
    p, q = (base * 1.5).requires_grad_(), (base * 1.5).requires_grad_()
    p.realize(q)
    (p * q).sum().backward()
    assert p.grad is not None and q.grad is not None
    assert p.grad.tolist() == q.grad.tolist() == [1.5, 3.0]


def test_broadcast_operands_get_the_sum() -> None:
    check_gradient(lambda x, y: x * y + x, [np.ones((3, 1)) * 2, np.arange(4.0)])
    check_gradient(lambda x, y: x / y, [np.array(2.0), np.arange(1.0, 5.0).reshape(2, 2)])
    check_gradient(lambda x, y: (x < y).where(x, y), [np.ones((2, 1)), np.array([0.0, 3.0])])


def test_products_and_losses() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 3, 4)), rng.standard_normal((4, 2))
    check_gradient(lambda x, y: x @ y, [a, b])
    labels = Tensor([3, 0])
    check_gradient(lambda x: x.cross_entropy(labels), [rng.standard_normal((2, 4))])
    check_gradient(
        lambda x: x.sparse_categorical_crossentropy(labels, label_smoothing=0.1, ignore_index=0),
        [rng.standard_normal((2, 4))],
    )


def test_a_nodes_users_add_up() -> None:
    def shared(x: Tensor) -> Tensor:
        y = x.exp()
        return y * y + (x > 0).where(y, 1.0) + (x < 0).where(y.log(), y)

    check_gradient(shared, [np.array([-1.0, 0.5, 2.0])])


def test_gradients_of_gradients() -> None:
    check_second_gradient(lambda x: (x * x).sum().sqrt(), np.array([3.0, -4.0]))
    check_second_gradient(lambda x: x.prod(), np.array([2.0, 3.0, -1.0]))
    check_second_gradient(lambda x: x.log_softmax(), np.array([0.5, -1.0, 2.0]))
    check_second_gradient(lambda x: (x > 0).where(x * x * x, -x), np.array([0.5, -1.0]))
    x = Tensor(np.array(2.0), requires_grad=True)
    y = x * x * x * x
    for wanted in (32.0, 48.0, 48.0, 24.0):
        y = y.gradient(x)[0]
        assert y.item() == wanted


def test_a_masked_slope_keeps_its_second_derivative() -> None:
    """A gradient that happens to be 0 is not a constant."""
    x = Tensor(np.array([0.0, 2.0]))
    first = (x * x).sum().gradient(x)[0]
    assert first.sum().gradient(x)[0].tolist() == [2.0, 2.0]


# ---- leaves, histories


def test_backward_adds_to_the_leaves() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    x = Tensor([3.0, 4.0])
    loss = (w * x).sum()
    assert loss.backward() is loss
    assert w.grad is not None and w.grad.tolist() == [3.0, 4.0]
    assert x.grad is None and loss.grad is None
    (w * 2).sum().backward()
    assert w.grad.tolist() == [5.0, 6.0]
    assert not w.grad.requires_grad


def test_realising_keeps_the_history_that_gradients_need() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    hidden = (w * w).realize()
    loss = (hidden * 3).sum()
    assert loss.item() == 15.0
    loss.backward()
    assert w.grad is not None and w.grad.tolist() == [6.0, 12.0]


def test_a_leaf_realised_between_use_and_gradient_is_still_found() -> None:
    w = Tensor.uniform(3, requires_grad=True)
    loss = (w * w).sum()
    w.realize()
    later = loss + w.sum()
    later.backward()
    assert w.grad is not None
    np.testing.assert_allclose(w.grad.numpy(), w.numpy() * 2 + 1, 1e-6)


def test_a_target_that_requires_nothing_is_still_found() -> None:
    x = Tensor.ones(2) * 3
    y = (x * x).sum()
    x.realize()
    assert y.gradient(x)[0].tolist() == [6.0, 6.0]


def test_what_nothing_requires_lets_go_of_its_history() -> None:
    x = Tensor([1.0, 2.0])
    y = x * 2
    graph = weakref.ref(y.uop)
    y.realize()
    gc.collect()
    assert graph() is None
    with pytest.raises(GradientError, match="its history went when it was realised"):
        y.sum().realize().gradient(x)


def test_no_grad_and_detach_make_constants() -> None:
    w = Tensor([2.0], requires_grad=True)
    with no_grad():
        constant = w * 3
    (constant * w + w.detach() * w).sum().backward()
    assert w.grad is not None and w.grad.tolist() == [8.0]

    @no_grad()
    def compute() -> Tensor:
        return (w * w).sum()

    with pytest.raises(GradientError, match="no tensor that requires a gradient"):
        compute().backward()


def test_no_grad_ends_with_its_block_also_on_errors() -> None:
    w = Tensor([2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="stop"), no_grad():
        raise RuntimeError("stop")
    (w * w).sum().backward()
    assert w.grad is not None and w.grad.tolist() == [4.0]


def test_unreached_paths_are_zero_and_unknown_targets_are_errors() -> None:
    x, y = Tensor([0.5, 1.5]), Tensor([1.0])
    assert x.trunc().sum().gradient(x)[0].tolist() == [0.0, 0.0]
    with pytest.raises(GradientError, match="target 1: it was not computed from it") as caught:
        (x * 2).sum().gradient(x, y)
    assert "test_autograd.py" in str(caught.value)


def test_weights_for_the_elements_of_a_root() -> None:
    x = Tensor([1.0, 2.0])
    assert (x * x).gradient(x, gradient=Tensor([1.0, 10.0]))[0].tolist() == [2.0, 40.0]
    with pytest.raises(ShapeError, match="cannot have shape"):
        (x * x).gradient(x, gradient=Tensor([1.0]))


def test_half_gradients_have_the_dtype_of_their_target() -> None:
    x = Tensor([1.0, 2.0], dtype=dtypes.float16)
    found = (x.float() * 3).sum().gradient(x)[0]
    assert found.dtype is dtypes.float16
    assert found.tolist() == [3.0, 3.0]


def test_mistakes() -> None:
    ints, floats = Tensor([1, 2]), Tensor([1.0, 2.0])
    with pytest.raises(GradientError, match="start at a scalar, not at shape"):
        (floats * 2).backward()
    with pytest.raises(GradientError, match="start at a float, not at int32"):
        ints.sum().backward()
    with pytest.raises(GradientError, match="no gradient for a tensor of int32"):
        (floats * ints).sum().gradient(ints)
    with pytest.raises(GradientError, match="a tensor of int32 cannot require a gradient"):
        Tensor([1], requires_grad=True)
    with pytest.raises(GradientError, match="no tensor that requires a gradient"):
        floats.sum().backward()
    with pytest.raises(GradientError, match="not computed from it"):
        floats.int().float().sum().gradient(floats)
    with pytest.raises(DeviceError, match="ADD of tensors on CPU and CPU:1"):
        floats + Tensor([1.0, 2.0], device="CPU:1")


def test_special_floats_pass_where_they_are_selected() -> None:
    assert math.isnan(slope(lambda x: x * NAN, [1.0])[0])
    assert slope(lambda x: x * INF, [1.0]) == [INF]
