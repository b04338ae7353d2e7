"""Sums, products, maxima and bits.

Termination: no law adds an operation; each removes one, or turns SUB or NEG into ADD or MUL by a constant, or moves
a constant outward, and constants once outside stay there.
"""

from __future__ import annotations

from loomgrad.dtype import dtypes
from loomgrad.ir.constant import literal_in
from loomgrad.ir.guard import is_bool, is_float, is_int, no_overflow, nonnegative
from loomgrad.ir.matcher import PatternMatcher, rules
from loomgrad.ir.opcode import GroupOp, Ops
from loomgrad.ir.pattern import UPat
from loomgrad.ir.rule import Rule, rewrites
from loomgrad.ir.uop import UOp
from loomgrad.rules.guards import all_int, at_least, is_signed, is_strong, nonpositive, variable

x, y, z = UPat.var("x"), UPat.var("y"), UPat.var("z")
c, c0, c1 = UPat.cvar("c"), UPat.cvar("c0"), UPat.cvar("c1")

# fmt: off
# ruff: noqa: E501
IDENTITY = rules("identity",
    #    name            before                     after                when                       why
    Rule("add.zero",     x + 0,                     x,                   is_int(x),                 why="0 is neutral; not for floats, where -0.0 + 0.0 is 0.0"),
    Rule("add.minus0",   x + -0.0,                  x,                   is_float(x),               why="-0.0 is neutral for every float, both zeros included"),
    Rule("sub.zero",     x - 0,                     x,                   is_int(x),                 why="0 is neutral"),
    Rule("sub.zero.f",   x - 0.0,                   x,                   is_float(x),               why="x - 0.0 = x + -0.0"),
    Rule("sub.self",     x - x,                     0,                   is_int(x),                 why="not for floats: inf - inf is NaN"),
    Rule("mul.one",      x * 1,                     x,                                              why="1 is neutral, for floats too"),
    Rule("mul.zero",     x * UPat.const(0).named("z"), 0,               all_int(x, z),                why="not for floats: inf * 0 is NaN and -1 * 0.0 is -0.0"),
    Rule("neg.neg",      x.alu(Ops.NEG).alu(Ops.NEG), x,                                            why="only a sign; INT_MIN is its own negative, twice"),
    Rule("fdiv.one",     x / 1,                     x,                   is_float(x),               why="exact"),
    Rule("double",       x + x,                     x * 2,               ~is_bool(x),               why="doubling is exact in binary, and wraps as the sum does"),
    Rule("trunc.trunc",  x.trunc().trunc(),         x.trunc(),                                      why="an integer has no fraction"),
)

CONSTANTS = rules("constants",
    Rule("sub",          x - c,                     x + -c,              all_int(x, c) & variable(x),   why="wraps to the same value; sums of constants then meet"),
    Rule("add.add",      (x + c0) + c1,             x + (c0 + c1),       all_int(x, c0, c1),                 why="associative under wrapping; floats would round elsewhere"),
    Rule("mul.mul",      (x * c0) * c1,             x * (c0 * c1),       all_int(x, c0, c1),                 why="associative under wrapping"),
    Rule("max.max",      x.maximum(c0).maximum(c1), x.maximum(c0.maximum(c1)),                      why="associative; NaN wins in each order"),
    Rule("and.and",      (x & c0) & c1,             x & (c0 & c1),                                  why="associative"),
    Rule("or.or",        (x | c0) | c1,             x | (c0 | c1),                                  why="associative"),
    Rule("xor.xor",      (x ^ c0) ^ c1,             x ^ (c0 ^ c1),       is_int(x),                 why="associative"),
    Rule("add.out",      (x + c) + y,               (x + y) + c,         all_int(x, y, c) & variable(y) & variable(x), why="constants go outward, where they meet"),
    Rule("mul.out",      (x * c) * y,               (x * y) * c,         all_int(x, y, c) & variable(y) & variable(x), why="constants go outward, where they meet"),
)

TERMS = rules("terms",
    Rule("like",         x * c0 + x * c1,           x * (c0 + c1),       all_int(x, c0, c1) & is_strong(x) & variable(x), why="distributive under wrapping"),
    Rule("like.one",     x * c + x,                 x * (c + 1),         all_int(x, c) & is_strong(x) & variable(x), why="distributive under wrapping"),
    Rule("like.deep",    (y + x * c0) + x * c1,     y + x * (c0 + c1),   all_int(x, y, c0, c1) & is_strong(x) & variable(x), why="distributive and associative under wrapping"),
    Rule("like.deep1",   (y + x * c) + x,           y + x * (c + 1),     all_int(x, y, c) & is_strong(x) & variable(x), why="distributive and associative under wrapping"),
    Rule("cancel",       (x + y) - y,               x,                   all_int(x, y),                 why="wrapping sums are a group"),
    Rule("add.neg",      x + -x,                    0,                   is_int(x),                 why="wrapping sums are a group"),
)

MAXIMUM = rules("max",
    Rule("self",         x.maximum(x),              x,                                              why="equal, NaN too"),
    Rule("bounds",       x.maximum(y),              x,                   at_least(x, y),            why="x is nowhere the smaller; ints only, a NaN has no bounds"),
    Rule("scaled",       (x * c0).maximum(x * c1),  x * c0.maximum(c1),  all_int(x, c0, c1) & nonnegative(x) & no_overflow(x * c0, x * c1), why="x is not negative, and nothing wraps"),
    Rule("scaled.minus", (x * c0).maximum(x * c1),  x * -((-c0).maximum(-c1)), all_int(x, c0, c1) & nonpositive(x) & no_overflow(x * c0, x * c1) & is_signed(x), why="x is not positive, and nothing wraps: the smaller factor"),
    Rule("again",        x.maximum(y).maximum(y),   x.maximum(y),                                   why="the maximum is idempotent"),
)

BITS = rules("bits",
    Rule("and.self",     x & x,                     x,                                              why="idempotent"),
    Rule("or.self",      x | x,                     x,                                              why="idempotent"),
    Rule("xor.self",     x ^ x,                     0,                   is_int(x),                 why="each bit differs from itself nowhere"),
    Rule("and.zero",     x & 0,                     0,                   is_int(x),                 why="no bit is in both"),
    Rule("and.ones",     x & -1,                    x,                   is_int(x),                 why="every bit is in -1"),
    Rule("or.zero",      x | 0,                     x,                   is_int(x),                 why="0 has no bits"),
    Rule("or.ones",      x | -1,                    -1,                  is_int(x),                 why="-1 has every bit"),
    Rule("xor.zero",     x ^ 0,                     x,                   is_int(x),                 why="0 has no bits"),
    Rule("xor.xor",      (x ^ y) ^ y,               x,                   is_int(x),                 why="its own inverse"),
    Rule("and.or",       x & (x | y),               x,                                              why="absorption"),
    Rule("or.and",       x | (x & y),               x,                                              why="absorption"),
    Rule("and.again",    (x & y) & y,               x & y,                                          why="idempotent"),
    Rule("or.again",     (x | y) | y,               x | y,                                          why="idempotent"),
    Rule("shl.zero",     x << 0,                    x,                                              why="no shift"),
    Rule("shr.zero",     x >> 0,                    x,                                              why="no shift"),
    Rule("zero.shl",     UPat.const(0, dtypes.is_int).named("x") << y, x,                           why="0 has no bits"),
    Rule("zero.shr",     UPat.const(0, dtypes.is_int).named("x") >> y, x,                           why="0 has no bits"),
)
# fmt: on


@rewrites(
    UPat(
        GroupOp.Binary, name="node", src=[UPat.var("x"), UPat(Ops.CONST, dtypes.weakint, name="c")]
    )
)
def wrap_constant(node: UOp, x: UOp, c: UOp) -> UOp | None:
    """Before: uint8_x + 300.   After: uint8_x + 44.   Because: beside a strong int a number is one of its values."""
    if not x.dtype.is_int or x.dtype.is_weak or node.op in (Ops.SHL, Ops.SHR):
        return None
    value = literal_in(c.arg, x.dtype)
    if value == c.arg:
        return None
    return node.replace(src=tuple(UOp.const(value) if s is c else s for s in node.src))


WRAP = PatternMatcher([wrap_constant])
ARITH = IDENTITY + CONSTANTS + TERMS + MAXIMUM + BITS
