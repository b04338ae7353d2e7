"""Functions of each element as modules, and the changes of shape between layers.

`inplace` is accepted and changes nothing: the compiler decides what is stored.
"""

from __future__ import annotations

from typing import Literal

from loomgrad.nn.module import Module
from loomgrad.tensor import Tensor


class Function(Module):
    """A module without parameters or settings."""

    def __init__(self, inplace: bool = False) -> None:
        pass


class Identity(Function):
    """x."""

    def forward(self, x: Tensor) -> Tensor:
        return x


class ReLU(Function):
    """max(x, 0)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.relu()


class SiLU(Function):
    """x * sigmoid(x)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.silu()


class Sigmoid(Function):
    """1 / (1 + e**-x)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.sigmoid()


class Tanh(Function):
    """tanh(x)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.tanh()


class GELU(Module):
    """x times the normal distribution function of x, by its tanh approximation."""

    def __init__(self, approximate: Literal["tanh"] = "tanh") -> None:
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        return x.gelu(self.approximate)


class LeakyReLU(Module):
    """x above 0, negative_slope * x below."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        return x.leaky_relu(self.negative_slope)


class Softmax(Module):
    """e**x over its sum along an axis."""

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        return x.softmax(self.dim)


class LogSoftmax(Softmax):
    """The logarithm of softmax."""

    def forward(self, x: Tensor) -> Tensor:
        return x.log_softmax(self.dim)


class Flatten(Module):
    """The axes from `start_dim` to `end_dim` as one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(self.start_dim, self.end_dim)
