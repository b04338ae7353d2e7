"""Sums of index arithmetic: a weakint expression as constant + sum of coefficient * term.

Terms are nodes that are neither sums nor products by a constant.  weakint is mathematical, so every step is exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import gcd

from loomgrad.dtype import dtypes
from loomgrad.ir.opcode import Ops
from loomgrad.ir.uop import UOp

# A longer sum counts as one term, so that work on a chain of n additions stays proportional to n.
MOST_TERMS = 32


@dataclass(frozen=True, slots=True)
class Sum:
    """`constant` + the sum of the terms times their coefficients, none of which is 0."""

    terms: dict[UOp, int]
    constant: int = 0

    @property
    def bounds(self) -> tuple[int, int] | None:
        """The interval of the value; None inside of a loop without iterations, where nothing is known."""
        low = high = self.constant
        for term, factor in self.terms.items():
            least, greatest = (int(bound) for bound in term.bounds)
            if least > greatest:
                return None
            low += factor * (least if factor > 0 else greatest)
            high += factor * (greatest if factor > 0 else least)
        return low, high

    def plus(self, other: Sum, times: int = 1) -> Sum:
        """This and `times` the other."""
        terms = dict(self.terms)
        for term, factor in other.terms.items():
            total = terms.pop(term, 0) + times * factor
            if total:
                terms[term] = total
        return Sum(terms, self.constant + times * other.constant)

    def scaled(self, factor: int) -> Sum:
        """This many times."""
        return Sum({}).plus(self, factor)

    def shifted(self, amount: int) -> Sum:
        """This and a constant."""
        return Sum(self.terms, self.constant + amount)

    def multiples(self, divisor: int) -> tuple[Sum, Sum]:
        """(whole, rest) with self = whole * divisor + rest: terms go whole or stay; 0 <= rest.constant < divisor."""
        quotient, remainder = divmod(self.constant, divisor)
        whole = {t: k // divisor for t, k in self.terms.items() if k % divisor == 0}
        rest = {t: k for t, k in self.terms.items() if k % divisor}
        return Sum(whole, quotient), Sum(rest, remainder)

    def steady_quotient(self, divisor: int) -> int | None:
        """The value of self // divisor if it is the same everywhere, by the bounds."""
        bounds = self.bounds
        if bounds is None or bounds[0] // divisor != bounds[1] // divisor:
            return None
        return bounds[0] // divisor

    def contains(self, part: Sum, times: int) -> bool:
        """Whether each term of `part`, and there is one, stands in this with `times` its coefficient."""
        return bool(part.terms) and all(
            self.terms.get(term) == times * factor for term, factor in part.terms.items()
        )

    def without(self, term: UOp) -> Sum:
        """This without one of its terms."""
        return Sum({t: k for t, k in self.terms.items() if t is not term}, self.constant)

    @property
    def only(self) -> UOp | None:
        """The one term, if the sum is that term."""
        if self.constant or len(self.terms) != 1:
            return None
        term, factor = next(iter(self.terms.items()))
        return term if factor == 1 else None

    @property
    def common_factor(self) -> int:
        """The greatest common divisor of the coefficients, 0 without terms."""
        return gcd(*self.terms.values())

    def build(self) -> UOp:
        """The node: terms in canonical order, the constant last."""
        return build(self.terms.items(), self.constant)


def build(terms: Iterable[tuple[UOp, int]], constant: int) -> UOp:
    """constant + the sum of terms times coefficients, in canonical order; ties keep the order given."""
    result: UOp | None = None
    for term, factor in sorted(terms, key=_by_order):
        product = term if factor == 1 else UOp(Ops.MUL, (term, UOp(Ops.CONST, (), factor)))
        result = product if result is None else UOp(Ops.ADD, (result, product))
    if result is None:
        return UOp(Ops.CONST, (), constant)
    return UOp(Ops.ADD, (result, UOp(Ops.CONST, (), constant))) if constant else result


def _by_order(item: tuple[UOp, int]) -> tuple[int, tuple[int, ...]]:
    return item[0].order


def is_index(node: UOp) -> bool:
    """Whether a node is index arithmetic, that never wraps."""
    return node.dtype is dtypes.weakint


def constant_of(node: UOp) -> int | None:
    """The value of a weak constant."""
    return node.arg if node.op is Ops.CONST and is_index(node) else None


def sum_of(node: UOp) -> Sum:
    """A weakint node as a sum.  Products by a constant are distributed over what they multiply."""
    terms: dict[UOp, int] = {}
    constant = 0
    pending = [(node, 1)]
    steps = 0
    while pending:
        part, factor = pending.pop()
        steps += 1
        if len(terms) > MOST_TERMS or steps > 8 * MOST_TERMS:
            return Sum({node: 1})
        if part.op is Ops.CONST:
            constant += factor * part.arg
        elif (inner := _inside(part, factor)) is not None:
            pending.extend(inner)
        else:
            terms[part] = terms.get(part, 0) + factor
    return Sum({term: factor for term, factor in terms.items() if factor}, constant)


def _inside(node: UOp, factor: int) -> list[tuple[UOp, int]] | None:
    """The parts of a sum, last first, with their coefficients; None for a term."""
    if node.op is Ops.ADD:
        return [(node.src[1], factor), (node.src[0], factor)]
    if node.op is Ops.SUB:
        return [(node.src[1], -factor), (node.src[0], factor)]
    if node.op is Ops.NEG:
        return [(node.src[0], -factor)]
    if node.op is Ops.MUL:
        for place in (1, 0):
            if node.src[place].op is Ops.CONST:
                return [(node.src[1 - place], factor * node.src[place].arg)]
    return None
