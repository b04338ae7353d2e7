"""Pooling: one number of each window of an image."""

from __future__ import annotations

from loomgrad.nn.module import Module
from loomgrad.tensor import Tensor
from loomgrad.tensor.windows import Sizes


class MaxPool2d(Module):
    """The greatest element of each window; windows follow one another unless `stride` says otherwise."""

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.dilation, self.ceil_mode = dilation, ceil_mode

    def forward(self, x: Tensor) -> Tensor:
        return x.max_pool2d(
            self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode
        )


class AvgPool2d(Module):
    """The mean of each window; padding counts as zeros unless `count_include_pad` is False."""

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, x: Tensor) -> Tensor:
        return x.avg_pool2d(
            self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )
