"""What a program needs in registers, found before anything is written.

Index arithmetic is mostly not among it: an access needs only the terms of its address.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from loomgrad.codegen.lane_offsets import LaneOffsets, lane_offsets
from loomgrad.dtype import dtypes
from loomgrad.ir.opcode import GroupOp, Ops, OpSet
from loomgrad.ir.shape import size_of
from loomgrad.ir.uop import UOp
from loomgrad.target import Target

_EFFECTS = OpSet(Ops.RANGE, Ops.END, Ops.STORE)
_ONE_VALUE = OpSet(Ops.AFTER, *GroupOp.Movement)


def index_places(nodes: Iterable[UOp]) -> dict[UOp, LaneOffsets | None]:
    """What is known of the lanes of every INDEX."""
    return {node: lane_offsets(node.src[1]) for node in nodes if node.op is Ops.INDEX}


def needed_nodes(nodes: Sequence[UOp], places: dict[UOp, LaneOffsets | None]) -> frozenset[UOp]:
    """The effects, and the nodes whose values they need."""
    needed: set[UOp] = set()
    for node in reversed(nodes):
        if node.op in _EFFECTS:
            needed.add(node)
        if node in needed:
            needed.update(_operands(node, places))
    return frozenset(needed)


def _operands(node: UOp, places: dict[UOp, LaneOffsets | None]) -> Iterable[UOp]:
    """The sources that a node takes as values, and of an address its terms."""
    if node.op is Ops.LOAD or node.op is Ops.STORE:
        yield from node.src[1:]
        if node.src[0].op is Ops.INDEX:
            found = places[node.src[0]]
            if found is None:
                yield node.src[0].src[1]
            else:
                yield from (term for term, _ in found.terms)
    elif node.op in _ONE_VALUE:
        yield node.src[0]
    elif folds_last_axis(node):
        yield node.src[0].src[0]
    elif node.op is not Ops.END:
        yield from node.src


def folds_last_axis(node: UOp) -> bool:
    """Whether a REDUCE folds the axis that a PERMUTE has brought from the end, where vectors lie, to the front."""
    if node.op is not Ops.REDUCE or node.arg.count != 1 or node.src[0].op is not Ops.PERMUTE:
        return False
    rank = len(node.src[0].axes)
    return rank > 1 and node.src[0].axes == (rank - 1, *range(rank - 1))


def vector_width(needed: Iterable[UOp], target: Target) -> int:
    """Lanes per vector: as many as the narrowest elements fill that are loaded as lanes."""
    loaded = [
        node.dtype
        for node in needed
        if node.op is Ops.LOAD and not node.dtype.is_bool and size_of(node.shape) > 1
    ]
    narrowest = min(loaded, key=lambda dtype: dtype.itemsize, default=dtypes.float32)
    return max(1, target.vector_width(narrowest))
