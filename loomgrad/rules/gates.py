"""What a gate says: the bounds in a conjunction of comparisons, and index arithmetic under them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from loomgrad.ir.args import AddrSpace, ParamArg
from loomgrad.ir.opcode import GroupOp, Ops, OpSet
from loomgrad.ir.simplify import simplify
from loomgrad.ir.substitute import substitute
from loomgrad.ir.uop import UOp
from loomgrad.rules.compare import decided
from loomgrad.rules.division import divided, remainder
from loomgrad.rules.sums import Sum, constant_of, is_index, sum_of

MOST_CLAUSES = 16
# Without one of these an index is linear, and no bound makes it simpler.
_BENDING = OpSet(*GroupOp.Division, *GroupOp.Comparison, Ops.WHERE, Ops.MAX)
_OPAQUE = OpSet(Ops.INDEX, Ops.LOAD, Ops.REDUCE, Ops.STAGE, Ops.AFTER)


@dataclass(frozen=True, slots=True)
class Bound:
    """low <= expression <= high."""

    expression: UOp
    low: int
    high: int


def clauses_of(gate: UOp, most: int | None = None) -> list[UOp]:
    """The parts of a conjunction, in order; the search ends when there are more than `most`."""
    found: list[UOp] = []
    pending = [gate]
    while pending and (most is None or len(found) <= most):
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
        node = _under(_exact(node, bound), bound) if answer is None else UOp.const(answer)
    return node


def _exact(node: UOp, bound: Bound) -> UOp:
    """`node` with x in place of x // c * c + r, where the bound says that x % c is r."""
    parts = divided(bound.expression) if bound.expression.op is Ops.FLOORMOD else None
    if parts is None or bound.low != bound.high:
        return node
    divisor = parts[1]
    exact: dict[UOp, UOp] = {}
    for part in _index_part(node):
        factor = constant_of(part.src[1]) if part.op is Ops.MUL and is_index(part) else None
        quotient = part.src[0] if factor is not None and factor % divisor == 0 else None
        inner = None if quotient is None or quotient.op is not Ops.FLOORDIV else divided(quotient)
        if inner is None or factor is None or inner[1] != divisor:
            continue
        if remainder(sum_of(inner[0]), divisor).only is bound.expression:
            whole = sum_of(inner[0]).shifted(-bound.low)
            exact[part] = whole.scaled(factor // divisor).build()
    return simplify(substitute(node, exact)) if exact else node


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
    below = _index_part(node)
    total = sum_of(bound.expression)
    pivot = next((t for t, factor in total.terms.items() if factor in (1, -1) and t in below), None)
    if pivot is None or not (bound.low == bound.high or _bends(node, below)):
        return node
    fresh = min((loop.arg.axis[0] for loop in node.ranges | bound.expression.ranges), default=0)
    loop = UOp.range(bound.high - bound.low + 1, min(fresh, 0) - 1)
    value = total.shifted(-bound.low)
    free = Sum({loop: 1} if bound.low < bound.high else {})
    term = free.plus(value.without(pivot), -1).scaled(total.terms[pivot]).build()
    covers = _covers(below - {pivot})
    guess = simplify(substitute(node, {**covers, pivot: term}))
    guess = simplify(substitute(guess, {loop: substitute(value.build(), covers)}))
    guess = substitute(guess, {cover: covered for covered, cover in covers.items()})
    return guess if len(_index_part(guess)) < len(below) else node


def _bends(node: UOp, below: set[UOp]) -> bool:
    """Whether anything but a comparison of linear sums is there."""
    decides = node if node.op in GroupOp.Comparison else None
    return any(part.op in _BENDING for part in below if part is not decides)


def _index_part(node: UOp) -> set[UOp]:
    """The arithmetic of `node`, with what it is made of, which counts as unknown; without constants."""
    parts = node.toposort(gate=_is_arithmetic)
    return {part for part in parts if part.op is not Ops.CONST}


def _is_arithmetic(node: UOp) -> bool:
    return node.op in GroupOp.Elementwise


def _covers(below: set[UOp]) -> dict[UOp, UOp]:
    """Something without sources in place of each value from memory, whose own graph is not our business."""
    return {
        part: UOp(
            Ops.PARAM, (), ParamArg(-1 - place, part.dtype, 1, None, AddrSpace.ALU, part.shape)
        )
        for place, part in enumerate(sorted(below, key=_by_order))
        if part.op in _OPAQUE
    }


def _by_order(node: UOp) -> tuple[int, tuple[int, ...]]:
    return node.order
