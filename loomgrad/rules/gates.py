"""What a gate says: the bounds in a conjunction of comparisons, and index arithmetic under them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from loomgrad.ir.opcode import GroupOp, Ops, OpSet
from loomgrad.ir.simplify import simplify
from loomgrad.ir.substitute import substitute
from loomgrad.ir.uop import UOp
from loomgrad.rules.compare import decided
from loomgrad.rules.sums import Sum, constant_of, is_index, sum_of

MOST_CLAUSES = 16
# Without one of these an index is linear, and no bound makes it simpler.
_BENDING = OpSet(*GroupOp.Division, *GroupOp.Comparison, Ops.WHERE, Ops.MAX)


@dataclass(frozen=True, slots=True)
class Bound:
    """low <= expression <= high."""

    expression: UOp
    low: int
    high: int


def clauses_of(gate: UOp) -> list[UOp]:
    """The parts of a conjunction, in order."""
    found: list[UOp] = []
    pending = [gate]
    while pending:
        node = pending.pop()
        if node.op is Ops.AND:
            pending.extend(reversed(node.src))
        else:
            found.append(node)
    return found


def conjunction(clauses: Iterable[UOp]) -> UOp:
    """One gate of several; True of none."""
    gate: UOp | None = None
    for clause in clauses:
        gate = clause if gate is None else UOp(Ops.AND, (gate, clause))
    return UOp.const(True) if gate is None else gate


def bound_of(clause: UOp) -> Bound | None:
    """What x < c, c < x or x == c says about the index expression x; None if nothing."""
    if clause.op is not Ops.CMPLT and clause.op is not Ops.CMPEQ:
        return None
    a, b = clause.src
    if not (is_index(a) and is_index(b)):
        return None
    left, right = constant_of(a), constant_of(b)
    if right is not None:
        low = right if clause.op is Ops.CMPEQ else int(a.vmin)
        return Bound(a, low, right if clause.op is Ops.CMPEQ else right - 1)
    if left is not None and clause.op is Ops.CMPLT:
        return Bound(b, left + 1, int(b.vmax))
    return None


def bounds_of_clauses(clauses: Iterable[UOp]) -> list[Bound]:
    """All that the clauses say, once for each expression."""
    found: dict[UOp, Bound] = {}
    for bound in filter(None, map(bound_of, clauses)):
        x = bound.expression
        old = found.get(x, bound)
        found[x] = Bound(x, max(old.low, bound.low), min(old.high, bound.high))
    return list(found.values())


def simplify_under(node: UOp, bounds: Iterable[Bound]) -> UOp | None:
    """`node` simplified where all bounds hold; None if they cannot all hold.

    A bound on x = term + rest puts a loop variable f over low .. high in place of x: the term becomes f - rest.
    What comes out is taken only if it is smaller once x is back, so that this comes to rest.
    """
    for bound in bounds:
        if bound.low > bound.high:
            return None
        if bound.expression.vmin > bound.expression.vmax:
            continue
        answer = _decided_under(node, bound)
        node = _under(node, bound) if answer is None else UOp.const(answer)
    return node


def _decided_under(node: UOp, bound: Bound) -> bool | None:
    """A comparison of a + k*x with 0, by the interval of a and the bound on x."""
    if node.op not in GroupOp.Comparison or not (is_index(node.src[0]) and is_index(node.src[1])):
        return None
    difference = sum_of(node.src[0]).plus(sum_of(node.src[1]), -1)
    part = sum_of(bound.expression)
    term, factor = next(iter(part.terms.items()), (node, 1))
    times, left_over = divmod(difference.terms.get(term, 0), factor)
    rest = difference.plus(part, -times).bounds
    if not times or left_over or rest is None:
        return None
    ends = sorted((times * bound.low, times * bound.high))
    return decided(node.op, (rest[0] + ends[0], rest[1] + ends[1]))


def _under(node: UOp, bound: Bound) -> UOp:
    below = set(node.toposort())
    total = sum_of(bound.expression)
    pivot = _pivot(total, below)
    decides = node if node.op in GroupOp.Comparison else None
    if pivot is None or not any(part.op in _BENDING for part in below if part is not decides):
        return node
    free = _loop_over(bound)
    sign = total.terms[pivot]
    rest = total.without(pivot)
    term = sum_of(free).plus(rest, -1).scaled(sign).build()
    guess = simplify(substitute(node, {pivot: term}))
    if free.op is not Ops.CONST:
        value = total.shifted(-bound.low).build()
        guess = simplify(substitute(guess, {free.src[0] if free.op is Ops.ADD else free: value}))
    return guess if len(guess.toposort()) < len(below) else node


def _pivot(total: Sum, below: set[UOp]) -> UOp | None:
    """A term of the bounded expression that can be expressed by the others, and that occurs."""
    found = (term for term, factor in total.terms.items() if factor in (1, -1) and term in below)
    return next(found, None)


def _loop_over(bound: Bound) -> UOp:
    """low + a loop variable that is in no other expression."""
    if bound.low == bound.high:
        return UOp.const(bound.low)
    loop = UOp.range(bound.high - bound.low + 1, -1)
    return UOp(Ops.ADD, (loop, UOp.const(bound.low))) if bound.low else loop
