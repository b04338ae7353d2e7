"""Constant folding: an operation on constants, or one whose bounds leave a single value."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from loomgrad.dtype import DType, Number, cast_value, dtypes, least_upper_float, truncate
from loomgrad.ir.args import Invalid
from loomgrad.ir.constant import constant_value, is_constant
from loomgrad.ir.matcher import PatternMatcher
from loomgrad.ir.opcode import GroupOp, Ops, OpSet
from loomgrad.ir.ops import ROWS
from loomgrad.ir.pattern import UPat
from loomgrad.ir.right_side import fit
from loomgrad.ir.rule import rewrites
from loomgrad.ir.typing_rules import common_dtype
from loomgrad.ir.uop import UOp

_FOLDABLE = OpSet(*(GroupOp.Elementwise - {Ops.CAST, Ops.BITCAST}))
_COUNTABLE = OpSet(*(GroupOp.Elementwise - {Ops.BITCAST, Ops.THREEFRY}))
_LARGEST_EXPONENT = 64


@rewrites(UPat(_FOLDABLE, src=UPat.cvar()))
def fold_constants(node: UOp) -> UOp | None:
    """Before: an operation on constants.   After: the constant that it computes.

    Because: the row's `evaluate` is the meaning of the operation, and the result is stored in the node's dtype, so
    that it wraps and rounds as the computed value would.  A zero divisor is left for run time.
    """
    evaluate = ROWS[node.op].evaluate
    operands = _operands(node)
    if evaluate is None or _left_alone(node, operands):
        return None
    return fit(node.const_like(truncate(node.dtype, evaluate(*operands))), node)


def _operands(node: UOp) -> list[Number]:
    """The values that meet: weak ones in the dtype of the strong ones beside them."""
    if node.op in (Ops.SHL, Ops.SHR):
        return [constant_value(source) for source in node.src]
    if node.op is Ops.WHERE:
        return [constant_value(node.src[0]), *(_as(s, node.dtype) for s in node.src[1:])]
    dtype = common_dtype(node.src)
    if node.op not in GroupOp.Comparison and node.dtype.is_float and not dtype.is_float:
        dtype = least_upper_float(dtype)
    return [_as(source, dtype) for source in node.src]


def _as(source: UOp, dtype: DType) -> Number:
    return cast_value(constant_value(source), source.dtype, dtype)


def _left_alone(node: UOp, operands: Sequence[Number]) -> bool:
    """Zero divisors, and powers whose digits would fill the memory."""
    if node.op in GroupOp.Division:
        return operands[1] == 0
    return node.op is Ops.POW and node.dtype.is_int and operands[1] > _LARGEST_EXPONENT


@rewrites(UPat(_COUNTABLE))
def fold_single_value(node: UOp) -> UOp | None:
    """Before: i // 4 with 0 <= i < 4.   After: 0.   Because: the bounds leave one value."""
    if node.dtype.is_float or is_constant(node):
        return None
    low, high = node.bounds
    if low != high or (node.op is Ops.WHERE and node.src[2].arg is Invalid):
        return None
    if node.op in GroupOp.Division and node.src[1].bounds == (0, 0):
        return None
    return fit(node.const_like(low), node)


@rewrites(UPat(Ops.CAST, src=(UPat.cvar("c"),), name="cast"))
def fold_cast(cast: UOp, c: UOp) -> UOp | None:
    """Before: int32(1.5), int8(300).   After: int32(1), int8(44).   Because: `cast_value` is the meaning of CAST.

    A float stays as it is written: its rounding is part of what the constant says.
    """
    dtype = cast.dtype
    if dtype.is_float and c.op is Ops.CONST and isinstance(c.arg, float) and not dtype.is_weak:
        return None
    return cast.const_like(cast_value(constant_value(c), c.dtype, dtype))


@rewrites(UPat(Ops.BITCAST, src=(UPat.cvar("c"),), name="bitcast"))
def fold_bitcast(bitcast: UOp, c: UOp) -> UOp | None:
    """Before: bitcast of a constant.   After: the constant of these bits.

    Because: the bits are known.  Not to NaN, whose payload a constant does not hold.
    """
    source, target = c.dtype.fmt, bitcast.dtype.fmt
    if source is None or target is None or dtypes.bool in (c.dtype, bitcast.dtype):
        return None
    if c.dtype.itemsize != bitcast.dtype.itemsize or (value := constant_value(c)) != value:
        return None
    (bits,) = struct.unpack(f"<{target}", struct.pack(f"<{source}", value))
    return None if bits != bits else bitcast.const_like(bits)


_SPREADING = OpSet(Ops.RESHAPE, Ops.PERMUTE, Ops.EXPAND)


@rewrites(UPat(GroupOp.Elementwise, name="node"))
def unspread_constants(node: UOp) -> UOp | None:
    """Before: x + (2 repeated to the shape of x).   After: x + 2.   Because: constants broadcast by themselves."""
    if not node.source_mask & _SPREADING.mask:
        return None
    bare = node.replace(src=tuple(map(_constant_below, node.src)))
    return None if bare is node else fit(bare, node)


def _constant_below(node: UOp) -> UOp:
    """The constant that a node repeats, or the node."""
    below = node
    while below.op in _SPREADING:
        below = below.src[0]
    return below if below.op is Ops.CONST or is_constant(below) else node


FOLD = PatternMatcher(
    [unspread_constants, fold_constants, fold_single_value, fold_cast, fold_bitcast]
)
