"""Normalisation: layernorm, rmsnorm, batchnorm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, Unpack

from loomgrad.dtype import sum_dtype
from loomgrad.errors import ShapeError
from loomgrad.tensor.losses import Losses
from loomgrad.tensor.spelling import OneAxis, OnlyAxes, other_names


class Normalise(Losses):
    """Half floats are normalised in float32."""

    __slots__ = ()

    @other_names
    def layernorm(
        self, axis: int | Sequence[int] = -1, eps: float = 1e-5, **other: Unpack[OnlyAxes]
    ) -> Self:
        """Mean 0 and variance 1 along axes: (x - mean) / sqrt(variance + eps)."""
        x = self._as_float()
        wide = x.cast(sum_dtype(x.dtype))
        centred = wide - wide.mean(axis, keepdim=True)
        variance = (centred * centred).mean(axis, keepdim=True)
        return (centred * (variance + eps).rsqrt()).cast(x.dtype)

    @other_names
    def rmsnorm(
        self, axis: int | Sequence[int] = -1, eps: float = 1e-5, **other: Unpack[OnlyAxes]
    ) -> Self:
        """Mean square 1 along axes: x / sqrt(mean(x * x) + eps)."""
        x = self._as_float()
        wide = x.cast(sum_dtype(x.dtype))
        return (wide * ((wide * wide).mean(axis, keepdim=True) + eps).rsqrt()).cast(x.dtype)

    @other_names
    def batchnorm(
        self,
        weight: Self | None,
        bias: Self | None,
        mean: Self,
        invstd: Self,
        axis: int = 1,
        **other: Unpack[OneAxis],
    ) -> Self:
        """(x - mean) * invstd * weight + bias, with one number of each per element of an axis.

        **Shapes** x: (n, channels, ...), the others: (channels,)
        """
        shape = tuple(size if a == axis % self.ndim else 1 for a, size in enumerate(self.shape))
        for tensor in (weight, bias, mean, invstd):
            if tensor is not None and tensor.shape != (self.shape[axis],):
                raise ShapeError(
                    f"batchnorm along axis {axis} of {self.shape} with a shape {tensor.shape}",
                    fix=f"it needs {(self.shape[axis],)}",
                )
        scale = invstd if weight is None else invstd * weight
        result = (self - mean.reshape(shape)) * scale.reshape(shape)
        return result if bias is None else result + bias.reshape(shape)
