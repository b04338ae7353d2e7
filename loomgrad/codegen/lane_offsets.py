"""Where the lanes of a memory access lie: a scalar base and a constant offset for each lane.

An index such as `(i*6 + iu)*K + k` with lanes `iu = RESHAPE(STACK(0..5), (6, 1))` has the terms i*(6*K) and k*1 and
the offsets 0, K, ..., 5*K.  From the offsets a renderer sees what is contiguous.  The sum of terms times factors
plus offset equals the index in mathematical integers, so it may be computed in 64 bits whatever the dtype.

A term may also vary along the leading lane axes (row numbers that were loaded, say), but not along the last one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from loomgrad.ir.args import Invalid
from loomgrad.ir.opcode import GroupOp, Op, Ops, OpSet
from loomgrad.ir.ops import ROWS
from loomgrad.ir.shape import Shape, size_of
from loomgrad.ir.uop import UOp


@dataclass(frozen=True, slots=True)
class LaneOffsets:
    """`terms`: nodes and what they are multiplied by; `offsets`: one per lane of the index, row-major."""

    terms: tuple[tuple[UOp, int], ...]
    offsets: tuple[int, ...]

    @property
    def is_constant(self) -> bool:
        """Whether there is no term."""
        return not self.terms


def lane_offsets(index: UOp) -> LaneOffsets | None:
    """The terms and offsets of an index; None if its lanes depend on data or loops in another way."""
    known: dict[UOp, LaneOffsets | None] = {}
    for node in index.toposort(gate=_may_decompose):
        known[node] = _analyse(node, known)
    return known[index]


def _may_decompose(node: UOp) -> bool:
    """Whether to look below a node: not below scalars other than sums and multiples, which are terms."""
    return node.op in _RULES


def _analyse(node: UOp, known: dict[UOp, LaneOffsets | None]) -> LaneOffsets | None:
    rule = _RULES.get(node.op)
    if rule is not None and not (node.op in _WRAPPING and _may_wrap(node)):
        operands = node.src[:1] if node.op in GroupOp.Movement else node.src
        parts = [part for operand in operands if (part := known[operand]) is not None]
        if len(parts) == len(operands) and (found := rule(node, parts)) is not None:
            return found
    return _as_term(node)


def _may_wrap(node: UOp) -> bool:
    """Whether 64-bit arithmetic may differ from the node's: an interval that leaves a dtype is all of it."""
    dtype = node.dtype
    return not dtype.is_weak and dtype.bits < 64 and node.bounds == (dtype.min, dtype.max)


def _as_term(node: UOp) -> LaneOffsets | None:
    """The node itself times 1, unless it may differ along the last lane axis."""
    shape = node.shape_or_none
    if shape is None or not (node.dtype.is_int or node.dtype.is_bool) or (shape and shape[-1] != 1):
        return None
    return LaneOffsets(((node, 1),), (0,) * size_of(shape))


Parts = list[LaneOffsets]


def _constant(node: UOp, parts: Parts) -> LaneOffsets | None:
    if node.arg is Invalid or isinstance(node.arg, float):
        return None
    return LaneOffsets((), (int(node.arg),))


def _cast(node: UOp, parts: Parts) -> LaneOffsets | None:
    """An integer that keeps its value."""
    source, target = node.src[0], node.dtype
    if not target.is_int:
        return None
    least, greatest = source.bounds
    return parts[0] if target.min <= least and greatest <= target.max else None


def _stack(node: UOp, parts: Parts) -> LaneOffsets | None:
    if not parts or len({part.terms for part in parts}) > 1 or not _moves_freely(parts[0]):
        return None
    return LaneOffsets(parts[0].terms, tuple(offset for part in parts for offset in part.offsets))


def _reshape(node: UOp, parts: Parts) -> LaneOffsets | None:
    return parts[0] if _moves_freely(parts[0]) else None


def _permute(node: UOp, parts: Parts) -> LaneOffsets | None:
    if not _moves_freely(parts[0]):
        return None
    places = permuted_places(node.src[0].shape, node.axes)
    return LaneOffsets(parts[0].terms, tuple(parts[0].offsets[place] for place in places))


def _expand(node: UOp, parts: Parts) -> LaneOffsets | None:
    repeats = size_of(node.shape) // max(1, len(parts[0].offsets))
    return LaneOffsets(parts[0].terms, parts[0].offsets * repeats)


def _moves_freely(part: LaneOffsets) -> bool:
    return all(size_of(term.shape) == 1 for term, _ in part.terms)


def _sum(node: UOp, parts: Parts) -> LaneOffsets | None:
    sign = -1 if node.op is Ops.SUB else 1
    left, right = parts
    factors = dict(left.terms)
    for term, factor in right.terms:
        factors[term] = factors.get(term, 0) + sign * factor
    return LaneOffsets(
        tuple((term, factor) for term, factor in factors.items() if factor),
        tuple(a + sign * b for a, b in _paired(node, left, right)),
    )


def _negative(node: UOp, parts: Parts) -> LaneOffsets | None:
    return _scaled(parts[0], -1)


def _product(node: UOp, parts: Parts) -> LaneOffsets | None:
    for part, other in (parts, reversed(parts)):
        if other.is_constant and len(set(other.offsets)) == 1 and not part.is_constant:
            return _spread(node, parts, part, _scaled(part, other.offsets[0]))
    return _computed(node, parts)


def _quotient(node: UOp, parts: Parts) -> LaneOffsets | None:
    """(a*d*x + c) // d is a*x + c//d where the division rounds down; the shift by n divides by 2**n."""
    if (divisor := _positive_divisor(node, parts)) is None:
        return _computed(node, parts)
    left = parts[0]
    if any(factor % divisor for _, factor in left.terms):
        return None
    terms = tuple((term, factor // divisor) for term, factor in left.terms)
    return _spread(node, parts, left, LaneOffsets(terms, tuple(o // divisor for o in left.offsets)))


def _remainder(node: UOp, parts: Parts) -> LaneOffsets | None:
    """(a*d*x + c) % d is c % d where the remainder is that of rounding down."""
    if (divisor := _positive_divisor(node, parts)) is None:
        return _computed(node, parts)
    left = parts[0]
    if any(factor % divisor for _, factor in left.terms):
        return None
    return _spread(node, parts, left, LaneOffsets((), tuple(o % divisor for o in left.offsets)))


def _positive_divisor(node: UOp, parts: Parts) -> int | None:
    """The one divisor of all lanes, if the operation rounds down and there are terms to divide."""
    if parts[0].is_constant or not parts[1].is_constant:
        return None
    least, greatest = node.src[0].bounds
    rounds_down = node.op not in (Ops.CDIV, Ops.CMOD) or least >= 0
    wraps = (least, greatest) == (node.dtype.min, node.dtype.max)
    divisors = set(parts[1].offsets)
    if wraps or not rounds_down or len(divisors) > 1:
        return None
    (value,) = divisors
    if node.op is Ops.SHR:
        return 1 << value if 0 <= value < 63 else None
    if node.op is Ops.AND:
        return value + 1 if value > 0 and value & (value + 1) == 0 else None
    return value if value > 0 else None


def _shift_left(node: UOp, parts: Parts) -> LaneOffsets | None:
    if parts[0].is_constant or not parts[1].is_constant:
        return _computed(node, parts)
    distances = set(parts[1].offsets)
    if len(distances) > 1 or not 0 <= min(distances) < 63:
        return None
    return _spread(node, parts, parts[0], _scaled(parts[0], 1 << min(distances)))


def _computed(node: UOp, parts: Parts) -> LaneOffsets | None:
    """Lane by lane, where all operands are constants."""
    evaluate = ROWS[node.op].evaluate
    if evaluate is None or not all(part.is_constant for part in parts):
        return None
    return LaneOffsets((), tuple(int(evaluate(a, b)) for a, b in _paired(node, *parts)))


def _scaled(part: LaneOffsets, factor: int) -> LaneOffsets:
    terms = tuple((term, old * factor) for term, old in part.terms) if factor else ()
    return LaneOffsets(terms, tuple(offset * factor for offset in part.offsets))


def _spread(node: UOp, parts: Parts, old: LaneOffsets, new: LaneOffsets) -> LaneOffsets:
    """`new`, which stands for the operand that `old` describes, over all lanes of the node."""
    operand = node.src[0] if parts[0] is old else node.src[1]
    places = broadcast_places(operand.shape, node.shape)
    return LaneOffsets(new.terms, tuple(new.offsets[place] for place in places))


def _paired(node: UOp, left: LaneOffsets, right: LaneOffsets) -> list[tuple[int, int]]:
    a = broadcast_places(node.src[0].shape, node.shape)
    b = broadcast_places(node.src[1].shape, node.shape)
    return [(left.offsets[i], right.offsets[j]) for i, j in zip(a, b, strict=True)]


@functools.lru_cache(maxsize=1024)
def broadcast_places(source: Shape, target: Shape) -> tuple[int, ...]:
    """For each element of `target`, row-major, which element of `source` stands there."""
    places = [0]
    padded = (1,) * (len(target) - len(source)) + source
    for old, new in zip(padded, target, strict=True):
        places = [place * old + (i if old > 1 else 0) for place in places for i in range(new)]
    return tuple(places)


@functools.lru_cache(maxsize=1024)
def permuted_places(source: Shape, axes: tuple[int, ...]) -> tuple[int, ...]:
    """For each element of the permuted value, row-major, which element of `source` stands there."""
    strides = [size_of(source[axis + 1 :]) for axis in range(len(source))]
    places = [0]
    for axis in axes:
        places = [place + i * strides[axis] for place in places for i in range(source[axis])]
    return tuple(places)


_WRAPPING = OpSet(Ops.ADD, Ops.SUB, Ops.NEG, Ops.MUL, Ops.SHL)

_RULES: dict[Op, Callable[[UOp, Parts], LaneOffsets | None]] = {
    Ops.CONST: _constant,
    Ops.CAST: _cast,
    Ops.STACK: _stack,
    Ops.RESHAPE: _reshape,
    Ops.PERMUTE: _permute,
    Ops.EXPAND: _expand,
    Ops.ADD: _sum,
    Ops.SUB: _sum,
    Ops.NEG: _negative,
    Ops.MUL: _product,
    Ops.FLOORDIV: _quotient,
    Ops.CDIV: _quotient,
    Ops.SHR: _quotient,
    Ops.FLOORMOD: _remainder,
    Ops.CMOD: _remainder,
    Ops.AND: _remainder,
    Ops.SHL: _shift_left,
    Ops.MAX: _computed,
}
