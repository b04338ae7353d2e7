"""Inlining STAGEs: their values computed where they are used."""

from __future__ import annotations

from collections.abc import Set

from loomgrad.ir.movement import both, gated, ungated
from loomgrad.ir.opcode import Ops
from loomgrad.ir.simplify import simplify
from loomgrad.ir.substitute import substitute_ranges
from loomgrad.ir.transform import Sources, transform, with_sources
from loomgrad.ir.uop import UOp


def inline_stages(sink: UOp, inlined: Set[UOp]) -> UOp:
    """Rebuilds the graph with the chosen STAGEs replaced by their values."""

    def make(node: UOp, sources: Sources) -> UOp:
        if node.op is Ops.INDEX and node.src[0] in inlined:
            return _value_at(sources[0], sources[1:])
        return with_sources(node, sources)

    return simplify(own_elements(transform(sink, make)))


def own_elements(sink: UOp) -> UOp:
    """Before: INDEX(STAGE(v, i, j), i, j).   After: v.

    Because: a STAGE is read under its very own loops only by another output of the kernel that computes it.
    """

    def make(node: UOp, sources: Sources) -> UOp:
        if node.op is Ops.INDEX and _is_own_element(sources):
            return sources[0].src[0]
        return with_sources(node, sources)

    return transform(sink, make)


def _is_own_element(sources: tuple[UOp, ...]) -> bool:
    stage = sources[0]
    return stage.op is Ops.STAGE and stage.src[1:] == sources[1:] and len(sources) > 1


def _value_at(stage: UOp, indices: tuple[UOp, ...]) -> UOp:
    """The value of a STAGE at indices.  Where a gate is false its loads read nothing."""
    gate: UOp | None = None
    plain: list[UOp] = []
    for index in indices:
        inner, own = ungated(index)
        plain.append(inner)
        gate = both(gate, own)
    mapping = dict(zip(stage.src[1:], plain, strict=True))
    value = substitute_ranges(stage.src[0], mapping)
    return value if gate is None else _gate_loads(value, gate)


def _gate_loads(value: UOp, gate: UOp) -> UOp:
    """`value` with a gate on each of its loads."""

    def make(node: UOp, sources: Sources) -> UOp:
        if node.op is not Ops.INDEX:
            return with_sources(node, sources)
        indices = []
        for index in sources[1:]:
            inner, own = ungated(index)
            indices.append(gated(inner, both(gate, own)))
        return sources[0].index(*indices)

    return transform(value, make, leaf=lambda node: node.op is Ops.STAGE)
