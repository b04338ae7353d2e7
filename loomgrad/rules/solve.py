"""Comparisons solved for a loop variable: which values of it they allow."""

from __future__ import annotations

from dataclasses import dataclass

from loomgrad.dtype import dtypes
from loomgrad.ir.opcode import Ops
from loomgrad.ir.uop import UOp
from loomgrad.rules.cast import fits
from loomgrad.rules.division import quotient
from loomgrad.rules.sums import Sum, is_index, sum_of


@dataclass(frozen=True, slots=True)
class Span:
    """The values of a loop variable from `low` up to but not including `high`; None where nothing limits it."""

    low: UOp | None = None
    high: UOp | None = None


@dataclass(frozen=True, slots=True)
class Solution:
    """The one value of a loop variable for which an equality holds, if `condition` does; None: there always is."""

    place: UOp
    condition: UOp | None = None


def solved_for(clause: UOp, loop: UOp) -> Solution | None:
    """The value of `loop` for which an equality holds, or None if it is not of that kind."""
    if clause.op is not Ops.CMPEQ or (parts := _about_zero(clause, loop)) is None:
        return None
    factor, rest = parts
    if factor in (1, -1):
        return Solution(rest.scaled(-factor).build())
    distance, step = (rest.scaled(-1 if factor > 0 else 1).build(), abs(factor))
    return Solution(distance // step, (distance % step).eq(0))


def span_of(clause: UOp, loop: UOp) -> Span | None:
    """The values of `loop` for which an order holds, or None if it is not of that kind."""
    if clause.op is not Ops.CMPLT or (parts := _about_zero(clause, loop)) is None:
        return None
    factor, rest = parts
    if factor > 0:
        return Span(high=quotient(rest, factor).scaled(-1).build())
    return Span(low=quotient(rest, -factor).shifted(1).build())


def _about_zero(clause: UOp, loop: UOp) -> tuple[int, Sum] | None:
    """(k, rest) where the clause compares k * loop + rest with 0 and the loop is not in `rest`."""
    sides = [_as_index(side, loop) for side in clause.src]
    left, right = sides
    if left is None or right is None:
        return None
    difference = sum_of(left).plus(sum_of(right), -1)
    factor = difference.terms.get(loop, 0)
    rest = difference.without(loop)
    if not factor or any(loop in term.ranges for term in rest.terms):
        return None
    return factor, rest


def _as_index(side: UOp, loop: UOp) -> UOp | None:
    """A side of a comparison of ints as index arithmetic of the same value."""
    if is_index(side):
        return side
    if side.op is Ops.CAST and is_index(side.src[0]) and fits(side.src[0], side.dtype):
        return side.src[0]
    if side.dtype.is_int and loop not in side.ranges:
        return side.cast(dtypes.weakint)
    return None
