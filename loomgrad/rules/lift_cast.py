"""Arithmetic on casts of mathematical integers, done before the cast.

Termination: each step has fewer casts, or the same with more operations below them.
"""

from __future__ import annotations

from loomgrad.dtype import dtypes
from loomgrad.ir.constant import is_constant
from loomgrad.ir.matcher import PatternMatcher
from loomgrad.ir.opcode import Ops
from loomgrad.ir.pattern import UPat
from loomgrad.ir.rule import rewrites
from loomgrad.ir.uop import UOp

_LIFTED = (Ops.ADD, Ops.SUB, Ops.MUL, Ops.NEG, Ops.MAX, Ops.FLOORDIV, Ops.FLOORMOD)


@rewrites(UPat(_LIFTED, name="node", early_reject={Ops.CAST}))
def lift_cast(node: UOp) -> UOp | None:
    """Before: int32(i) * 64 + int32(j).   After: int32(i * 64 + j).

    Because: the bounds show that the sum fits, so nothing wraps; index laws then see one expression.
    """
    dtype = node.dtype
    if not dtype.is_int or dtype.is_weak:
        return None
    weak = [_weak_source(source) for source in node.src]
    if None in weak or all(is_constant(source) for source in node.src):
        return None
    lifted = UOp(node.op, tuple(source for source in weak if source is not None))
    least, greatest = lifted.bounds
    return lifted.cast(dtype) if dtype.min <= least <= greatest <= dtype.max else None


def _weak_source(source: UOp) -> UOp | None:
    """The integer below a cast that keeps its value, or a constant."""
    if is_constant(source):
        return UOp.const(source.val) if isinstance(source.val, int) else None
    if source.op is not Ops.CAST or source.src[0].dtype is not dtypes.weakint:
        return None
    below = source.src[0]
    least, greatest = below.bounds
    return below if source.dtype.min <= least <= greatest <= source.dtype.max else None


LIFT_CAST = PatternMatcher([lift_cast])
