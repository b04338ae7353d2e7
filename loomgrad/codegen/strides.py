"""How a memory access moves with a loop: its stride in elements."""

from __future__ import annotations

from dataclasses import dataclass

from loomgrad.codegen.lane_offsets import lane_offsets
from loomgrad.ir.movement import ungated
from loomgrad.ir.opcode import GroupOp, Ops
from loomgrad.ir.uop import UOp


@dataclass(frozen=True, slots=True)
class Access:
    """A load or store: its INDEX, and the stride per loop; None for a loop it follows irregularly."""

    index: UOp
    strides: dict[UOp, int | None]

    def stride(self, loop: UOp) -> int | None:
        """Elements from one iteration to the next; 0 where the loop does not matter."""
        return self.strides.get(loop, 0)


def access_of(index: UOp) -> Access:
    """The strides of an INDEX of flat storage."""
    position, gate = ungated(index.src[1])
    strides: dict[UOp, int | None] = {}
    offsets = lane_offsets(position)
    terms = offsets.terms if offsets is not None else ((position, 1),)
    for term, factor in terms:
        if term.op is Ops.RANGE:
            strides[term] = factor
    for term, _ in terms:
        if term.op is not Ops.RANGE:
            strides.update(dict.fromkeys(term.ranges))
    if gate is not None:
        for loop in gate.ranges:
            strides.setdefault(loop, 0)
    return Access(index, strides)


def loads_below(value: UOp) -> list[Access]:
    """The accesses that the value of a node reads, those that compute addresses included."""
    return [
        access_of(node)
        for node in value.toposort()
        if node.op is Ops.INDEX and node.src[0].op in GroupOp.Storage
    ]
