"""The networks among the workloads, in terms of a framework's adapter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.framework import Array, Framework, Step
from benchmarks.inputs import Inputs

EPSILON = 1e-5

# Shapes and scales of the parameters.
# fmt: off
TWO_LAYERS = (
    ((784, 512), 0.03), ((512,), 0.01),
    ((512, 10), 0.05),  ((10,), 0.01),
)
CONVOLUTIONS = (
    ((32, 1, 5, 5), 0.2),    ((32,), 0.1),
    ((32, 32, 5, 5), 0.035), ((32,), 0.1),
    ((64, 32, 3, 3), 0.05),  ((64,), 0.1),
    ((1024, 10), 0.03),      ((10,), 0.01),
)
# fmt: on


def two_layers(framework: Framework, parameters: Sequence[Array], x: Array) -> Array:
    """**Shapes** x: (n, inputs) -> (n, classes)"""
    w1, b1, w2, b2 = parameters
    return framework.relu(x @ w1 + b1) @ w2 + b2


def convolutions(framework: Framework, parameters: Sequence[Array], x: Array) -> Array:
    """**Shapes** x: (n, 1, height, width) -> (n, classes)"""

    def hidden(x: Array, weight: Array, bias: Array) -> Array:
        return framework.relu(framework.conv2d(x, weight) + bias.reshape(1, -1, 1, 1))

    w1, b1, w2, b2, w3, b3, w4, b4 = parameters
    x = hidden(x, w1, b1)
    x = framework.max_pool2d(hidden(x, w2, b2))
    x = framework.max_pool2d(hidden(x, w3, b3))
    return x.reshape(x.shape[0], -1) @ w4 + b4


@dataclass(frozen=True, slots=True)
class Transformer:
    """The blocks of GPT-2 over `length` new tokens, with the keys and values of `past` earlier ones."""

    length: int
    past: int = 0
    layers: int = 12
    width: int = 768
    heads: int = 12

    @property
    def weights(self) -> int:
        """How many numbers are in all matrices."""
        return self.layers * 12 * self.width**2

    def build(self, framework: Framework, inputs: Inputs) -> Step:
        """The step that computes all blocks."""
        parameters = [framework.tensor(array) for array in self._parameters(inputs)]
        x = framework.tensor(inputs.normal(1, self.length, self.width))
        compiled = framework.compiled(partial(self._run, framework))
        return lambda: compiled(x, *parameters)

    def _parameters(self, inputs: Inputs) -> list[NDArray[np.float32]]:
        """Twelve for each block, and then the keys and values of each block."""
        width, normal = self.width, inputs.normal
        found: list[NDArray[np.float32]] = []
        for _ in range(self.layers):
            for rows, columns in self._matrices():
                if columns in (3 * width, 4 * width):  # these follow a normalisation
                    found += [normal(width, scale=0.1, mean=1.0), normal(width, scale=0.1)]
                found += [normal(rows, columns, scale=0.02), normal(columns, scale=0.02)]
        if self.past:
            earlier = (1, self.heads, self.past, width // self.heads)
            found += [normal(*earlier) for _ in range(2 * self.layers)]
        return found

    def _matrices(self) -> tuple[tuple[int, int], ...]:
        width = self.width
        return ((width, 3 * width), (width, width), (width, 4 * width), (4 * width, width))

    def _run(self, framework: Framework, x: Array, *parameters: Array) -> Array:
        earlier = parameters[12 * self.layers :]
        for layer in range(self.layers):
            block = parameters[12 * layer : 12 * layer + 12]
            x = self._block(framework, x, block, earlier[2 * layer : 2 * layer + 2])
        return x

    def _block(
        self, framework: Framework, x: Array, block: Sequence[Array], earlier: Sequence[Array]
    ) -> Array:
        scale1, shift1, w_in, b_in, w_out, b_out, scale2, shift2, w_up, b_up, w_down, b_down = block
        mixed = framework.layer_norm(x, scale1, shift1, EPSILON) @ w_in + b_in
        x = x + self._attention(framework, mixed, earlier) @ w_out + b_out
        up = framework.gelu(framework.layer_norm(x, scale2, shift2, EPSILON) @ w_up + b_up)
        return x + up @ w_down + b_down

    def _attention(self, framework: Framework, mixed: Array, earlier: Sequence[Array]) -> Array:
        query, key, value = (self._heads(framework, mixed, part) for part in range(3))
        if earlier:
            key = framework.joined((earlier[0], key), 2)
            value = framework.joined((earlier[1], value), 2)
        result = framework.attention(query, key, value, causal=not earlier)
        return framework.swapped(result, 1, 2).reshape(1, self.length, self.width)

    def _heads(self, framework: Framework, mixed: Array, part: int) -> Array:
        """Query, key or value.  **Shapes** (1, length, 3 width) -> (1, heads, length, width / heads)"""
        found = mixed[:, :, part * self.width : (part + 1) * self.width]
        split = found.reshape(1, self.length, self.heads, self.width // self.heads)
        return framework.swapped(split, 1, 2)
