"""What acts otherwise in training: dropout, and attention with it."""

from __future__ import annotations

import math
from typing import ClassVar, Self

from loomgrad.dtype import dtypes
from loomgrad.errors import DTypeError, LoomError, ShapeError
from loomgrad.memory import Device
from loomgrad.tensor.initialisers import Initialisers


class Networks(Initialisers):
    """Dropout acts in training only: inside of `with Tensor.train():`."""

    __slots__ = ()
    training: ClassVar[bool] = False

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
