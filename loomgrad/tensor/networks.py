"""What needs random numbers in networks: initialisers, dropout, attention."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Self

from loomgrad.dtype import dtypes
from loomgrad.errors import DTypeError, LoomError, ShapeError
from loomgrad.ir.shape import Shape, size_of
from loomgrad.memory import Device
from loomgrad.tensor.creation import Sizes, checked_sizes
from loomgrad.tensor.random import Random

if TYPE_CHECKING:
    from loomgrad.dtype.argument import DTypeLike


class Networks(Random):
    """Dropout acts in training only: inside of `with Tensor.train():`."""

    __slots__ = ()
    training: ClassVar[bool] = False

    # ---- initialisers.  Of a weight, axis 0 are the outputs and the others what each of them sums over.

    @classmethod
    def kaiming_uniform(
        cls,
        *shape: Sizes,
        a: float = 0.01,
        dtype: DTypeLike = dtypes.default_float,
        requires_grad: bool = False,
        device: str | None = None,
    ) -> Self:
        """Uniform numbers that keep the variance through a layer and a leaky_relu of slope `a` (He et al., 2015)."""
        sizes = checked_sizes(shape)
        bound = math.sqrt(6 / ((1 + a * a) * _inputs(sizes)))
        return cls.uniform(
            sizes, low=-bound, high=bound, dtype=dtype, requires_grad=requires_grad, device=device
        )

    @classmethod
    def kaiming_normal(
        cls,
        *shape: Sizes,
        a: float = 0.01,
        dtype: DTypeLike = dtypes.default_float,
        requires_grad: bool = False,
        device: str | None = None,
    ) -> Self:
        """Normal numbers of the variance of `kaiming_uniform`."""
        sizes = checked_sizes(shape)
        std = math.sqrt(2 / ((1 + a * a) * _inputs(sizes)))
        return cls.normal(sizes, std=std, dtype=dtype, requires_grad=requires_grad, device=device)

    @classmethod
    def xavier_uniform(
        cls,
        *shape: Sizes,
        gain: float = 1.0,
        dtype: DTypeLike = dtypes.default_float,
        requires_grad: bool = False,
        device: str | None = None,
    ) -> Self:
        """Uniform numbers that keep the variance forward and backward (Glorot and Bengio, 2010)."""
        sizes = checked_sizes(shape)
        bound = gain * math.sqrt(6 / (_inputs(sizes) + _outputs(sizes)))
        return cls.uniform(
            sizes, low=-bound, high=bound, dtype=dtype, requires_grad=requires_grad, device=device
        )

    @classmethod
    def xavier_normal(
        cls,
        *shape: Sizes,
        gain: float = 1.0,
        dtype: DTypeLike = dtypes.default_float,
        requires_grad: bool = False,
        device: str | None = None,
    ) -> Self:
        """Normal numbers of the variance of `xavier_uniform`."""
        sizes = checked_sizes(shape)
        std = gain * math.sqrt(2 / (_inputs(sizes) + _outputs(sizes)))
        return cls.normal(sizes, std=std, dtype=dtype, requires_grad=requires_grad, device=device)

    glorot_uniform = xavier_uniform
    glorot_normal = xavier_normal

    @classmethod
    def scaled_uniform(
        cls,
        *shape: Sizes,
        dtype: DTypeLike = dtypes.default_float,
        requires_grad: bool = False,
        device: str | None = None,
    ) -> Self:
        """Uniform numbers between -1 and 1, divided by the square root of how many there are."""
        sizes = checked_sizes(shape)
        bound = 1 / math.sqrt(max(1, size_of(sizes)))
        return cls.uniform(
            sizes, low=-bound, high=bound, dtype=dtype, requires_grad=requires_grad, device=device
        )

    # ---- in training

    def dropout(self, p: float = 0.5) -> Self:
        """In training, each element is 0 with probability p, else divided by 1 - p; otherwise x itself."""
        if not 0 <= p <= 1:
            raise LoomError(f"a probability of {p}", fix="p must be between 0 and 1")
        if not self.training or p == 0:
            return self
        if p == 1:
            return self * 0
        place = Device.canonicalize(self.device)
        kept = type(self).rand(self.shape, device=place) >= p
        return kept.where(self * (1 / (1 - p)), 0)

    # ---- attention

    def scaled_dot_product_attention(
        self,
        key: Self,
        value: Self,
        attn_mask: Self | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
    ) -> Self:
        """softmax(x @ key.T * scale) @ value; `scale` is 1 / sqrt(d) if not given.

        A mask of bools says what takes part; one of floats is added to the scores.  `is_causal`: row i sees the
        first i + 1 keys.  A row that sees none is NaN.

        **Shapes** x: (..., n, d), key: (..., m, d), value: (..., m, e), attn_mask: (..., n, m) -> (..., n, e)
        """
        if is_causal and attn_mask is not None:
            raise LoomError("attn_mask and is_causal at once", fix="let the mask be causal")
        if min(self.ndim, key.ndim, value.ndim) < 2:
            raise ShapeError(
                f"attention of shapes {self.shape}, {key.shape} and {value.shape} needs two axes"
            )
        if attn_mask is not None and not (attn_mask.dtype.is_bool or attn_mask.dtype.is_float):
            raise DTypeError(f"a mask of {attn_mask.dtype.name}", fix="use bools or floats")
        factor = 1 / math.sqrt(max(1, self.shape[-1])) if scale is None else scale
        scores = (self @ key.transpose()) * factor
        if is_causal:
            rows, columns = scores.shape[-2:]
            attn_mask = type(self).ones(rows, columns, dtype=dtypes.bool, device=self.device).tril()
        if attn_mask is not None and attn_mask.dtype.is_bool:
            scores = attn_mask.where(scores, -math.inf)
        elif attn_mask is not None:
            scores = scores + attn_mask
        return scores.softmax(-1).dropout(dropout_p) @ value


def _inputs(shape: Shape) -> int:
    """What an output sums over; of a vector, its size."""
    return max(1, size_of(shape[1:]) if len(shape) > 1 else size_of(shape))


def _outputs(shape: Shape) -> int:
    """Across how many outputs the gradient of an input is summed."""
    if len(shape) < 2:
        return max(1, size_of(shape))
    return max(1, shape[0] * size_of(shape[2:]))
