"""Which dtype operands meet in, which one a sum accumulates in, and which casts lose nothing."""

from __future__ import annotations

import functools

from loomgrad.dtype.types import DType, dtypes
from loomgrad.errors import DTypeError

# fmt: off
# The lattice of promotion: each dtype and the dtypes directly above it.
_ABOVE: dict[DType, tuple[DType, ...]] = {
    dtypes.bool:      (dtypes.weakint,),
    dtypes.weakint:   (dtypes.int8, dtypes.uint8),
    dtypes.int8:      (dtypes.int16,),
    dtypes.int16:     (dtypes.int32,),
    dtypes.int32:     (dtypes.int64,),
    dtypes.int64:     (dtypes.weakfloat,),
    dtypes.uint8:     (dtypes.int16, dtypes.uint16),
    dtypes.uint16:    (dtypes.int32, dtypes.uint32),
    dtypes.uint32:    (dtypes.int64, dtypes.uint64),
    dtypes.uint64:    (dtypes.weakfloat,),
    dtypes.weakfloat: dtypes.float8s + (dtypes.float16, dtypes.bfloat16),
    **dict.fromkeys(dtypes.float8s, (dtypes.float16, dtypes.bfloat16)),
    dtypes.float16:   (dtypes.float32,),
    dtypes.bfloat16:  (dtypes.float32,),
    dtypes.float32:   (dtypes.float64,),
    dtypes.float64:   (),
}
# fmt: on


@functools.cache
def _at_or_above(dtype: DType) -> frozenset[DType]:
    if dtype not in _ABOVE:
        raise DTypeError(f"a value of dtype {dtype.name} cannot take part in arithmetic")
    return frozenset((dtype,)).union(*(_at_or_above(above) for above in _ABOVE[dtype]))


@functools.cache
def least_upper_dtype(*operands: DType) -> DType:
    """The dtype that operands of these dtypes meet in, whatever their order.

    A weak dtype gives way to a strong one of its kind (int8 with weakint is int8, float16 with
    weakfloat is float16); where a weak number decides the kind, the default of that kind results
    (bool with weakint is int32, int8 with weakfloat is float32).  Only weak operands give a weak
    result.  uint64 with a signed int is the default float.

    Raises: DTypeError where two different 8-bit float forms meet, and for void.
    """
    if len({operand for operand in operands if operand.is_float8}) > 1:
        names = " and ".join(sorted({operand.name for operand in operands if operand.is_float8}))
        raise DTypeError(
            f"no dtype is right for {names} together",
            fix="cast one of them first, e.g. x.cast(dtypes.float16)",
        )
    if not operands:
        raise DTypeError("least_upper_dtype needs at least one dtype")
    common = frozenset.intersection(*(_at_or_above(operand) for operand in operands))
    least = max(common, key=lambda dtype: len(_at_or_above(dtype)))
    return least if all(operand.is_weak for operand in operands) else commit_dtype(least)


def least_upper_float(dtype: DType) -> DType:
    """The dtype of a float function of `dtype`: itself if float, else the default float."""
    if dtype.is_float:
        return dtype
    return dtypes.weakfloat if dtype is dtypes.weakint else least_upper_dtype(dtype, dtypes.float32)


def commit_dtype(dtype: DType) -> DType:
    """The default dtype that a weak dtype becomes when it gets storage; a strong one is itself."""
    if dtype is dtypes.weakint:
        return dtypes.int32
    return dtypes.float32 if dtype is dtypes.weakfloat else dtype


def sum_dtype(dtype: DType) -> DType:
    """The dtype in which a sum of `dtype` accumulates; half and 8-bit floats are cast back after.

    Bools and small ints accumulate in, and return, int32 (uint32 for unsigned).
    """
    if dtype.is_float:
        return dtypes.float32 if dtype.bits in (8, 16) else dtype
    if dtype.is_unsigned:
        return least_upper_dtype(dtype, dtypes.uint32)
    return dtype if dtype.is_weak else least_upper_dtype(dtype, dtypes.int32)


@functools.cache
def can_cast_lossless(source: DType, target: DType) -> bool:
    """Whether every value of `source` is a value of `target`: the rule of assignments.

    Not the lattice of promotion: int64 with float32 meet in float32, but not without loss.
    """
    if source is target:
        return True
    if source not in _ABOVE or target not in _ABOVE or target.is_bool:
        return False
    if source.is_bool:
        return True
    if source.format is not None:
        return target.format is not None and target.format.holds_all_of(source.format)
    if source.is_weak:
        return False
    if target.format is None:
        return (source.min >= target.min and source.max <= target.max) or target.is_weak
    digits = source.bits if source.is_unsigned else source.bits - 1
    return digits <= target.format.precision and source.max <= target.format.largest
