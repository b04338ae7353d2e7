"""Optimizers against NumPy, and what a step may cost."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from loomgrad import GlobalCounters, Tensor, dtypes
from loomgrad.engine.schedule import schedules
from loomgrad.errors import GradientError, UnsupportedError
from loomgrad.nn.linear import Linear
from loomgrad.nn.optim import SGD, Adam, AdamW, Optimizer
from tests.tensor.checks import Array

START = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
TARGET = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
Update = Callable[[Array, Array], Array]


def slope(w: Array) -> Array:
    """The gradient of sum((w - target)**2 * (1 + w))."""
    return np.asarray(2 * (w - TARGET) * (1 + w) + (w - TARGET) ** 2)


def loss_of(w: Tensor) -> Tensor:
    distance = w - Tensor(TARGET)
    return (distance * distance * (w + 1)).sum()


def sgd(momentum: float = 0.0, decay: float = 0.0, nesterov: bool = False) -> Update:
    velocity = np.zeros((3, 4))

    def update(w: Array, g: Array) -> Array:
        nonlocal velocity
        g = g + decay * w
        velocity = momentum * velocity + g
        return np.asarray(w - 0.01 * (g + momentum * velocity if nesterov else velocity))

    return update


def adam(decay: float = 0.0, b1: float = 0.9, b2: float = 0.999, coupled: bool = False) -> Update:
    m, v, t = np.zeros((3, 4)), np.zeros((3, 4)), 0

    def update(w: Array, g: Array) -> Array:
        nonlocal m, v, t
        t += 1
        g = g + decay * w * coupled
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        step = (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + 1e-8)
        return np.asarray(w - 0.01 * (step + decay * w * (not coupled)))

    return update


# fmt: off
OPTIMIZERS: tuple[tuple[str, Callable[[list[Tensor]], Optimizer], Callable[[], Update]], ...] = (
    ("sgd",      lambda p: SGD(p, lr=0.01),                                          sgd),
    ("decay",    lambda p: SGD(p, lr=0.01, weight_decay=0.1),                        lambda: sgd(decay=0.1)),
    ("momentum", lambda p: SGD(p, lr=0.01, momentum=0.9),                            lambda: sgd(0.9)),
    ("nesterov", lambda p: SGD(p, lr=0.01, momentum=0.9, nesterov=True),             lambda: sgd(0.9, 0, True)),
    ("adam",     lambda p: Adam(p, lr=0.01),                                         adam),
    ("betas",    lambda p: Adam(p, lr=0.01, b1=0.8, b2=0.9, eps=1e-8),               lambda: adam(0, 0.8, 0.9)),
    ("adamw",    lambda p: AdamW(p, lr=0.01, weight_decay=0.1),                      lambda: adam(0.1)),
    ("adam l2",  lambda p: Adam(p, lr=0.01, weight_decay=0.1),                       lambda: adam(0.1, coupled=True)),
    ("pair",     lambda p: AdamW(p, lr=0.01, betas=(0.8, 0.9), weight_decay=0),      lambda: adam(0, 0.8, 0.9)),
)
# fmt: on


@pytest.mark.parametrize(("make", "reference"), [row[1:] for row in OPTIMIZERS], ids=lambda v: "")
def test_six_steps_are_numpys(
    make: Callable[[list[Tensor]], Optimizer], reference: Callable[[], Update]
) -> None:
    w = Tensor(START)
    optimizer, update = make([w]), reference()
    wanted = START.astype(np.float64)
    for _ in range(6):
        optimizer.zero_grad()
        loss_of(w).backward()
        optimizer.step()
        wanted = update(wanted, slope(wanted))
        np.testing.assert_allclose(w.numpy(), wanted, 1e-4, 1e-5)


@pytest.mark.parametrize("make", [row[1] for row in OPTIMIZERS], ids=[row[0] for row in OPTIMIZERS])
def test_steps_after_the_first_compile_nothing(
    make: Callable[[list[Tensor]], Optimizer],
) -> None:
    w = Tensor(START)
    optimizer = make([w])

    def step() -> None:
        optimizer.zero_grad()
        loss = loss_of(w).backward()
        loss.realize(*optimizer.schedule_step())

    step()
    known = len(schedules)
    for rate in (0.01, 0.005, 0.1):
        optimizer.lr.assign(rate)
        step()
    assert len(schedules) == known


def test_the_learning_rate_is_a_tensor() -> None:
    w = Tensor([1.0])
    optimizer = SGD([w], lr=0.5)
    for rate, wanted in ((0.5, 0.5), (0.25, 0.25)):
        optimizer.lr.assign(rate)
        optimizer.zero_grad()
        (w * 1.0).sum().backward()
        optimizer.step()
        assert w.tolist() == [wanted]


def test_a_scheduled_step_is_lazy_and_lists_what_changes() -> None:
    w = Tensor([1.0, 2.0])
    optimizer = Adam([w])
    (w * w).sum().backward()
    before = GlobalCounters.kernel_count
    changed = optimizer.schedule_step()
    assert GlobalCounters.kernel_count == before
    assert {w, *optimizer.m, *optimizer.v, optimizer.powers} == set(changed)
    assert w.requires_grad


def test_parameters_without_gradient_stay() -> None:
    used, unused = Tensor([1.0]), Tensor([5.0])
    optimizer = SGD([used, unused, used], lr=1.0)
    assert len(optimizer.params) == 2
    with pytest.raises(GradientError, match="no parameter has a gradient"):
        optimizer.step()
    used.sum().backward()
    optimizer.step()
    assert (used.tolist(), unused.tolist()) == ([0.0], [5.0])


def test_parameters_keep_their_dtype() -> None:
    for dtype in (dtypes.float64, dtypes.float16):
        w = Tensor([1.0, 2.0], dtype=dtype)
        optimizer = Adam([w], lr=0.125)
        w.sum().backward()
        optimizer.step()
        assert w.dtype is dtype
        np.testing.assert_allclose(w.numpy(), [0.875, 1.875], 1e-3)


@pytest.mark.parametrize("make", [row[1] for row in OPTIMIZERS], ids=[row[0] for row in OPTIMIZERS])
def test_a_parameter_costs_at_most_the_kernel_of_its_gradient(
    make: Callable[[list[Tensor]], Optimizer],
) -> None:
    """The updates are computed where the gradients are; what all share, powers of betas, costs three more."""
    x = Tensor(TARGET)
    weights = [Tensor(START) for _ in range(4)]
    optimizer = make(weights)

    def kernels(also: Callable[[], list[Tensor]]) -> int:
        """How many compute a loss, and what `also` gives after its gradients are there."""
        optimizer.zero_grad()
        total = Tensor(0.0)
        for weight in weights:
            total = total + (weight * x).sum()
        before = GlobalCounters.kernel_count
        (total * total).backward().realize(*also())
        return GlobalCounters.kernel_count - before

    gradients = kernels(lambda: [w.grad for w in weights if w.grad is not None])
    assert kernels(optimizer.schedule_step) <= gradients + 3


def test_losses_are_computed_with_the_step() -> None:
    w = Tensor(START)
    optimizer = SGD([w], lr=0.1)
    loss = loss_of(w)
    loss.backward()
    optimizer.step()
    before = GlobalCounters.kernel_count
    assert np.isfinite(loss.item()) and GlobalCounters.kernel_count == before


def test_frozen_parameters_of_layers_stay_frozen() -> None:
    layer = Linear(2, 2)
    layer.weight.requires_grad = False
    optimizer = SGD(layer.parameters(), lr=0.1)
    before = layer.weight.tolist()
    layer(Tensor([[1.0, 2.0]])).sum().backward()
    optimizer.step()
    assert layer.weight.tolist() == before and layer.weight.grad is None
    assert layer.bias is not None and len(optimizer.params) == 2


def test_the_state_goes_into_a_new_optimizer() -> None:
    def trained(steps: int, w: Tensor, optimizer: Optimizer) -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            loss_of(w).backward()
            optimizer.step()

    first, straight = Tensor(START), Tensor(START)
    one, other = Adam([first], lr=0.05), Adam([straight], lr=0.05)
    trained(2, first, one)
    trained(4, straight, other)
    second = Tensor(first.numpy())
    two = Adam([second], lr=0.5)
    two.load_state_dict(one.state_dict())
    assert sorted(one.state_dict()) == ["betas", "lr", "m.0", "powers", "v.0"]
    trained(2, second, two)
    np.testing.assert_array_equal(second.numpy(), straight.numpy())


def test_param_groups_show_and_change_the_learning_rate() -> None:
    optimizer = SGD([Tensor([1.0])], lr=0.5, momentum=0.9)
    for group in optimizer.param_groups:
        group["lr"] *= 0.5  # type: ignore[operator]
        assert group["momentum"] == 0.9
        with pytest.raises(UnsupportedError, match="momentum is fixed"):
            group["momentum"] = 0.8
    assert optimizer.lr.item() == 0.25


def test_what_is_no_parameter() -> None:
    with pytest.raises(GradientError, match="needs parameters"):
        SGD([])
    with pytest.raises(UnsupportedError, match="takes Tensors, not a dict"):
        SGD([{"params": []}])  # type: ignore[list-item]
