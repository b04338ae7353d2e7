"""Gradients: one row per operation says how a cotangent passes from a node to its sources.

Two policies:

- What WHERE, MAX, PAD and the like did not select gets exactly 0, whatever its local derivative is there: a
  cotangent carries its mask, and derivatives that may be infinite are applied inside of it.
- Elements that tie for a maximum share its gradient evenly; a tie with a constant goes to the constant, so the
  slope of relu at 0 is 0.
"""

from __future__ import annotations

from collections.abc import Callable

from loomgrad.ir.matcher import PatternMatcher
from loomgrad.ir.opcode import Op, Ops
from loomgrad.ir.pattern import UPat
from loomgrad.ir.rule import FunctionRule
from loomgrad.ir.uop import UOp
from loomgrad.rules import gradient_elementwise as elementwise
from loomgrad.rules import gradient_movement as movement
from loomgrad.rules.cotangent import Cotangent, Gradients


def _row(op: Op, function: Callable[[Cotangent, UOp], Gradients], **fields: object) -> FunctionRule:
    return FunctionRule(UPat(op, name="node", **fields), function)  # type: ignore[arg-type]


# fmt: off
GRADIENTS = PatternMatcher((
    _row(Ops.ADD,        elementwise.same),
    _row(Ops.SUB,        elementwise.subtract),
    _row(Ops.MUL,        elementwise.multiply),
    _row(Ops.MULACC,     elementwise.multiply_add),
    _row(Ops.FDIV,       elementwise.divide),
    _row(Ops.MAX,        elementwise.maximum),
    _row(Ops.POW,        elementwise.power),
    _row(Ops.NEG,        elementwise.negate),
    _row(Ops.RECIPROCAL, elementwise.reciprocal),
    _row(Ops.SQRT,       elementwise.square_root),
    _row(Ops.EXP,        elementwise.exponential),
    _row(Ops.EXP2,       elementwise.exponential_of_2),
    _row(Ops.LOG,        elementwise.logarithm),
    _row(Ops.LOG2,       elementwise.logarithm_of_2),
    _row(Ops.SIN,        elementwise.sine),
    _row(Ops.COS,        elementwise.cosine),
    _row(Ops.TANH,       elementwise.hyperbolic_tangent),
    _row(Ops.TRUNC,      elementwise.nothing),
    _row(Ops.WHERE,      elementwise.choose),
    _row(Ops.CAST,       elementwise.cast),
    _row(Ops.RESHAPE,    movement.reshape),
    _row(Ops.PERMUTE,    movement.permute),
    _row(Ops.FLIP,       movement.flip),
    _row(Ops.PAD,        movement.pad),
    _row(Ops.SHRINK,     movement.shrink),
    _row(Ops.EXPAND,     movement.expand),
    _row(Ops.REDUCE,     movement.reduce_sum,     arg={"op": Ops.ADD}),
    _row(Ops.REDUCE,     movement.reduce_max,     arg={"op": Ops.MAX}),
    _row(Ops.REDUCE,     movement.reduce_product, arg={"op": Ops.MUL}),
    _row(Ops.INDEX,      movement.gather),
    _row(Ops.STACK,      movement.stack),
    _row(Ops.CONTIGUOUS, elementwise.same),
    _row(Ops.NOOP,       elementwise.same),
))
# fmt: on
