"""Gates: WHERE(condition, index, Invalid), an index that must not be used where the condition does not hold.

Index arithmetic on a gated index moves inside, so that the gate ends up outermost.  What leaves index arithmetic,
a comparison or a number, drops the gate: where it does not hold the result is never read, so it may be anything,
and what is read from memory still goes by the gated index itself.

Termination: gates only move outward, and what is simplified under a gate gets smaller.
"""

from __future__ import annotations

from loomgrad.dtype import dtypes
from loomgrad.ir.args import Invalid
from loomgrad.ir.guard import valid
from loomgrad.ir.matcher import PatternMatcher, rules
from loomgrad.ir.opcode import GroupOp, Ops, OpSet
from loomgrad.ir.pattern import UPat
from loomgrad.ir.right_side import fit
from loomgrad.ir.rule import Rule, rewrites
from loomgrad.ir.uop import UOp
from loomgrad.rules.gates import (
    MOST_CLAUSES,
    bounds_of_clauses,
    clauses_of,
    conjunction,
    simplify_under,
)

INVALID = UPat(Ops.CONST, arg=Invalid, name="invalid")
a, b = UPat.var("a", dtypes.bool), UPat.var("b", dtypes.bool)
i, j = UPat.var("i", dtypes.is_int), UPat.var("j", dtypes.is_int)
GATED = UPat(Ops.WHERE, dtypes.is_int, (UPat.var("gate"), UPat.var("i"), INVALID), name="gated")

# fmt: off
# ruff: noqa: E501
ARMS = rules("gate",
    #    name      before                               after                                    when       why
    Rule("turn",   b.where(INVALID, i),                 (~b).where(i, INVALID),                  valid(i),  why="Invalid stands in the else arm"),
    Rule("true",   b.where(a.where(i, INVALID), j),     (~b | a).where(b.where(i, j), INVALID),  valid(j),  why="valid where j is chosen, or a holds"),
    Rule("false",  b.where(i, a.where(j, INVALID)),     (b | a).where(b.where(i, j), INVALID),   valid(i),  why="valid where i is chosen, or a holds"),
)
# fmt: on

_ARITHMETIC = OpSet(*(GroupOp.Unary | GroupOp.Binary))
_BINARY = OpSet(*GroupOp.Binary)


@rewrites(UPat(_BINARY, src=[INVALID, UPat()], name="node"))
def spread_invalid(node: UOp, invalid: UOp) -> UOp | None:
    """Before: Invalid + x.   After: Invalid.   Because: what is made of an unusable value is unusable."""
    return _filling(invalid, node)


@rewrites(UPat(Ops.WHERE, src=(UPat.const(False), UPat(), INVALID), name="node"))
def never_valid(node: UOp, invalid: UOp) -> UOp | None:
    """Before: where(False, i, Invalid).   After: Invalid.   Because: by definition."""
    return _filling(invalid, node)


def _filling(invalid: UOp, node: UOp) -> UOp | None:
    """Invalid everywhere that `node` has an element."""
    shape = node.shape_or_none
    return None if shape is None else invalid.expand(shape)


@rewrites(UPat(_ARITHMETIC, src=UPat(), name="node"))
def move_gate_outward(node: UOp) -> UOp | None:
    """Before: where(gate, i, Invalid) + 1.   After: where(gate, i + 1, Invalid).

    Because: it is unusable where i is.  Where the result is no index the gate is dropped.
    """
    place = next((at for at, s in enumerate(node.src) if _is_gated(s)), None)
    if place is None:
        return None
    gate, index, invalid = node.src[place].src
    inside = node.replace(src=(*node.src[:place], index, *node.src[place + 1 :]))
    return fit(UOp(Ops.WHERE, (gate, inside, invalid)) if node.dtype.is_int else inside, node)


def _is_gated(node: UOp) -> bool:
    return node.op is Ops.WHERE and node.src[2].arg is Invalid


@rewrites(GATED)
def simplify_under_gate(gated: UOp, gate: UOp, i: UOp, invalid: UOp) -> UOp | None:
    """Before: where(r < 4, r % 4, Invalid).   After: where(r < 4, r, Invalid).   Because: elsewhere it is unused."""
    if i.op in (Ops.RANGE, Ops.CONST):
        return None
    simple = simplify_under(i, bounds_of_clauses(clauses_of(gate)))
    if simple is None:
        return _filling(invalid, gated)
    return None if simple is i else fit(UOp(Ops.WHERE, (gate, simple, invalid)), gated)


@rewrites(UPat(Ops.AND, dtypes.bool))
def drop_implied_clauses(node: UOp) -> UOp | None:
    """Before: (r < 4) & (r < 9) & (r // 4 < 1).   After: r < 4.   Because: the others follow from it."""
    clauses = clauses_of(node, MOST_CLAUSES)
    if len(clauses) > MOST_CLAUSES:
        return None
    for place, clause in enumerate(clauses):
        others = clauses[:place] + clauses[place + 1 :]
        simple = simplify_under(clause, bounds_of_clauses(others))
        if simple is None:
            return fit(UOp.const(False), node)
        if simple is not clause:
            return fit(conjunction([*clauses[:place], simple, *clauses[place + 1 :]]), node)
    return None


GATES = PatternMatcher([spread_invalid, never_valid, move_gate_outward]) + ARMS
VALID = PatternMatcher([simplify_under_gate, drop_implied_clauses])
