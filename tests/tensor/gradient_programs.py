"""Random programs whose gradients are compared with finite differences: masks, broadcasts, gathers, reductions.

Where a function has a pole it is taken of numbers that may be 0 or negative, and what is not a number there is then
not selected: by a choice, a slice or a gather.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from loomgrad import Tensor
from tests.tensor.checks import Array, finite_differences

Step = Callable[[Tensor], Tensor]
SHAPE = (3, 4)
PLAIN = ("tanh", "sin", "sigmoid", "softplus", "silu", "relu", "abs", "elu", "gelu")
POLES = ("log", "sqrt", "reciprocal", "log2", "rsqrt")


def program(seed: int) -> Step:
    """A function of a tensor of shape (3, 4)."""
    rng = random.Random(seed)
    steps = [rng.choice(MAKERS)(rng) for _ in range(rng.randint(2, 4))]

    def run(x: Tensor) -> Tensor:
        y = x
        for step in steps:
            y = step(y)
        return y

    return run


def values(seed: int) -> Array:
    """Numbers of which some are exactly 0; no two are equal otherwise."""
    rng = np.random.default_rng(seed)
    found: Array = rng.uniform(0.3, 1.6, SHAPE) * rng.choice([-1, 1], SHAPE)
    found[rng.integers(0, 3), :] = 0.0
    return found


def _mask(rng: random.Random) -> Array:
    found: Array = np.array([[rng.random() < 0.6 for _ in range(4)] for _ in range(3)])
    return found


def _fixed(rng: random.Random, *shape: int) -> Tensor:
    return Tensor(np.random.default_rng(rng.randrange(1000)).uniform(0.5, 1.5, shape))


def _plain(rng: random.Random) -> Step:
    name, shift = rng.choice(PLAIN), rng.uniform(0.01, 0.2)
    return lambda x: getattr(x + shift, name)()


def _scaled(rng: random.Random) -> Step:
    factor = _fixed(rng, *rng.choice([(3, 4), (4,), (3, 1), (1, 4), ()]))
    return rng.choice([lambda x: x * factor, lambda x: x / factor, lambda x: factor - x])


def _chosen_pole(rng: random.Random) -> Step:
    """A pole where the argument is far enough above 0, something else elsewhere."""
    name = rng.choice(POLES)
    return lambda x: (x > 0.1).where(getattr(x, name)(), x * 0.5)


def _normalised_rows(rng: random.Random) -> Step:
    """Rows divided by their lengths where these are not 0."""

    def step(x: Tensor) -> Tensor:
        total = (x * x).sum(1, keepdim=True)
        return (total > 1e-3).where(x / total.sqrt(), x * 0.25)

    return step


def _rows(rng: random.Random) -> Step:
    """Rows again and again, and the logarithm of the longest; that of a row of zeros is left out by a gather."""
    order = [rng.randrange(3) for _ in range(3)]

    def step(x: Tensor) -> Tensor:
        rows = Tensor(order)
        sizes = (x * x).sum(1)
        first = sizes.argmax(0)
        return x[rows] + sizes.log()[first].reshape(1, 1) * 0.1

    return step


def _sliced(rng: random.Random) -> Step:
    begin = rng.randrange(2)
    return lambda x: x[begin : begin + 2].pad(((begin, 1 - begin), None)) + x.flip(0) * 0.3


def _reduced(rng: random.Random) -> Step:
    axis, name = rng.randrange(2), rng.choice(["sum", "mean", "max", "min", "prod", "logsumexp"])
    offset = _fixed(rng, 3, 4)
    return lambda x: x + getattr(x + offset, name)(axis, keepdim=True).tanh()


def _masked(rng: random.Random) -> Step:
    mask, other = _mask(rng), rng.uniform(-1, 1)
    return lambda x: Tensor(mask).where(x, other) * x


def _softmax(rng: random.Random) -> Step:
    mask = _mask(rng)
    mask[:, 0] = True
    return lambda x: Tensor(mask).where(x, -np.inf).softmax() + x


def _product(rng: random.Random) -> Step:
    weight = _fixed(rng, 4, 4)
    return rng.choice([lambda x: x @ weight, lambda x: (x @ x.transpose()) @ x * 0.1])


def _limited(rng: random.Random) -> Step:
    low, high = rng.uniform(-0.9, -0.2), rng.uniform(0.2, 0.9)
    return lambda x: x.clip(low, high) + x.maximum(x.flip(1) * 0.8 + 0.013)


MAKERS: tuple[Callable[[random.Random], Step], ...] = (
    *(_plain, _plain, _scaled, _chosen_pole, _normalised_rows, _rows, _sliced),
    *(_reduced, _masked, _softmax, _product, _limited),
)


def weights_of(shape: tuple[int, ...]) -> Array:
    found: Array = np.cos(np.arange(float(np.prod(shape)))).reshape(shape) + 0.5
    return found


def slope(function: Step, x: Tensor) -> Tensor:
    y = function(x)
    return y.gradient(x, gradient=Tensor(weights_of(y.shape)))[0]


def errors(seed: int) -> tuple[float, float]:
    """How far gradients, and gradients of gradients, are from finite differences, relative to the largest."""
    function, start = program(seed), values(seed)
    found = []
    for order in (function, lambda x: slope(function, x)):
        ours = slope(order, Tensor(start)).numpy()
        wanted = finite_differences(order, [start], weights_of(order(Tensor(start)).shape))[0]
        with np.errstate(invalid="ignore"):
            distance = np.abs(ours - wanted) / (1 + np.abs(wanted).max())
        found.append(float(np.nan_to_num(distance, nan=np.inf).max()))
    return found[0], found[1]
