"""Normalisation: over a batch, over the last axes, over groups of channels.

Half floats are normalised in float32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from loomgrad.dtype import DType, dtypes, sum_dtype
from loomgrad.errors import ShapeError
from loomgrad.nn.affine import affine, last_axes
from loomgrad.nn.module import Module
from loomgrad.nn.parameter import Parameter
from loomgrad.tensor import Tensor, no_grad
from loomgrad.tensor.pending import await_step

if TYPE_CHECKING:
    from loomgrad.dtype.argument import DTypeLike


class BatchNorm(Module):
    """Each channel less its mean, over its standard deviation; then times weight, plus bias.

    **Shapes** x: (n, num_features, ...), of any rank from 2 on

    In training mode mean and variance are those of the batch, and move the running ones by `momentum` (by the mean of
    all batches if it is None); in evaluation mode they are the running ones.  Without `track_running_stats` they are
    always those of the batch.  New running statistics are computed with the next step of an optimizer, or when
    they are read.
    """

    buffer_names = frozenset({"running_mean", "running_var", "num_batches_tracked"})

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        dtype: DTypeLike = dtypes.default_float,
    ) -> None:
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.weight = Parameter(Tensor.ones(num_features, dtype=dtype)) if affine else None
        self.bias = Parameter(Tensor.zeros(num_features, dtype=dtype)) if affine else None
        self.track_running_stats = track_running_stats
        if track_running_stats:
            self.running_mean = Tensor.in_memory(0.0, dtype, shape=num_features)
            self.running_var = Tensor.in_memory(1.0, dtype, shape=num_features)
            self.num_batches_tracked = Tensor.in_memory(0, dtypes.int64)

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim < 2 or x.shape[1] != self.num_features:
            raise ShapeError(
                f"batch normalisation of {self.num_features} channels got shape {x.shape}",
                fix="channels are axis 1: (n, channels, ...)",
            )
        wide = x.cast(sum_dtype(x.dtype))
        return self._of_wide(wide).cast(x.dtype)

    def _of_wide(self, x: Tensor) -> Tensor:
        if self.track_running_stats and not Tensor.training:
            return self._normalised(x, self.running_mean, self.running_var)
        axes = (0, *range(2, x.ndim))
        count = math.prod(x.shape[axis] for axis in axes)
        if Tensor.training and count == 1:
            raise ShapeError(
                f"one value per channel has no variance: shape {x.shape}",
                fix="train with larger batches, or use eval()",
            )
        mean = x.mean(axes)
        distance = x - mean.reshape(self.num_features, *[1] * (x.ndim - 2))
        variance = (distance * distance).mean(axes)
        if Tensor.training and self.track_running_stats:
            self._track(mean.detach(), variance.detach(), count)
        return self._normalised(x, mean, variance)

    def _normalised(self, x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return x.batchnorm(self.weight, self.bias, mean, (variance + self.eps).rsqrt())

    @no_grad()
    def _track(self, mean: Tensor, variance: Tensor, count: int) -> None:
        """Move the running statistics towards those of a batch; the running variance is unbiased."""
        self.num_batches_tracked.assign(self.num_batches_tracked + 1)
        if self.momentum is None:
            share: Tensor | float = 1.0 / self.num_batches_tracked.cast(self.running_mean.dtype)
        else:
            share = self.momentum
        unbiased = variance * (count / (count - 1))
        self.running_mean.assign(self.running_mean + (mean - self.running_mean) * share)
        self.running_var.assign(self.running_var + (unbiased - self.running_var) * share)
        await_step(self.running_mean, self.running_var, self.num_batches_tracked)


BatchNorm1d = BatchNorm2d = BatchNorm3d = BatchNorm


class LayerNorm(Module):
    """Normalisation over the last axes of each element by itself.

    **Shapes** x: (..., *normalized_shape)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        dtype: DTypeLike = dtypes.default_float,
    ) -> None:
        self.normalized_shape, self.eps = _shape(normalized_shape), eps
        self.weight, self.bias = None, None
        if elementwise_affine:
            self.weight = Parameter(Tensor.ones(self.normalized_shape, dtype=dtype))
            self.bias = (
                Parameter(Tensor.zeros(self.normalized_shape, dtype=dtype)) if bias else None
            )

    def forward(self, x: Tensor) -> Tensor:
        axes = last_axes(x, self.normalized_shape)
        return affine(x.layernorm(axes, self.eps), self.weight, self.bias, x.dtype)


class RMSNorm(Module):
    """The last axes over their root mean square, times weight.

    **Shapes** x: (..., *normalized_shape).  `eps` None is the distance from 1 to the next number of the dtype.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        dtype: DTypeLike = dtypes.default_float,
    ) -> None:
        self.normalized_shape, self.eps = _shape(normalized_shape), eps
        ones = Tensor.ones(self.normalized_shape, dtype=dtype)
        self.weight = Parameter(ones) if elementwise_affine else None

    def forward(self, x: Tensor) -> Tensor:
        axes = last_axes(x, self.normalized_shape)
        eps = _epsilon(x.dtype) if self.eps is None else self.eps
        return affine(x.rmsnorm(axes, eps), self.weight, None, x.dtype)


class GroupNorm(Module):
    """Normalisation over groups of channels of each element by itself.

    **Shapes** x: (n, num_channels, ...)
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        dtype: DTypeLike = dtypes.default_float,
    ) -> None:
        if num_groups < 1 or num_channels % num_groups:
            raise ShapeError(f"{num_groups} groups do not divide {num_channels} channels")
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = Parameter(Tensor.ones(num_channels, dtype=dtype)) if affine else None
        self.bias = Parameter(Tensor.zeros(num_channels, dtype=dtype)) if affine else None

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim < 2 or x.shape[1] != self.num_channels:
            raise ShapeError(f"{self.num_channels} channels in groups got shape {x.shape}")
        groups = x.reshape(x.shape[0], self.num_groups, -1)
        result = groups.layernorm(-1, self.eps).reshape(x.shape)
        along = (self.num_channels, *[1] * (x.ndim - 2))
        weight = None if self.weight is None else self.weight.reshape(along)
        bias = None if self.bias is None else self.bias.reshape(along)
        return affine(result, weight, bias, x.dtype)


def _shape(sizes: int | Sequence[int]) -> tuple[int, ...]:
    return (sizes,) if isinstance(sizes, int) else tuple(sizes)


def _epsilon(dtype: DType) -> float:
    """The distance from 1 to the next number."""
    assert dtype.format is not None, "normalised values are floats"
    return 2.0 ** (1 - dtype.format.precision)
