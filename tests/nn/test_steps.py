"""How many kernels a training step is, once everything is compiled."""

from __future__ import annotations

import numpy as np

from loomgrad import GlobalCounters, Tensor
from loomgrad.nn.optim import Adam


def test_a_step_of_two_layers_is_eleven_kernels() -> None:
    """Two layers, the betas' powers, the rows' statistics, the loss, two gradients of activations, four updates."""
    Tensor.manual_seed(1)
    shapes = ((64, 128), (128,), (128, 10), (10,))
    w1, b1, w2, b2 = (
        Tensor.uniform(*shape, low=-0.1, high=0.1, requires_grad=True) for shape in shapes
    )
    optimizer = Adam([w1, b1, w2, b2], lr=0.005)
    Tensor.realize(w1, b1, w2, b2)
    x, y = (
        Tensor(np.random.default_rng(0).random((128, 64), np.float32)),
        Tensor(np.arange(128) % 10),
    )

    def step() -> int:
        before = GlobalCounters.kernel_count
        optimizer.zero_grad()
        loss = ((x @ w1 + b1).relu() @ w2 + b2).cross_entropy(y).backward()
        loss.realize(*optimizer.schedule_step())
        return GlobalCounters.kernel_count - before

    assert [step() for _ in range(3)][-1] <= 11
