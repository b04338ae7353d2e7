"""Python numbers as values of a dtype: rounding, wrapping, casting.

Constant folding, the evaluator and the front end use these functions and no others, so that a
folded value and a computed one cannot differ.
"""

from __future__ import annotations

import math

from loomgrad.dtype.types import DType, dtypes
from loomgrad.errors import DTypeError

Number = bool | int | float


def dtype_of(value: Number) -> DType:
    """The dtype of a Python number that has met no strong dtype: bool, weakint or weakfloat."""
    if isinstance(value, bool):
        return dtypes.bool
    if isinstance(value, int):
        return dtypes.weakint
    if isinstance(value, float):
        return dtypes.weakfloat
    raise DTypeError(f"expected a Python bool, int or float, not {type(value).__name__}")


def truncate(dtype: DType, value: Number) -> Number:
    """What storing `value` in `dtype` and reading it back gives, for a value of the same kind.

    Ints wrap; floats round to nearest, ties to even, and overflow to infinity (to NaN in the 8-bit
    formats without one).  Use `cast_value` to change the kind of a value.
    """
    if dtype.is_bool:
        return value != 0
    if dtype.format is not None:
        return dtype.format.round(value)
    if dtype.is_weak:
        return int(value)
    return wrap(dtype, int(value))


def wrap(dtype: DType, value: int) -> int:
    """`value` reduced to the bits of an int dtype, two's complement for signed."""
    if not dtype.is_int:
        raise DTypeError(f"a number cannot be stored in dtype {dtype.name}")
    low = value & ((1 << dtype.bits) - 1)
    return low if dtype.is_unsigned or not low >> (dtype.bits - 1) else low - (1 << dtype.bits)


def cast_value(value: Number, source: DType, target: DType) -> Number:
    """The value in `target` of a `value` of dtype `source`.

    Int to int wraps, float to int drops the fraction and saturates (NaN becomes 0), anything to
    bool is `!= 0` (NaN is True), and anything to float rounds once.
    """
    if target.is_int and source.is_float:
        return saturate(target, value)
    return truncate(target, value)


def saturate(dtype: DType, value: Number) -> int:
    """A float as an int: its fraction dropped, at the nearest limit beyond the range, 0 for NaN."""
    if value != value:
        return 0
    if value in (math.inf, -math.inf):
        return int(dtype.min if value < 0 else dtype.max)
    whole = int(value)
    return whole if dtype.is_weak else int(min(max(whole, dtype.min), dtype.max))


def holds(dtype: DType, value: Number) -> bool:
    """Whether `dtype` has exactly this value, so that a Python number may be stored in it."""
    if dtype.is_bool:
        return value in (0, 1)
    if not isinstance(value, float) or dtype.is_float:
        return truncate(dtype, value) == value or value != value
    return value.is_integer() and truncate(dtype, value) == value
