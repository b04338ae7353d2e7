"""What normalisations share: over which axes, and weight and bias after it."""

from __future__ import annotations

from loomgrad.dtype import DType
from loomgrad.errors import ShapeError
from loomgrad.tensor import Tensor


def affine(x: Tensor, weight: Tensor | None, bias: Tensor | None, dtype: DType) -> Tensor:
    """x * weight + bias in a dtype."""
    scaled = x if weight is None else x * weight
    return (scaled if bias is None else scaled + bias).cast(dtype)


def last_axes(x: Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The axes to normalise over.  Raises ShapeError unless `x` ends with `shape`."""
    if len(shape) == 0 or x.shape[-len(shape) :] != shape:
        raise ShapeError(
            f"normalisation over {shape} got shape {x.shape}", fix="x must end with it"
        )
    return tuple(range(-len(shape), 0))
