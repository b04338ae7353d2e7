"""Python data as bytes: nested lists of numbers, packed in a dtype."""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeGuard

from loomgrad.dtype import DType, Number, cast_value, dtype_of, dtypes, holds
from loomgrad.errors import DTypeError, ShapeError
from loomgrad.ir.shape import Shape, size_of

if TYPE_CHECKING:
    from numpy import generic
    from numpy.typing import NDArray

Nested = Number | Sequence["Nested"]


def is_numpy(data: object) -> TypeGuard[NDArray[generic]]:
    """Whether this is an array or scalar of NumPy, without loading NumPy."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(data, (numpy.ndarray, numpy.generic))


def is_number(data: object) -> TypeGuard[Number]:
    """Whether this is a number of Python; some of NumPy's scalars are subclasses of those."""
    return isinstance(data, (bool, int, float)) and not is_numpy(data)


def flattened(data: object) -> tuple[list[Number], Shape]:
    """The numbers of nested lists, row by row, and their shape.

    **Raises** ShapeError where the lists are ragged, DTypeError on what is no number.
    """
    shape: list[int] = []
    level: list[object] = [data]
    while level and all(isinstance(item, (list, tuple)) for item in level):
        lengths = {len(item) for item in level}  # type: ignore[arg-type]
        if len(lengths) > 1:
            raise ShapeError(
                f"nested lists of lengths {sorted(lengths)} do not make a tensor",
                depth=len(shape),
                fix="make all lists at one depth equally long",
            )
        shape.append(lengths.pop())
        level = [inner for item in level for inner in item]  # type: ignore[attr-defined]
    return [_number(item) for item in level], tuple(shape)


def _number(item: object) -> Number:
    if isinstance(item, (bool, int, float)):
        return item
    if is_numpy(item) and item.ndim == 0:
        value: Number = item.item()
        return value
    fix = "make all elements numbers at the same depth"
    raise DTypeError(f"a tensor cannot hold a {type(item).__name__}", fix=fix)


def inferred_dtype(values: Sequence[Number]) -> DType:
    """bool for bools, the default int for ints, the default float as soon as there is a float or nothing."""
    kinds = {dtype_of(value) for value in values}
    if not kinds or dtypes.weakfloat in kinds:
        return dtypes.default_float
    return dtypes.bool if kinds == {dtypes.bool} else dtypes.default_int


def packed(values: Sequence[Number], dtype: DType) -> bytes:
    """Numbers as a dtype stores them.  Floats round; a float becomes an int as a cast would.

    **Raises** OverflowError for an int that an integer dtype does not hold.
    """
    if dtype.is_bool:
        return bytes(value != 0 for value in values)
    if dtype.is_int:
        ints = [_checked(value, dtype) for value in values]
        return struct.pack(f"{len(ints)}{dtype.fmt}", *ints)
    if dtype.format is None or dtype.fmt is None:
        raise DTypeError(f"numbers cannot be packed as {dtype.name}")
    if dtype.bits >= 32 and all(isinstance(value, float) for value in values):
        return array(dtype.fmt, values).tobytes()
    rounded = [dtype.format.round(value) for value in values]
    return struct.pack(f"{len(rounded)}{dtype.fmt}", *rounded)


def _checked(value: Number, dtype: DType) -> int:
    if isinstance(value, float):
        return int(cast_value(value, dtypes.weakfloat, dtype))
    if not holds(dtype, value):
        raise OverflowError(
            f"{value} does not fit {dtype.name}, which holds {dtype.min} to {dtype.max}; "
            f"name a wider dtype, e.g. Tensor(..., dtype=dtypes.int64)"
        )
    return int(value)


def nested(values: Sequence[Number], shape: Shape) -> Nested:
    """Numbers as nested lists of a shape; for the shape () the number itself."""
    if not shape:
        return values[0]
    level: list[Nested] = list(values)
    for axis in range(len(shape) - 1, 0, -1):
        size, count = shape[axis], size_of(shape[:axis])
        level = [level[row * size : (row + 1) * size] for row in range(count)]
    return level
