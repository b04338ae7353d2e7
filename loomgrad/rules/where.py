"""Choices and logic.

Termination: each law removes an operation, or moves one that has constant arms into them.  No law moves Invalid out
of the else arm.
"""

from __future__ import annotations

from loomgrad.dtype import dtypes
from loomgrad.ir.guard import is_bool, valid
from loomgrad.ir.matcher import PatternMatcher, rules
from loomgrad.ir.opcode import GroupOp, Ops, OpSet
from loomgrad.ir.pattern import UPat
from loomgrad.ir.right_side import fit
from loomgrad.ir.rule import Rule, rewrites
from loomgrad.ir.uop import UOp
from loomgrad.rules.guards import all_int

x, y, z = UPat.var("x"), UPat.var("y"), UPat.var("z")
t = UPat.var("t")
a, b = UPat.var("a", dtypes.bool), UPat.var("b", dtypes.bool)

# fmt: off
# ruff: noqa: E501
CHOICE = rules("where",
    #    name          before                            after                   when                   why
    Rule("true",       UPat.const(True).where(x, y),     x,                                             why="by definition"),
    Rule("false",      UPat.const(False).where(x, y),    y,                                             why="by definition"),
    Rule("same",       b.where(x, x),                    x,                                             why="both arms agree"),
    Rule("not",        (~b).where(x, y),                 b.where(y, x),          valid(y),              why="swap arms; Invalid must stay in the else arm"),
    Rule("ne",         x.ne(y).where(z, t),              x.eq(y).where(t, z),    valid(t),               why="swap arms; NaN differs, and equals nothing"),
    Rule("nest.true",  b.where(b.where(x, y), z),        b.where(x, z),                                 why="inside the true arm b holds"),
    Rule("nest.false", b.where(x, b.where(y, z)),        b.where(x, z),                                 why="inside the false arm b does not hold"),
    Rule("and",        a.where(b.where(x, y), y),        (a & b).where(x, y),                           why="x only where both hold"),
    Rule("or",         a.where(x, b.where(x, y)),        (a | b).where(x, y),                           why="x where either holds"),
    Rule("bool",       b.where(True, False),             b,                                             why="by cases"),
    Rule("bool.not",   b.where(False, True),             ~b,                                            why="by cases"),
    Rule("bool.and",   b.where(a, False),                b & a,                  valid(a),              why="by cases"),
    Rule("bool.or",    b.where(True, a),                 b | a,                  valid(a),              why="by cases"),
)

LOGIC = rules("logic",
    Rule("not.not",    ~(~b),                            b,                                             why="by cases"),
    Rule("ne.false",   b.ne(False),                      b,                                             why="by cases"),
    Rule("eq.true",    b.eq(True),                       b,                                             why="by cases"),
    Rule("eq.false",   b.eq(False),                      ~b,                                            why="by cases"),
    Rule("add",        a + b,                            a | b,                  is_bool(a),            why="+ of bools is or"),
    Rule("mul",        a * b,                            a & b,                  is_bool(a),            why="* of bools is and"),
    Rule("max",        a.maximum(b),                     a | b,                  is_bool(a),            why="the larger of two bools"),
    Rule("xor",        a ^ b,                            a.ne(b),                is_bool(a),            why="by cases"),
    Rule("and.true",   b & True,                         b,                                             why="by cases"),
    Rule("and.false",  b & False,                        False,                                         why="by cases"),
    Rule("or.true",    b | True,                         True,                                          why="by cases"),
    Rule("or.false",   b | False,                        b,                                             why="by cases"),
    Rule("and.not",    b & ~b,                           False,                                         why="excluded middle"),
    Rule("or.not",     b | ~b,                           True,                                          why="excluded middle"),
    Rule("ne.self",    b.ne(b),                          False,                                         why="by cases"),
    Rule("eq.self",    b.eq(b),                          True,                                          why="by cases"),
    Rule("eq.not",     (~b).eq(a),                       b.ne(a),                                       why="by cases"),
    Rule("de.morgan",  (~a) & (~b),                      ~(a | b),                                      why="de Morgan, with one negation less"),
    Rule("de.morgan2", (~a) | (~b),                      ~(a & b),                                      why="de Morgan, with one negation less"),
)

ARMS = rules("arms",
    Rule("mul.bool",   b.cast().named("z") * x,          b.where(x, 0),          all_int(x, z),         why="0 or 1 times x; not for floats: 0 * inf is NaN"),
    Rule("mul.mask",   b.where(1, 0).named("z") * x,     b.where(x, 0),          all_int(x, z),         why="0 or 1 times x; not for floats: 0 * inf is NaN"),
)
# fmt: on

_MOVABLE = OpSet(*((GroupOp.Unary | GroupOp.Binary) - {Ops.BITCAST, Ops.THREEFRY}))
CHOICE_OF_CONSTANTS = UPat(Ops.WHERE, src=(UPat(), UPat.cvar(), UPat.cvar()))


@rewrites(UPat(_MOVABLE, src=[CHOICE_OF_CONSTANTS.named("choice"), UPat.cvar("c")], name="node"))
def compute_in_arms(node: UOp, choice: UOp, c: UOp) -> UOp | None:
    """Before: where(b, 2, 0) + 3.   After: where(b, 2 + 3, 0 + 3).   Because: the arms fold; same operations."""
    condition, *arms = choice.src
    made = (node.replace(src=tuple(arm if s is choice else s for s in node.src)) for arm in arms)
    return fit(UOp(Ops.WHERE, (condition, *made)), node)


@rewrites(
    UPat(
        OpSet(*(GroupOp.Unary - {Ops.BITCAST})),
        src=(CHOICE_OF_CONSTANTS.named("choice"),),
        name="node",
    )
)
def apply_in_arms(node: UOp, choice: UOp) -> UOp | None:
    """Before: -where(b, 2, 0).   After: where(b, -2, -0).   Because: the arms fold; same operations."""
    condition, *arms = choice.src
    made = (node.replace(src=(arm,)) for arm in arms)
    return fit(UOp(Ops.WHERE, (condition, *made)), node)


WHERE = CHOICE + LOGIC + ARMS + PatternMatcher([compute_in_arms, apply_in_arms])
