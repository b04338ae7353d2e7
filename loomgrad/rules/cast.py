"""Casts.

Termination: each law removes a cast, or moves a comparison below one.
"""

from __future__ import annotations

from loomgrad.dtype import DType, can_cast_lossless, cast_value, dtypes
from loomgrad.ir.constant import constant_value, is_constant
from loomgrad.ir.guard import guard, same_dtype
from loomgrad.ir.matcher import PatternMatcher, rules
from loomgrad.ir.opcode import GroupOp, Ops
from loomgrad.ir.pattern import UPat
from loomgrad.ir.right_side import fit
from loomgrad.ir.rule import Rule, rewrites
from loomgrad.ir.uop import UOp

x = UPat.var("x")
b = UPat.var("b", dtypes.bool)


@guard
def is_number(x: UOp) -> bool:
    """An int or a float."""
    return x.dtype.is_int or x.dtype.is_float


# fmt: off
# ruff: noqa: E501
CAST_LAWS = rules("cast",
    #    name          before                   after       when                    why
    Rule("ne.zero",    b.cast().named("x").ne(0), b,        is_number(x),           why="a bool is 0 or 1 in every dtype"),
    Rule("eq.one",     b.cast().named("x").eq(1), b,        is_number(x),           why="a bool is 0 or 1 in every dtype"),
    Rule("eq.zero",    b.cast().named("x").eq(0), ~b,       is_number(x),           why="a bool is 0 or 1 in every dtype"),
    Rule("ne.one",     b.cast().named("x").ne(1), ~b,       is_number(x),           why="a bool is 0 or 1 in every dtype"),
    Rule("bitcast",    x.bitcast().bitcast().named("y"), x, same_dtype(x, UPat.var("y")), why="the bits are back where they were"),
)
# fmt: on


@rewrites(UPat((Ops.CAST, Ops.BITCAST), src=(UPat.var("x"),), name="cast"))
def drop_cast_to_itself(cast: UOp, x: UOp) -> UOp | None:
    """Before: cast of x to its own dtype.   After: x.   Because: it changes nothing."""
    return x if x.dtype is cast.dtype else None


@rewrites(UPat(Ops.CAST, src=(UPat(Ops.CAST, src=(UPat.var("x"),), name="inner"),), name="cast"))
def join_casts(cast: UOp, inner: UOp, x: UOp) -> UOp | None:
    """Before: int8(int32(x)).   After: int8(x).   Because: the inner cast keeps all that the outer one reads."""
    if is_constant(inner) or not keeps(x, inner.dtype, cast.dtype):
        return None
    return x.cast(cast.dtype)


def keeps(x: UOp, inner: DType, outer: DType) -> bool:
    """Whether casting x to `inner` and on to `outer` is casting it to `outer`."""
    if x.dtype.is_int and fits(x, inner):
        return True
    if x.dtype.is_weak or inner.is_weak:
        return False
    if can_cast_lossless(x.dtype, inner):
        through_float = x.dtype.is_int and inner.is_float and outer.is_int
        return not through_float or can_cast_lossless(x.dtype, outer)
    all_ints = x.dtype.is_int and inner.is_int and outer.is_int
    return all_ints and not outer.is_weak and outer.bits <= inner.bits


def fits(x: UOp, dtype: DType) -> bool:
    """Whether an int dtype holds every value of an int node."""
    low, high = x.bounds
    if not dtype.is_int or low > high:
        return False
    return dtype is dtypes.weakint or dtype.min <= low <= high <= dtype.max


INT_CAST = UPat(Ops.CAST, dtypes.is_int, (UPat(dtype=dtypes.is_int),))


@rewrites(
    UPat(tuple(GroupOp.Comparison), src=(INT_CAST.named("a"), INT_CAST.named("b")), name="node")
)
def compare_below_casts(node: UOp, a: UOp, b: UOp) -> UOp | None:
    """Before: int32(i) < int32(j).   After: i < j.   Because: nothing wraps, so the order is that of i and j."""
    (i,), (j,) = a.src, b.src
    if i.dtype is not j.dtype or not (fits(i, a.dtype) and fits(j, b.dtype)):
        return None
    return fit(UOp(node.op, (i, j)), node)


@rewrites(UPat(tuple(GroupOp.Comparison), src=[INT_CAST.named("a"), UPat.cvar("c")], name="node"))
def compare_constant_below_cast(node: UOp, a: UOp, c: UOp) -> UOp | None:
    """Before: int32(i) < 5.   After: i < 5.   Because: nothing wraps, and the dtype of i has 5."""
    (i,) = a.src
    value = cast_value(constant_value(c), c.dtype, a.dtype)
    if not fits(i, a.dtype) or not (i.dtype.is_weak or i.dtype.min <= value <= i.dtype.max):
        return None
    return fit(node.replace(src=tuple(i if s is a else UOp.const(value) for s in node.src)), node)


CAST = (
    PatternMatcher([drop_cast_to_itself, join_casts])
    + CAST_LAWS
    + PatternMatcher([compare_below_casts, compare_constant_below_cast])
)
