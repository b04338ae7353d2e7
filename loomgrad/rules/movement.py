"""Movement operations on movement operations: two become one, and one that moves nothing disappears.

Termination: each rule removes an operation.
"""

from __future__ import annotations

from loomgrad.ir.matcher import PatternMatcher
from loomgrad.ir.opcode import GroupOp, Op, Ops
from loomgrad.ir.pattern import UPat
from loomgrad.ir.rule import rewrites
from loomgrad.ir.shape import Shape
from loomgrad.ir.uop import UOp, shape_stack


def _twice(op: Op) -> UPat:
    """`op` of `op` of something."""
    inner = UPat(op, src=(UPat.var("x"),), name="inner", allow_more=True)
    return UPat(op, src=(inner,), name="outer", allow_more=True)


@rewrites(UPat(GroupOp.Movement, src=(UPat.var("x"),), name="moved", allow_more=True))
def drop_still_movement(moved: UOp, x: UOp) -> UOp | None:
    """Before: reshape to the same sizes, permute by (0, 1), flip of no axis, ...   After: x.   Because: it is x."""
    if moved.op is Ops.PERMUTE:
        return x if moved.axes == tuple(range(len(moved.axes))) else None
    if moved.op is Ops.FLIP:
        return x if all(moved.shape[axis] <= 1 for axis in moved.axes) else None
    return x if moved.shape_or_none is not None and moved.shape == x.shape else None


@rewrites(_twice(Ops.RESHAPE))
def join_reshapes(outer: UOp, x: UOp) -> UOp:
    """Before: reshape of reshape.   After: the outer one.   Because: the order of the elements stays."""
    return outer.replace(src=(x, outer.src[1]))


@rewrites(_twice(Ops.PERMUTE))
def join_permutes(outer: UOp, inner: UOp, x: UOp) -> UOp:
    """Before: permute of permute.   After: one permute.   Because: axis i is inner's axis outer[i]."""
    return outer.replace(src=(x,), arg=tuple(inner.axes[axis] for axis in outer.axes))


@rewrites(_twice(Ops.FLIP))
def join_flips(outer: UOp, inner: UOp, x: UOp) -> UOp:
    """Before: flip of flip.   After: a flip of the axes that one of them names.   Because: twice is not at all."""
    axes = tuple(sorted(set(outer.axes) ^ set(inner.axes)))
    return outer.replace(src=(x,), arg=axes) if axes else x


@rewrites(_twice(Ops.EXPAND))
def join_expands(outer: UOp, inner: UOp, x: UOp) -> UOp:
    """Before: expand of expand.   After: one expand.   Because: the outer one's new axes lead."""
    return outer.replace(src=(x, shape_stack(outer.sizes + inner.sizes)))


@rewrites(_twice(Ops.SHRINK))
def join_shrinks(outer: UOp, inner: UOp, x: UOp) -> UOp:
    """Before: shrink of shrink.   After: one shrink.   Because: a box of a box is a box."""
    return outer.replace(src=(x, shape_stack(_added(outer.offsets, inner.offsets)), outer.src[2]))


@rewrites(_twice(Ops.PAD))
def join_pads(outer: UOp, inner: UOp, x: UOp) -> UOp:
    """Before: pad of pad.   After: one pad.   Because: zeros around zeros."""
    return outer.replace(src=(x, shape_stack(_added(outer.offsets, inner.offsets)), outer.src[2]))


@rewrites(_twice(Ops.DETACH))
def join_detaches(inner: UOp) -> UOp:
    """Before: detach of detach.   After: one.   Because: no gradient passes the first."""
    return inner


def _added(a: Shape, b: Shape) -> Shape:
    return tuple(x + y for x, y in zip(a, b, strict=True))


MOVEMENT = PatternMatcher(
    [
        *(drop_still_movement, join_reshapes, join_permutes, join_flips),
        *(join_expands, join_shrinks, join_pads, join_detaches),
    ]
)
