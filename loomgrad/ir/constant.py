"""What it means for a node to be a constant, and to be a given one: by value, through CAST, in its own dtype."""

from __future__ import annotations

import math
from typing import Any

from loomgrad.dtype import DType, Number, cast_value, dtype_of, dtypes
from loomgrad.ir.args import Invalid
from loomgrad.ir.opcode import Ops, OpSet
from loomgrad.ir.uop import UOp

CONSTANT_OPS = OpSet(Ops.CONST, Ops.CAST)


def is_constant(node: UOp) -> bool:
    """Whether a node is a CONST or a CAST of one.  Invalid has no value, so it is not a constant."""
    if node.op is Ops.CAST:
        node = node.src[0]
    return node.op is Ops.CONST and node.arg is not Invalid


def constant_value(node: UOp) -> Number:
    """The value of a constant as its dtype stores it: CAST(300) to uint8 is 44."""
    inner = node.src[0] if node.op is Ops.CAST else node
    value: Number = inner.arg
    return value if inner is node else cast_value(value, inner.dtype, node.dtype)


def same_number(a: Any, b: Any) -> bool:
    """Equality that tells zeros apart by sign and takes all NaNs for one."""
    if a == b:
        return a != 0 or math.copysign(1.0, a) == math.copysign(1.0, b)
    return a != a and b != b  # type: ignore[no-any-return]


def is_literal(node: UOp, literal: Number) -> bool:
    """Whether a node is the constant that `literal` denotes where the node stands.

    True and False are bools only.  An int is itself in any number type (-1 is 255 in uint8, 0 is 0.0 in a
    float).  A float is a float, or the weak int that stands for it beside one.
    """
    if node.op is Ops.CONST and type(node.arg) is type(literal):
        return same_number(node.arg, literal)
    if not is_constant(node):
        return False
    dtype = node.dtype
    if isinstance(literal, bool):
        return dtype.is_bool and constant_value(node) == literal
    if isinstance(literal, float) and not dtype.is_float:
        return dtype is dtypes.weakint and same_number(constant_value(node), literal)
    if not (dtype.is_int or dtype.is_float):
        return False
    return same_number(constant_value(node), cast_value(literal, dtype_of(literal), dtype))


def literal_in(literal: Number, dtype: DType) -> Number:
    """The Python value to write for `literal` where a value of `dtype` is due.

    Floats are not rounded here, so that the constant is the one a user's `x + 0.1` makes.
    """
    if dtype.is_float:
        return float(literal)
    return (
        cast_value(literal, dtype_of(literal), dtype) if dtype.is_int or dtype.is_bool else literal
    )


def literal_beside(literal: Number, neighbour: UOp) -> UOp:
    """The weak constant that a user's `neighbour + literal` would make; a strong int dtype wraps it."""
    dtype = neighbour.dtype
    if dtype.is_int and not dtype.is_weak and not isinstance(literal, float):
        return UOp(Ops.CONST, (), literal_in(literal, dtype))
    return UOp(Ops.CONST, (), literal)


def literal_like(literal: Number, node: UOp) -> UOp:
    """The constant that `literal` denotes in place of `node`, in its dtype."""
    return node.const_like(literal_in(literal, node.dtype))
