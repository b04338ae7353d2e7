"""Floor division and modulo of ints that may wrap; index arithmetic has `index.py`.

Termination: each law removes an operation.
"""

from __future__ import annotations

from loomgrad.ir.guard import is_int, no_overflow, nonzero
from loomgrad.ir.matcher import rules
from loomgrad.ir.pattern import UPat
from loomgrad.ir.rule import Rule
from loomgrad.rules.guards import below, divides, holds_product, is_signed, is_strong

x, y = UPat.var("x"), UPat.var("y")
c, c0, c1 = UPat.cvar("c"), UPat.cvar("c0"), UPat.cvar("c1")

# fmt: off
# ruff: noqa: E501
DIVMOD = rules("divmod",
    #    name          before                         after                 when                                      why
    Rule("div.one",     x // 1,                       x,                    is_int(x),                                why="by definition"),
    Rule("mod.one",     x % 1,                        0,                    is_int(x),                                why="by definition"),
    Rule("div.minus",   x // -1,                      -x,                   is_int(x) & is_signed(x),                         why="INT_MIN is its own negative"),
    Rule("div.self",    x // x,                       1,                    nonzero(x),                               why="0 // 0 is 0"),
    Rule("mod.self",    x % x,                        0,                    is_int(x),                                why="0 % 0 is 0 too"),
    Rule("cdiv.one",    x.cdiv(1),                    x,                    is_int(x),                                why="by definition"),
    Rule("cmod.one",    x.cmod(1),                    0,                    is_int(x),                                why="by definition"),
    Rule("div.small",   x // c,                       0,                    is_int(x) & below(x, c),                  why="0 <= x < c"),
    Rule("mod.small",   x % c,                        x,                    is_int(x) & below(x, c),                  why="0 <= x < c"),
    Rule("div.nest",    (x // c0) // c1,              x // (c0 * c1),       holds_product(x, c0, c1) & is_strong(x),  why="floor(floor(x/a)/b) = floor(x/(a*b)) for b > 0"),
    Rule("mod.mod",     (x % c0) % c1,                x % c1,               is_int(x) & divides(c1, c0),              why="c0 is 0 modulo c1"),
    Rule("mod.again",   (x % y) % y,                  x % y,                is_int(x),                                why="already reduced, 0 for y = 0"),
    Rule("mul.div",     (x * c0) // c1,               x * (c0 // c1),       is_int(x) & divides(c1, c0) & no_overflow(x * c0), why="c1 divides every value"),
    Rule("mul.mod",     (x * c0) % c1,                0,                    is_int(x) & divides(c1, c0) & no_overflow(x * c0), why="c1 divides every value"),
    Rule("recombine",   (x // c) * c + x % c,         x,                    is_int(x) & nonzero(c),                   why="the definition of modulo; wraps back"),
)
# fmt: on
