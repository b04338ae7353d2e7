"""Differentiation: from a root towards targets, by the rows of `gradient`.

What comes out is more graph, so that gradients of gradients need nothing new.
"""

from __future__ import annotations

from collections.abc import Sequence

from loomgrad.errors import GradientError
from loomgrad.ir.opcode import GroupOp, Ops, OpSet
from loomgrad.ir.uop import UOp
from loomgrad.rules.cotangent import Cotangent, Gradients
from loomgrad.rules.gradient import GRADIENTS
from loomgrad.rules.signs import Signs

# No gradient passes these.
CUT = OpSet(Ops.DETACH, Ops.CONST, Ops.BUFFER, Ops.PARAM, Ops.BITCAST)


def gradients(root: UOp, seed: UOp, targets: Sequence[UOp]) -> dict[UOp, UOp]:
    """The gradients of `root`, weighted by `seed`, with respect to those targets that it depends on."""
    order = root.toposort(lambda node: node.dtype.is_float and node.op not in CUT)
    wanted = frozenset(targets)
    active, guarded = _paths(order, wanted)
    cotangents: dict[UOp, Cotangent] = {root: Cotangent(seed.expand(root.shape))}
    for node in reversed(order):
        cotangent = cotangents.get(node)
        if cotangent is None or node not in active or node.op in CUT:
            continue
        sources = [source for source in node.src if source in active]
        if not sources:
            continue
        if node.op not in GroupOp.Elementwise and not guarded.intersection(sources):
            cotangent = cotangent.settled()
        for source, piece in zip(node.src, _rule(node, cotangent), strict=False):
            if piece is None or source not in active:
                continue
            if piece.raw.shape != source.shape and source not in guarded:
                piece = piece.settled()
            fitted = piece.fitted(source.shape)
            before = cotangents.get(source)
            cotangents[source] = fitted if before is None else before.plus(fitted)
    return {
        target: cotangents[target].value
        if target in cotangents
        else target.const_like(0).expand(target.shape)
        for target in targets
        if target in active
    }


def _paths(order: list[UOp], targets: frozenset[UOp]) -> tuple[set[UOp], set[UOp]]:
    """The nodes on a way to a target, and those of them with a pole on that way."""
    active: set[UOp] = set()
    guarded: set[UOp] = set()
    signs = Signs()
    for node in order:
        signs.tell(node)
        passes = node.dtype.is_float and node.op not in CUT
        below = passes and any(source in active for source in node.src)
        if below or node in targets:
            active.add(node)
        if below and (signs.has_pole(node) or any(source in guarded for source in node.src)):
            guarded.add(node)
    return active, guarded


def _rule(node: UOp, cotangent: Cotangent) -> Gradients:
    found = GRADIENTS.rewrite(node, cotangent)
    if not isinstance(found, tuple):
        raise GradientError(f"{node.op.name.lower()} has no gradient", fix="detach its operand")
    return found
