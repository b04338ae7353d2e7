"""Floor division and modulo of sums by a positive constant, as far as the interval rules can decide them.

Each function gives the normal form of its result, and giving it that form again changes nothing.
"""

from __future__ import annotations

from math import gcd

from loomgrad.ir.opcode import Op, Ops
from loomgrad.ir.uop import UOp
from loomgrad.rules.sums import Sum, constant_of, sum_of


def quotient(total: Sum, divisor: int) -> Sum:
    """total // divisor, for divisor > 0."""
    if divisor == 1:
        return total
    whole, rest = total.multiples(divisor)
    outside = _decided(rest, divisor)
    if outside is not None:
        return whole.plus(outside)
    inner = _quotient_of_term(rest, divisor)
    if inner is None:
        inner = _factored_quotient(rest, divisor)
    if inner is None:
        inner = _term(Ops.FLOORDIV, rest, divisor)
    return whole.plus(inner)


def remainder(total: Sum, divisor: int) -> Sum:
    """total % divisor, for divisor > 0."""
    if divisor == 1:
        return Sum({})
    rest = total.multiples(divisor)[1]
    outside = _decided(rest, divisor)
    if outside is not None:
        return rest.plus(outside, -divisor)
    bare = _without_inner_modulo(rest, divisor)
    if bare is not None:
        return remainder(bare, divisor)
    factored = _factored_remainder(rest, divisor)
    return _term(Ops.FLOORMOD, rest, divisor) if factored is None else factored


def divided(node: UOp) -> tuple[UOp, int] | None:
    """(x, c) of FLOORDIV(x, c) or FLOORMOD(x, c) with a constant c > 0."""
    divisor = constant_of(node.src[1])
    return None if divisor is None or divisor <= 0 else (node.src[0], divisor)


def _term(op: Op, rest: Sum, divisor: int) -> Sum:
    return Sum({UOp(op, (rest.build(), UOp(Ops.CONST, (), divisor))): 1})


def _decided(rest: Sum, divisor: int) -> Sum | None:
    """rest // divisor, if it is linear: coefficients may be replaced by their residues where that helps."""
    steady = rest.steady_quotient(divisor)
    if steady is not None:
        return Sum({}, steady)
    for nearest in (False, True):
        residues = {t: _residue(k, divisor, nearest) for t, k in rest.terms.items()}
        if all(residues[t] == k for t, k in rest.terms.items()):
            continue
        steady = Sum(residues, rest.constant).steady_quotient(divisor)
        if steady is not None:
            return Sum(
                {
                    t: (k - residues[t]) // divisor
                    for t, k in rest.terms.items()
                    if k != residues[t]
                },
                steady,
            )
    return None


def _residue(factor: int, divisor: int, nearest: bool) -> int:
    """The congruent number in [0, divisor), or the one nearest to 0."""
    least = factor % divisor
    return least - divisor if nearest and 2 * least > divisor else least


def _quotient_of_term(rest: Sum, divisor: int) -> Sum | None:
    """(x // d + c) // divisor = (x + c*d) // (d*divisor); (x % m) // divisor = (x // divisor) % (m/divisor)."""
    if len(rest.terms) != 1:
        return None
    term, factor = next(iter(rest.terms.items()))
    if (
        factor != 1
        or term.op not in (Ops.FLOORDIV, Ops.FLOORMOD)
        or (parts := divided(term)) is None
    ):
        return None
    x, inner = parts
    if term.op is Ops.FLOORDIV:
        return quotient(sum_of(x).shifted(rest.constant * inner), inner * divisor)
    if rest.constant or inner % divisor:
        return None
    return remainder(quotient(sum_of(x), divisor), inner // divisor)


def _splits(rest: Sum, divisor: int) -> list[tuple[int, Sum, Sum]]:
    """(d, whole, low) with rest = d*whole + low, 0 <= low < d and d > 1 a divisor of `divisor`, largest d first."""
    found = []
    factors = {gcd(k, divisor) for k in rest.terms.values()} | {gcd(rest.common_factor, divisor)}
    for factor in sorted(factors - {1, divisor}, reverse=True):
        whole, low = rest.multiples(factor)
        steady = low.steady_quotient(factor)
        if steady is not None:
            found.append((factor, whole.shifted(steady), low.shifted(-steady * factor)))
    return found


def _factored_quotient(rest: Sum, divisor: int) -> Sum | None:
    """(d*whole + low) // (d*e) = whole // e, for 0 <= low < d."""
    for factor, whole, _ in _splits(rest, divisor):
        return quotient(whole, divisor // factor)
    return None


def _factored_remainder(rest: Sum, divisor: int) -> Sum | None:
    """(d*whole + low) % (d*e) = d*(whole % e) + low, for 0 <= low < d."""
    for factor, whole, low in _splits(rest, divisor):
        return remainder(whole, divisor // factor).scaled(factor).plus(low)
    return None


def _without_inner_modulo(rest: Sum, divisor: int) -> Sum | None:
    """k*(x % m) is k*x modulo divisor, where divisor divides k*m."""
    for term, factor in rest.terms.items():
        if term.op is not Ops.FLOORMOD or (parts := divided(term)) is None:
            continue
        x, inner = parts
        if factor * inner % divisor == 0:
            return rest.without(term).plus(sum_of(x), factor)
    return None
