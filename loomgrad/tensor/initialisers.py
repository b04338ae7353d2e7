"""Initial weights: draws whose spread keeps the size of values, or of gradients, from layer to layer.

Of a weight, axis 0 are the outputs, and the others are what each of them sums over.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Self, TypedDict, Unpack

from loomgrad.ir.shape import Shape, size_of
from loomgrad.tensor.creation import Sizes, checked_sizes
from loomgrad.tensor.random import Random

if TYPE_CHECKING:
    from loomgrad.dtype.argument import DTypeLike


class Drawn(TypedDict, total=False):
    """What every draw can be told, as `Tensor.uniform`."""

    dtype: DTypeLike
    requires_grad: bool
    device: str | None


class Initialisers(Random):
    """Each takes sizes, and by name dtype, requires_grad and device."""

    __slots__ = ()

    @classmethod
    def kaiming_uniform(cls, *shape: Sizes, a: float = 0.01, **how: Unpack[Drawn]) -> Self:
        """Uniform numbers that keep the variance through a layer and a leaky_relu of slope `a` (He et al., 2015)."""
        sizes = checked_sizes(shape)
        return cls._uniform_within(sizes, math.sqrt(6 / ((1 + a * a) * _inputs(sizes))), how)

    @classmethod
    def kaiming_normal(cls, *shape: Sizes, a: float = 0.01, **how: Unpack[Drawn]) -> Self:
        """Normal numbers of the variance of `kaiming_uniform`."""
        sizes = checked_sizes(shape)
        return cls.normal(sizes, std=math.sqrt(2 / ((1 + a * a) * _inputs(sizes))), **how)

    @classmethod
    def xavier_uniform(cls, *shape: Sizes, gain: float = 1.0, **how: Unpack[Drawn]) -> Self:
        """Uniform numbers that keep the variance forward and backward (Glorot and Bengio, 2010)."""
        sizes = checked_sizes(shape)
        bound = gain * math.sqrt(6 / (_inputs(sizes) + _outputs(sizes)))
        return cls._uniform_within(sizes, bound, how)

    @classmethod
    def xavier_normal(cls, *shape: Sizes, gain: float = 1.0, **how: Unpack[Drawn]) -> Self:
        """Normal numbers of the variance of `xavier_uniform`."""
        sizes = checked_sizes(shape)
        std = gain * math.sqrt(2 / (_inputs(sizes) + _outputs(sizes)))
        return cls.normal(sizes, std=std, **how)

    @classmethod
    def glorot_uniform(cls, *shape: Sizes, gain: float = 1.0, **how: Unpack[Drawn]) -> Self:
        """`xavier_uniform`."""
        return cls.xavier_uniform(*shape, gain=gain, **how)

    @classmethod
    def glorot_normal(cls, *shape: Sizes, gain: float = 1.0, **how: Unpack[Drawn]) -> Self:
        """`xavier_normal`."""
        return cls.xavier_normal(*shape, gain=gain, **how)

    @classmethod
    def scaled_uniform(cls, *shape: Sizes, **how: Unpack[Drawn]) -> Self:
        """Uniform numbers between -1 and 1, divided by the square root of how many there are."""
        sizes = checked_sizes(shape)
        return cls._uniform_within(sizes, 1 / math.sqrt(max(1, size_of(sizes))), how)

    @classmethod
    def _uniform_within(cls, sizes: Shape, bound: float, how: Drawn) -> Self:
        return cls.uniform(sizes, low=-bound, high=bound, **how)


def _inputs(shape: Shape) -> int:
    """What an output sums over; of a vector, its size."""
    return max(1, size_of(shape[1:]) if len(shape) > 1 else size_of(shape))


def _outputs(shape: Shape) -> int:
    """Across how many outputs the gradient of an input is summed."""
    if len(shape) < 2:
        return max(1, size_of(shape))
    return max(1, shape[0] * size_of(shape[2:]))
