"""Reduce collapse: reductions that pick one element, count, or repeat a value need no loop.

Without it arange, one-hot selections, gathers and embeddings, written as masked sums, would take quadratic time.
It works on ranged and kernel graphs, one loop at a time, on REDUCE(value, loops...; op, 0).

Termination: each step removes a loop from a reduction, or splits a sum one of whose parts loses a loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from loomgrad.ir.args import Invalid
from loomgrad.ir.constant import constant_value, is_constant, same_number
from loomgrad.ir.matcher import PatternMatcher
from loomgrad.ir.opcode import Op, Ops
from loomgrad.ir.ops import identity_element
from loomgrad.ir.pattern import UPat
from loomgrad.ir.rule import rewrites
from loomgrad.ir.shape import extent_of
from loomgrad.ir.simplify import simplify
from loomgrad.ir.substitute import substitute_ranges
from loomgrad.ir.uop import UOp
from loomgrad.rules.gates import clauses_of, conjunction
from loomgrad.rules.solve import Solution, Span, solved_for, span_of

LOOPS = UPat(Ops.REDUCE, arg={"count": 0}, name="reduce")
_LARGEST_POWER = 64


@dataclass(frozen=True, slots=True)
class _Masked:
    """A value that is the identity of its reduction where not all clauses hold."""

    clauses: list[UOp]
    value: UOp


@rewrites(LOOPS)
def drop_unused_loops(reduce: UOp) -> UOp | None:
    """Before: the sum over r of v, which does not depend on r.   After: v * extent of r.

    Because: it adds the same value each time.  The greatest of equal values is the value, and a product a power.
    """
    value, *loops = reduce.src
    unused = [loop for loop in loops if _is_loop(loop) and loop not in value.ranges]
    if not unused:
        return None
    times = 1
    for loop in unused:
        times *= extent_of(loop)
    rest = value.fold_ranges(reduce.arg.op, *(loop for loop in loops if loop not in unused))
    return _repeated(rest, reduce.arg.op, times)


def _repeated(value: UOp, op: Op, times: int) -> UOp | None:
    """`value` folded with itself, `times` times."""
    if times == 0:
        return value.const_like(identity_element(op, value.dtype))
    if times == 1 or op is Ops.MAX or value.dtype.is_bool:
        return value
    if op is Ops.ADD:
        return UOp(Ops.MUL, (value, value.const_like(times)))
    return _power(value, times) if value.dtype.is_int and times <= _LARGEST_POWER else None


def _power(value: UOp, exponent: int) -> UOp:
    """`value` to a power, by squaring; wraps as the product of so many does."""
    if exponent == 1:
        return value
    half = _power(value, exponent // 2)
    square = UOp(Ops.MUL, (half, half))
    return UOp(Ops.MUL, (square, value)) if exponent % 2 else square


@rewrites(LOOPS)
def pick_element(reduce: UOp) -> UOp | None:
    """Before: the sum over r of where(r == i, f(r), 0).   After: where(0 <= i < extent, f(i), 0).

    Because: all other terms are 0, and adding 0 changes nothing.  f gets i gated by the condition.  For k * r == i
    the place is i // k, where k divides i.
    """
    for loop in filter(_is_loop, reduce.src[1:]):
        masked = _masked(reduce.src[0], reduce.arg.op)
        for clause in () if masked is None else masked.clauses:
            solution = solved_for(clause, loop)
            if masked is not None and solution is not None:
                others = [other for other in masked.clauses if other is not clause]
                return _without(
                    reduce, loop, _picked(masked.value, others, loop, solution, reduce.arg.op)
                )
    return None


def _picked(value: UOp, others: list[UOp], loop: UOp, solution: Solution, op: Op) -> UOp:
    place = solution.place
    limits = [~(place < 0), place < extent_of(loop)]
    if solution.condition is not None:
        limits.append(solution.condition)
    inside = conjunction(limits)
    gated = UOp(Ops.WHERE, (inside, place, UOp.const(Invalid)))
    holds = conjunction([inside, *(substitute_ranges(other, {loop: place}) for other in others)])
    neutral = value.const_like(identity_element(op, value.dtype))
    return UOp(Ops.WHERE, (holds, substitute_ranges(value, {loop: gated}), neutral))


@rewrites(LOOPS)
def count_elements(reduce: UOp) -> UOp | None:
    """Before: the sum over r of where(lo <= r < hi, v, 0), v free of r.   After: v * (hi - lo), hi - lo at least 0.

    Because: v is added once for each r between the limits.  Floats that are not constant are left alone.
    """
    value, op = reduce.src[0], reduce.arg.op
    masked = _masked(value, op)
    if masked is None or op is Ops.MUL:
        return None
    for loop in filter(_is_loop, reduce.src[1:]):
        if loop in masked.value.ranges or not _countable(masked.value, op):
            continue
        spans = {
            clause: span_of(clause, loop) for clause in masked.clauses if loop in clause.ranges
        }
        if not spans or None in spans.values():
            continue
        limits = [span for span in spans.values() if span is not None]
        others = [clause for clause in masked.clauses if clause not in spans]
        return _without(reduce, loop, _counted(masked.value, others, _count(limits, loop), op))
    return None


def _countable(value: UOp, op: Op) -> bool:
    """Whether `value` many times is a product: not for sums of floats, which round each time."""
    return op is Ops.MAX or not value.dtype.is_float or is_constant(value)


def _count(spans: list[Span], loop: UOp) -> UOp:
    """How many values of a loop all spans allow; not above 0 if none."""
    low, high = UOp.const(0), UOp.const(extent_of(loop))
    for span in spans:
        low = low if span.low is None else low.maximum(span.low)
        high = high if span.high is None else high.minimum(span.high)
    return high - low


def _counted(value: UOp, others: list[UOp], count: UOp, op: Op) -> UOp:
    neutral = value.const_like(identity_element(op, value.dtype))
    if op is Ops.MAX or value.dtype.is_bool:
        return UOp(Ops.WHERE, (conjunction([*others, UOp.const(0) < count]), value, neutral))
    times = count.maximum(0)
    product = UOp(Ops.MUL, (times if value.dtype.is_weak else times.cast(value.dtype), value))
    return UOp(Ops.WHERE, (conjunction(others), product, neutral)) if others else product


@rewrites(LOOPS)
def split_sum(reduce: UOp) -> UOp | None:
    """Before: the sum of a + b.   After: the sum of a, plus that of b.   Ints only, where a or b loses a loop.

    Because: sums of ints may be taken in each order; floats would round differently.
    """
    value, *loops = reduce.src
    if reduce.arg.op is not Ops.ADD or value.op is not Ops.ADD or not value.dtype.is_int:
        return None
    parts = _summands(value)
    easy = [part for part in parts if _collapses(part.fold_ranges(Ops.ADD, *loops))]
    if not easy:
        return None
    hard = [part for part in parts if part not in easy]
    sums = [part.fold_ranges(Ops.ADD, *loops) for part in easy]
    if hard:
        sums.append(_added(hard).fold_ranges(Ops.ADD, *loops))
    return _added(sums)


def _summands(value: UOp) -> list[UOp]:
    found: list[UOp] = []
    pending = [value]
    while pending:
        node = pending.pop()
        if node.op is Ops.ADD:
            pending.extend(reversed(node.src))
        else:
            found.append(node)
    return found


def _added(parts: list[UOp]) -> UOp:
    total = parts[0]
    for part in parts[1:]:
        total = UOp(Ops.ADD, (total, part))
    return total


def _collapses(reduce: UOp) -> bool:
    return any(
        step.function(reduce) is not None
        for step in (drop_unused_loops, pick_element, count_elements)
    )


@rewrites(LOOPS)
def factor_out(reduce: UOp) -> UOp | None:
    """Before: the sum over r of x * y, x free of r.   After: x times the sum of y.   Ints only.

    Because: multiplication distributes, wrapping or not; floats would round differently.
    """
    value, *loops = reduce.src
    if reduce.arg.op is not Ops.ADD or value.op is not Ops.MUL or not value.dtype.is_int:
        return None
    inner = frozenset(loops)
    for free, other in (value.src, value.src[::-1]):
        if inner.isdisjoint(free.ranges) and other.dtype is value.dtype:
            return UOp(Ops.MUL, (other.fold_ranges(Ops.ADD, *loops), free))
    return None


def _is_loop(source: UOp) -> bool:
    return source.op is Ops.RANGE and source.src[0].op is Ops.CONST


def _without(reduce: UOp, loop: UOp, value: UOp) -> UOp:
    """The reduction of another value over the other loops."""
    return value.fold_ranges(
        reduce.arg.op, *(other for other in reduce.src[1:] if other is not loop)
    )


def _masked(value: UOp, op: Op) -> _Masked | None:
    """`value` as a choice between something and the identity of `op`; a bool is such a choice.

    Operations on the choice with nothing but constants beside it are made in both arms.
    """
    layers: list[tuple[UOp, int]] = []
    inner = value
    while (place := _lone_operand(inner)) is not None:
        layers.append((inner, place))
        inner = inner.src[place]
    if inner.op is Ops.WHERE:
        gate, chosen, otherwise = inner.src
    elif inner.dtype.is_bool:
        gate, chosen, otherwise = inner, UOp.const(True), UOp.const(False)
    else:
        return None
    if not is_constant(otherwise):
        return None
    for node, place in reversed(layers):
        chosen, otherwise = (
            node.replace(src=(*node.src[:place], arm, *node.src[place + 1 :]))
            for arm in (chosen, otherwise)
        )
    if not _is_neutral(simplify(otherwise), op, value):
        return None
    return _Masked(
        clauses_of(gate), chosen if chosen.dtype is value.dtype else chosen.cast(value.dtype)
    )


def _lone_operand(node: UOp) -> int | None:
    """Where the operand stands of a cast, a sign, a scale, or a product of ints with a mask."""
    if node.op is Ops.CAST or node.op is Ops.NEG:
        return 0
    if node.op is not Ops.MUL and node.op is not Ops.FDIV:
        return None
    product = node.op is Ops.MUL
    for place, other in ((0, 1), (1, 0)) if product else ((0, 1),):
        masked = product and node.dtype.is_int and _is_mask(node.src[place])
        if masked or is_constant(node.src[other]):
            return place
    return None


def _is_mask(factor: UOp) -> bool:
    """Whether a factor is a choice that may be 0.  An int times 0 is 0; a float need not be."""
    if factor.op is not Ops.WHERE or not is_constant(factor.src[2]):
        return False
    return constant_value(factor.src[2]) == 0


def _is_neutral(constant: UOp, op: Op, value: UOp) -> bool:
    """Whether a constant changes nothing; the sign of a zero sum is free."""
    if not is_constant(constant):
        return False
    number = constant_value(constant)
    neutral = identity_element(op, value.dtype)
    return same_number(number, neutral) or (op is Ops.ADD and number == 0)


COLLAPSE = PatternMatcher([drop_unused_loops, pick_element, count_elements, split_sum, factor_out])
