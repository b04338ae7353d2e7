"""How LLVM IR spells dtypes and constants.

bfloat16 lives in registers as its bits: it is converted, moved and selected, never computed with.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence

from loomgrad.dtype import DType, cast_value, dtypes
from loomgrad.errors import UnsupportedError

Number = bool | int | float

_TYPES = {
    dtypes.bool: "i1",
    dtypes.float16: "half",
    dtypes.bfloat16: "i16",
    dtypes.float32: "float",
    dtypes.float64: "double",
}


@functools.cache
def scalar_type(dtype: DType) -> str:
    """The type of a value in registers."""
    if (name := _TYPES.get(dtype)) is not None:
        return name
    if dtype.is_int and not dtype.is_weak:
        return f"i{dtype.bits}"
    raise UnsupportedError(f"the CPU backend has no registers for {dtype.name}")


@functools.cache
def type_of(dtype: DType, length: int) -> str:
    """A vector of `length` values, or a scalar for 1."""
    return vector_of(scalar_type(dtype), length)


def vector_of(scalar: str, length: int) -> str:
    """A vector of `length` scalars, or the scalar for 1."""
    return scalar if length == 1 else f"<{length} x {scalar}>"


@functools.cache
def suffix_of(dtype: DType, length: int) -> str:
    """The part of an intrinsic's name that tells its type, e.g. v8f32."""
    letter = "f" if dtype.is_float and dtype is not dtypes.bfloat16 else "i"
    bits = 1 if dtype.is_bool else dtype.bits
    return f"{letter}{bits}" if length == 1 else f"v{length}{letter}{bits}"


def memory_type(dtype: DType) -> str:
    """The type of a value in memory: a bool is a byte there."""
    return "i8" if dtype.is_bool else scalar_type(dtype)


def literal(value: Number, dtype: DType) -> str:
    """A constant of a strong dtype.  Floats are spelled by their bits, as doubles."""
    weak = dtypes.weakfloat if isinstance(value, float) else dtypes.weakint
    value = cast_value(value, weak, dtype)
    if dtype.is_bool:
        return "true" if value else "false"
    if dtype is dtypes.bfloat16:
        return str(int.from_bytes(struct.pack("<f", value), "little") >> 16)
    if dtype is dtypes.float16:
        return f"0xH{int.from_bytes(struct.pack('<e', value), 'little'):04X}"
    if dtype.is_float:
        return f"0x{int.from_bytes(struct.pack('<d', value), 'little'):016X}"
    return str(int(value))


def splat_literal(text: str, dtype: DType, length: int) -> str:
    """A literal in all lanes."""
    return text if length == 1 else f"splat ({scalar_type(dtype)} {text})"


def vector_literal(texts: Sequence[str], dtype: DType) -> str:
    """Literals as one operand."""
    if len(set(texts)) == 1:
        return splat_literal(texts[0], dtype, len(texts))
    scalar = scalar_type(dtype)
    return "<" + ", ".join(f"{scalar} {text}" for text in texts) + ">"
