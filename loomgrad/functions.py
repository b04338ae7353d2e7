"""Functions of the package, as PyTorch has them: `loomgrad.zeros(3)`, `loomgrad.cat([x, y])`, `loomgrad.relu(x)`.

Those whose arguments differ from the method of the same name stand here.  All others are the methods themselves:
`loomgrad.relu(x)` is `Tensor.relu(x)`.  dtypes are here too: `loomgrad.float32`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from loomgrad.dtype import DType, dtypes
from loomgrad.errors import ArgumentError
from loomgrad.memory import Device
from loomgrad.nn.checkpoint import load as load
from loomgrad.nn.checkpoint import save as save
from loomgrad.nn.loader import random_order
from loomgrad.tensor import Tensor

HERE = frozenset(
    {
        *("cat", "device", "equal", "load", "max", "min"),
        *("randint", "randperm", "save", "stack"),
    }
)


class Extreme(NamedTuple):
    """The greatest or least elements along an axis, and where they stand first."""

    values: Tensor
    indices: Tensor


def named(name: str) -> object | None:
    """What `loomgrad.name` is; None if it is nothing."""
    if name in HERE:
        found: object = globals()[name]
        return found
    dtype = getattr(dtypes, name, None)
    if isinstance(dtype, DType):
        return dtype
    method = getattr(Tensor, name, None)
    return method if callable(method) else None


def device(name: str) -> str:
    """The one spelling of the name of a device."""
    return Device.canonicalize(name)


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors one behind the other along an axis."""
    return Tensor.cat(*tensors, dim=dim)


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape along a new axis."""
    return Tensor.stack(*tensors, dim=dim)


def max(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor | Extreme:
    """The greatest element; along an axis `(values, indices)`."""
    if dim is None:
        return x.max()
    return Extreme(x.max(dim, keepdim), x.argmax(dim, keepdim))


def min(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor | Extreme:
    """The least element; along an axis `(values, indices)`."""
    if dim is None:
        return x.min()
    return Extreme(x.min(dim, keepdim), x.argmin(dim, keepdim))


def randint(
    low: int,
    high: int | Sequence[int],
    size: Sequence[int] | None = None,
    dtype: DType = dtypes.int64,
) -> Tensor:
    """Whole numbers from `low` to below `high`: `randint(0, 10, (3,))`, or `randint(10, (3,))` from 0.

    **Raises** ArgumentError if there is no size.
    """
    if isinstance(high, int) and size is not None:
        return Tensor.randint(size, low=low, high=high, dtype=dtype)
    if isinstance(high, int) or size is not None:
        raise ArgumentError("randint needs a size", fix="e.g. randint(0, 10, (3,))")
    return Tensor.randint(high, low=0, high=low, dtype=dtype)


def randperm(n: int) -> Tensor:
    """The numbers 0 .. n - 1 in random order."""
    return Tensor(random_order(n), dtype=dtypes.int64)


def equal(x: Tensor, y: Tensor) -> bool:
    """Whether shapes and all elements are equal."""
    return x.shape == y.shape and bool((x == y).all())
