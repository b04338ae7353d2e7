"""Putting quotients and remainders together again inside a sum: x // c * c + x % c is x.

Reshapes take a position apart and put it together; what remains of it then is nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from loomgrad.ir.opcode import Ops
from loomgrad.ir.uop import UOp
from loomgrad.rules.division import divided, quotient, remainder
from loomgrad.rules.sums import Sum, sum_of


def recombined(total: Sum) -> Sum:
    """`total` without the pairs that belong together.  Each step has fewer divisions or fewer terms."""
    changed: Sum | None = total
    while changed is not None:
        total = changed
        changed = _first_step(total)
    return total


def _first_step(total: Sum) -> Sum | None:
    if len(total.terms) < 2:
        return None
    for term, factor in total.terms.items():
        if term.op is not Ops.FLOORMOD and term.op is not Ops.FLOORDIV:
            continue
        parts = divided(term)
        if parts is None:
            continue
        for step in _STEPS[term.op]:
            result = step(total, term, factor, *parts)
            if result is not None:
                return result
    return None


def _join_quotient(total: Sum, term: UOp, factor: int, x: UOp, divisor: int) -> Sum | None:
    """x % c * k + x // c * (c*k) = x * k, found from the remainder."""
    whole = quotient(sum_of(x), divisor)
    if not total.contains(whole, factor * divisor):
        return None
    return total.without(term).plus(whole, -factor * divisor).plus(sum_of(x), factor)


def _join_remainder(total: Sum, term: UOp, factor: int, x: UOp, divisor: int) -> Sum | None:
    """x % c * k + x // c * (c*k) = x * k, found from the quotient."""
    if factor % divisor:
        return None
    rest, times = remainder(sum_of(x), divisor), factor // divisor
    if not total.contains(rest, times):
        return None
    return total.without(term).plus(rest, -times).plus(sum_of(x), times)


def _join_remainders(total: Sum, term: UOp, factor: int, x: UOp, divisor: int) -> Sum | None:
    """(x // c) % d * (c*k) + x % c * k = x % (c*d) * k."""
    if x.op is not Ops.FLOORDIV or (parts := divided(x)) is None:
        return None
    y, inner = parts
    if factor % inner:
        return None
    low, times = remainder(sum_of(y), inner), factor // inner
    if not total.contains(low, times):
        return None
    joined = remainder(sum_of(y), inner * divisor)
    return total.without(term).plus(low, -times).plus(joined, times)


def _subtract_remainder(total: Sum, term: UOp, factor: int, x: UOp, divisor: int) -> Sum | None:
    """x * k - x % c * k = x // c * (c*k)."""
    return _exchange(total, term, -factor, x, quotient(sum_of(x), divisor), divisor)


def _subtract_quotient(total: Sum, term: UOp, factor: int, x: UOp, divisor: int) -> Sum | None:
    """x * k - x // c * (c*k) = x % c * k."""
    if factor % divisor:
        return None
    return _exchange(total, term, -factor // divisor, x, remainder(sum_of(x), divisor), 1)


def _exchange(total: Sum, term: UOp, times: int, x: UOp, other: Sum, scale: int) -> Sum | None:
    """x * times and `term` become `other` * times * scale, where `other` is one term."""
    whole = sum_of(x)
    if other.only is None or not total.contains(whole, times):
        return None
    return total.without(term).plus(whole, -times).plus(other, times * scale)


Step = Callable[[Sum, UOp, int, UOp, int], Sum | None]
_STEPS: dict[object, tuple[Step, ...]] = {
    Ops.FLOORMOD: (_join_quotient, _join_remainders, _subtract_remainder),
    Ops.FLOORDIV: (_join_remainder, _subtract_quotient),
}
