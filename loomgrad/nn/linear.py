"""Linear layers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from loomgrad.dtype import dtypes
from loomgrad.nn.module import Module
from loomgrad.nn.parameter import Parameter
from loomgrad.tensor import Tensor

if TYPE_CHECKING:
    from loomgrad.dtype.argument import DTypeLike


class Linear(Module):
    """x @ weight.T + bias.

    **Shapes** x: (..., in_features) -> (..., out_features); weight: (out_features, in_features)

    Both begin uniform within the inverse root of `in_features`.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        dtype: DTypeLike = dtypes.default_float,
    ) -> None:
        self.in_features, self.out_features = in_features, out_features
        self.weight = uniform_parameter((out_features, in_features), in_features, dtype)
        self.bias = uniform_parameter((out_features,), in_features, dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return x.linear(self.weight.T, self.bias)


def uniform_parameter(shape: tuple[int, ...], fan_in: int, dtype: DTypeLike) -> Tensor:
    """A parameter uniform within the inverse root of how many inputs a sum has."""
    bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
    return Parameter(Tensor.uniform(shape, low=-bound, high=bound, dtype=dtype))
