"""Which RANGEs are open at a node: those below it, minus those that something below has closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loomgrad.ir.opcode import Ops, OpSet

if TYPE_CHECKING:
    from loomgrad.ir.uop import UOp

CLOSING = OpSet(Ops.STAGE, Ops.REDUCE, Ops.END, Ops.CALL)
_EMPTY: frozenset[UOp] = frozenset()


def ended_ranges(node: UOp) -> frozenset[UOp]:
    """The RANGEs that this node closes.  An ended source that is not a RANGE closes those inside."""
    if node.op not in CLOSING:
        return _EMPTY
    return (
        _EMPTY.union(*(source.ranges for source in node.src[1:])) if len(node.src) > 1 else _EMPTY
    )


def open_ranges(node: UOp) -> frozenset[UOp]:
    """The rule: the union over the sources without what the node, or an effect it waits for, ended."""
    if not node.src:
        return _EMPTY
    below = node.src[0].ranges
    for source in node.src[1:]:
        more = source.ranges
        if more and more is not below:
            below = below | more
    if not below:
        return _EMPTY
    if node.op in CLOSING:
        return below - ended_ranges(node)
    if node.op is Ops.AFTER:
        for effect in node.src[1:]:
            if effect.op is Ops.END:
                below = below - ended_ranges(effect)
    return below
