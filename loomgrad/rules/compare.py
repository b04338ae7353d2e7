"""Comparisons: what the bounds decide, where constants stand, and what scales away.

Comparisons of index arithmetic have a normal form: positive terms on the left, negative ones on the right, divided
by what they have in common, and at most one constant.  `NOT` of an order of ints is the opposite order.

Termination: each step removes an operation, makes coefficients smaller, or is the last one at its node.
"""

from __future__ import annotations

from loomgrad.dtype import dtypes
from loomgrad.ir.guard import is_int, no_overflow
from loomgrad.ir.matcher import PatternMatcher, rules
from loomgrad.ir.opcode import GroupOp, Op, Ops
from loomgrad.ir.pattern import UPat
from loomgrad.ir.right_side import fit
from loomgrad.ir.rule import Rule, rewrites
from loomgrad.ir.uop import UOp
from loomgrad.rules.division import divided
from loomgrad.rules.guards import all_int, has_after, has_before, representable_difference
from loomgrad.rules.recombine import recombined
from loomgrad.rules.sums import Sum, build, is_index, sum_of

x, y = UPat.var("x"), UPat.var("y")
c, c0, c1 = UPat.cvar("c"), UPat.cvar("c0"), UPat.cvar("c1")

# fmt: off
# ruff: noqa: E501
COMPARE_LAWS = rules("compare",
    #    name          before                after            when                                     why
    Rule("lt.self",    x < x,                False,                                                    why="irreflexive, NaN too"),
    Rule("eq.self",    x.eq(x),              True,            is_int(x),                               why="not for floats: NaN is not itself"),
    Rule("ne.self",    x.ne(x),              False,           is_int(x),                               why="not for floats: NaN is not itself"),
    Rule("not.lt.c",   ~(x < c),             (c + -1) < x,    all_int(x, c) & has_before(x, c),            why="c <= x, and c - 1 does not wrap"),
    Rule("not.c.lt",   ~(c < x),             x < (c + 1),     all_int(x, c) & has_after(x, c),             why="x <= c, and c + 1 does not wrap"),
    Rule("lt.add",     (x + c0) < c1,        x < (c1 - c0),   all_int(x, c0, c1) & no_overflow(x + c0) & representable_difference(x, c1, c0), why="nothing wraps on either side"),
    Rule("add.lt",     c1 < (x + c0),        (c1 - c0) < x,   all_int(x, c0, c1) & no_overflow(x + c0) & representable_difference(x, c1, c0), why="nothing wraps on either side"),
    Rule("eq.add",     (x + c0).eq(c1),      x.eq(c1 - c0),   all_int(x, c0, c1),                               why="adding a constant is one to one, wrapping or not"),
    Rule("ne.add",     (x + c0).ne(c1),      x.ne(c1 - c0),   all_int(x, c0, c1),                               why="adding a constant is one to one, wrapping or not"),
)
# fmt: on


@rewrites(
    UPat(
        tuple(GroupOp.Comparison),
        src=(UPat.var("a", dtypes.weakint), UPat.var("b", dtypes.weakint)),
    )
)
def normalize_comparison(node: UOp, a: UOp, b: UOp) -> UOp | None:
    """Before: i * 4 + j < k * 4 + 8, with 0 <= j < 4.   After: i < k + 2.   Because: it is about one difference."""
    difference = _reduced(node.op, recombined(sum_of(a).plus(sum_of(b), -1)))
    if _unequal(node.op, difference):
        return fit(UOp.const(node.op is Ops.CMPNE), node)
    answer = decided(node.op, difference.bounds)
    return fit(_sides(node.op, difference) if answer is None else UOp.const(answer), node)


@rewrites(UPat(Ops.CMPNE, src=[UPat(Ops.CMPLT, name="less"), UPat.const(True)]))
def negate_order(node: UOp, less: UOp) -> UOp | None:
    """Before: not i < j.   After: j < i + 1.   Because: i and j are whole numbers, which do not wrap."""
    a, b = less.src
    if not (is_index(a) and is_index(b)):
        return None
    return fit(_sides(Ops.CMPLT, sum_of(b).plus(sum_of(a), -1).shifted(-1)), node)


def decided(op: Op, bounds: tuple[int, int] | None) -> bool | None:
    """The comparison with 0 of what lies within `bounds`, if it is the same everywhere."""
    if bounds is None:
        return None
    low, high = bounds
    if op is Ops.CMPLT:
        return high < 0 if high < 0 or low >= 0 else None
    if low > 0 or high < 0:
        return op is Ops.CMPNE
    return op is Ops.CMPEQ if low == high else None


def _unequal(op: Op, difference: Sum) -> bool:
    """Whether a difference is never 0 because its constant is no multiple of what all terms are."""
    factor = difference.common_factor
    return op is not Ops.CMPLT and factor > 1 and difference.constant % factor != 0


def _reduced(op: Op, difference: Sum) -> Sum:
    """A difference with smaller coefficients that compares with 0 in the same way."""
    step: Sum | None = difference
    while step is not None:
        difference = step
        step = _scaled_down(op, difference)
        if step is None and op is Ops.CMPLT:
            step = _without_low_part(difference) or _without_division(difference)
    return difference


def _scaled_down(op: Op, difference: Sum) -> Sum | None:
    """g*s + c < 0 is s + c // g < 0, and g*s + c = 0 is s + c / g = 0 where g divides c."""
    factor = difference.common_factor
    if factor <= 1 or (op is not Ops.CMPLT and difference.constant % factor):
        return None
    terms = {term: k // factor for term, k in difference.terms.items()}
    return Sum(terms, difference.constant // factor)


def _without_low_part(difference: Sum) -> Sum | None:
    """d*whole + low < 0 is whole < 0, for 0 <= low < d."""
    for factor in sorted({abs(k) for k in difference.terms.values()} - {1}, reverse=True):
        whole, low = difference.multiples(factor)
        steady = low.steady_quotient(factor)
        if steady is not None and low.terms:
            return whole.shifted(steady)
    return None


def _without_division(difference: Sum) -> Sum | None:
    """x // d + c < 0 is x + c*d < 0, and c - x // d < 0 is (c + 1)*d - 1 - x < 0."""
    if len(difference.terms) != 1:
        return None
    term, factor = next(iter(difference.terms.items()))
    if term.op is not Ops.FLOORDIV or abs(factor) != 1 or (parts := divided(term)) is None:
        return None
    numerator, divisor = parts
    if factor == 1:
        return sum_of(numerator).shifted(difference.constant * divisor)
    return sum_of(numerator).scaled(-1).shifted((difference.constant + 1) * divisor - 1)


def _sides(op: Op, difference: Sum) -> UOp:
    """The comparison with 0 as left < right, the constant on the side where it is positive."""
    if op is not Ops.CMPLT and _leads_negative(difference):
        difference = difference.scaled(-1)
    positive = [(term, k) for term, k in difference.terms.items() if k > 0]
    negative = [(term, -k) for term, k in difference.terms.items() if k < 0]
    constant = difference.constant
    if not negative or (positive and constant < 0):
        left, right = build(positive, 0), build(negative, -constant)
    else:
        left, right = build(positive, constant), build(negative, 0)
    return UOp(op, (left, right))


def _leads_negative(difference: Sum) -> bool:
    """Whether the first term in canonical order has a negative coefficient."""
    if not difference.terms:
        return False
    return difference.terms[min(difference.terms, key=lambda term: term.order)] < 0


COMPARE = COMPARE_LAWS + PatternMatcher([normalize_comparison, negate_order])
