"""Convolutions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from loomgrad.dtype import dtypes
from loomgrad.errors import ShapeError
from loomgrad.nn.linear import uniform_parameter
from loomgrad.nn.module import Module
from loomgrad.tensor import Tensor
from loomgrad.tensor.windows import Sizes

if TYPE_CHECKING:
    from loomgrad.dtype.argument import DTypeLike


class Conv2d(Module):
    """A sum over windows of an image, with other weights for each output channel.

    **Shapes** x: (n, in_channels, height, width); weight: (out_channels, in_channels / groups, *kernel_size)

    `padding` may be "same" or "valid".  Weight and bias begin uniform within the inverse root of
    the number of elements of a window.

    **Raises** ShapeError if `groups` does not divide both numbers of channels.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: DTypeLike = dtypes.default_float,
    ) -> None:
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ShapeError(
                f"{groups} groups do not divide {in_channels} channels into {out_channels}"
            )
        self.kernel_size = (kernel_size,) * 2 if isinstance(kernel_size, int) else kernel_size
        self.stride, self.padding = stride, padding
        self.dilation, self.groups = dilation, groups
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        fan_in = math.prod(shape[1:])
        self.weight = uniform_parameter(shape, fan_in, dtype)
        self.bias = uniform_parameter((out_channels,), fan_in, dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return x.conv2d(
            self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
        )
