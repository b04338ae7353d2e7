"""The order of operands of commutative index arithmetic and logic; everything else keeps the order it was written in.

Sums have a normal form of their own (`index.py`).  Termination: an operand only moves to its place.
"""

from __future__ import annotations

from loomgrad.dtype import dtypes
from loomgrad.ir.matcher import PatternMatcher
from loomgrad.ir.opcode import Ops
from loomgrad.ir.pattern import UPat
from loomgrad.ir.right_side import fit
from loomgrad.ir.rule import rewrites
from loomgrad.ir.uop import UOp

# Longer chains keep their order, so that work on them stays proportional to their length.
MOST_OPERANDS = 32
_IDEMPOTENT = (Ops.AND, Ops.OR, Ops.MAX)


@rewrites(UPat((Ops.AND, Ops.OR, Ops.MAX, Ops.MUL), (dtypes.weakint, dtypes.bool)))
def order_chain(node: UOp) -> UOp | None:
    """Before: (j * i) * j.   After: (i * j) * j.   Because: the operation is associative and commutes."""
    operands = _chain(node)
    if operands is None:
        return None
    if node.op in _IDEMPOTENT:
        operands = list(dict.fromkeys(operands))
    first, *others = sorted(operands, key=_order)
    for other in others:
        first = UOp(node.op, (first, other))
    return fit(first, node)


def _chain(node: UOp) -> list[UOp] | None:
    """The operands of a chain of one operation, in order."""
    found: list[UOp] = []
    pending = [node]
    while pending:
        part = pending.pop()
        if part.op is node.op and part.dtype is node.dtype:
            pending.extend(reversed(part.src))
        else:
            found.append(part)
        if len(found) + len(pending) > MOST_OPERANDS:
            return None
    return found


def _order(node: UOp) -> tuple[int, tuple[int, ...]]:
    return node.order


@rewrites(
    UPat((Ops.CMPEQ, Ops.CMPNE, Ops.XOR), dtypes.bool, (UPat.var("a", dtypes.bool), UPat.var("b")))
)
def order_pair(node: UOp, a: UOp, b: UOp) -> UOp | None:
    """Before: b == a, of bools.   After: a == b.   Because: equality is symmetric."""
    return node.replace(src=(b, a)) if b.order < a.order else None


CANONICAL = PatternMatcher([order_chain, order_pair])
