"""What is known of the sign of floats from how they are computed, as long as they are finite.

Gradients ask it where derivatives have poles: the root of `mean(x * x) + eps` has none, so what is not selected
above it needs no care below, and an ordinary network pays nothing for masks.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from loomgrad.ir.constant import constant_value, is_constant
from loomgrad.ir.opcode import Op, Ops, OpSet
from loomgrad.ir.uop import UOp


class Sign(IntEnum):
    """In the order of how much is known: what is positive is not negative either."""

    ANY = 0
    NOT_NEGATIVE = 1
    POSITIVE = 2


# The same elements, perhaps not all of them.
SAME = OpSet(
    *(Ops.RESHAPE, Ops.PERMUTE, Ops.FLIP, Ops.SHRINK, Ops.EXPAND),
    *(Ops.DETACH, Ops.CONTIGUOUS, Ops.NOOP),
)
# The derivatives of these may be infinite.
POLES = OpSet(*(Ops.RECIPROCAL, Ops.FDIV, Ops.LOG, Ops.LOG2, Ops.SQRT, Ops.POW, Ops.EXP, Ops.EXP2))
SMALLEST = 2.0**-126
SMALLEST_HALF = 2.0**-14


class Signs:
    """The signs of the nodes of a graph, told in the order of sources before users."""

    def __init__(self) -> None:
        self._known: dict[UOp, Sign] = {}

    def tell(self, node: UOp) -> None:
        """Find out about one more node."""
        found = self._found(node)
        if found is not Sign.ANY:
            self._known[node] = found

    def of(self, node: UOp) -> Sign:
        """What is known of a node."""
        if not is_constant(node):
            return self._known.get(node, Sign.ANY)
        value = constant_value(node)
        return Sign.POSITIVE if value >= SMALLEST else Sign(value >= 0)

    def has_pole(self, node: UOp) -> bool:
        """Whether a derivative of a node may be infinite."""
        if node.op not in POLES:
            return False
        if node.op is Ops.EXP:
            return _shifted_axes(node.src[0]) is None and not _is_minus_size(node.src[0])
        if node.op is Ops.FDIV and is_constant(node.src[1]):
            return abs(constant_value(node.src[1])) < SMALLEST
        return node.op in (Ops.POW, Ops.EXP2) or self.of(node.src[-1]) is not Sign.POSITIVE

    def _found(self, node: UOp) -> Sign:
        rule = _RULES.get(node.op)
        if rule is not None:
            return rule(node, [self.of(source) for source in node.src])
        return self.of(node.src[0]) if node.op in SAME else Sign.ANY


def _sum(node: UOp, signs: list[Sign]) -> Sign:
    if Sign.ANY in signs:
        return Sign.ANY
    half = node.dtype.bits <= 16  # a constant may be 0 there
    known = [
        Sign.NOT_NEGATIVE
        if half and is_constant(source) and constant_value(source) < SMALLEST_HALF
        else sign
        for source, sign in zip(node.src, signs, strict=True)
    ]
    return max(known)


def _product(node: UOp, signs: list[Sign]) -> Sign:
    """It may be too small for its dtype, and then is 0."""
    square = node.op is Ops.MUL and node.src[0] is node.src[1]
    return Sign.ANY if Sign.ANY in signs and not square else Sign.NOT_NEGATIVE


def _reduction(node: UOp, signs: list[Sign]) -> Sign:
    op, count = node.arg.op, node.arg.count
    if op is Ops.MUL:
        return min(signs[0], Sign.NOT_NEGATIVE)
    if 0 in node.src[0].shape[:count]:
        return Sign.ANY
    return Sign.POSITIVE if op is Ops.ADD and _has_a_one(node) else signs[0]


def _has_a_one(node: UOp) -> bool:
    """Whether a sum is that of e**(x - max(x)) along the same axes, as in softmax: the greatest gives 1."""
    terms, axes = _folded(node)
    if terms.op is not Ops.EXP:
        return False
    shifted = _shifted_axes(terms.src[0])
    return shifted is not None and shifted <= axes


def _shifted_axes(node: UOp) -> frozenset[int] | None:
    """The axes along which a value is x - max(x), which is at most 0."""
    if node.op is not Ops.SUB:
        return None
    x, greatest = node.src
    inner = greatest
    while inner.op is Ops.DETACH or inner.op is Ops.RESHAPE:
        inner = inner.src[0]
    if inner.op is not Ops.REDUCE or inner.arg.op is not Ops.MAX:
        return None
    source, axes = _folded(inner)
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(source.shape))
    return axes if source is x and greatest.shape == kept else None


def _is_minus_size(node: UOp) -> bool:
    """Whether a value is -|x|, written as a choice between x and -x, as in sigmoid."""
    if node.op is not Ops.WHERE or node.src[0].op is not Ops.CMPLT:
        return False
    (a, b), (chosen, otherwise) = node.src[0].src, node.src[1:]
    if is_constant(b) and constant_value(b) == 0:
        return chosen is a and otherwise.op is Ops.NEG and otherwise.src[0] is a
    if is_constant(a) and constant_value(a) == 0:
        return otherwise is b and chosen.op is Ops.NEG and chosen.src[0] is b
    return False


def _folded(reduce: UOp) -> tuple[UOp, frozenset[int]]:
    """What a REDUCE folds, as it was before its axes were brought to the front, and along which axes."""
    source, count = reduce.src[0], reduce.arg.count
    if source.op is Ops.PERMUTE:
        return source.src[0], frozenset(source.axes[:count])
    return source, frozenset(range(count))


def _cast(node: UOp, signs: list[Sign]) -> Sign:
    narrower = node.dtype.bits < node.src[0].dtype.bits
    return min(signs[0], Sign.NOT_NEGATIVE) if narrower else signs[0]


_Rule = Callable[[UOp, list[Sign]], Sign]
_RULES: dict[Op, _Rule] = {
    Ops.ADD: _sum,
    Ops.MUL: _product,
    Ops.FDIV: _product,
    Ops.MAX: lambda node, signs: max(signs),
    Ops.WHERE: lambda node, signs: min(signs[1:]),
    Ops.STACK: lambda node, signs: min(signs, default=Sign.ANY),
    Ops.PAD: lambda node, signs: min(signs[0], Sign.NOT_NEGATIVE),
    Ops.INDEX: lambda node, signs: min(signs[0], Sign.NOT_NEGATIVE),
    Ops.EXP: lambda node, signs: Sign.NOT_NEGATIVE,
    Ops.EXP2: lambda node, signs: Sign.NOT_NEGATIVE,
    Ops.SQRT: lambda node, signs: max(signs[0], Sign.NOT_NEGATIVE),
    Ops.RECIPROCAL: lambda node, signs: signs[0],
    Ops.REDUCE: _reduction,
    Ops.CAST: _cast,
}
