"""Inlining STAGEs: their values computed where they are used.

A value is rebuilt once per place where it is used, however deep the STAGEs inside of it are nested: what its loops
stand for is carried along instead of being substituted level by level.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from loomgrad.ir.movement import both, gated, ungated
from loomgrad.ir.opcode import Ops
from loomgrad.ir.simplify import simplify
from loomgrad.ir.transform import Sources, transform, with_sources
from loomgrad.ir.uop import UOp


@dataclass(frozen=True, eq=False, slots=True)
class _Place:
    """Where the value of a STAGE is used: what its loops are there, and where it is used at all."""

    loops: dict[UOp, UOp]
    gate: UOp | None


_OUTSIDE = _Place({}, None)


def inline_stages(sink: UOp, inlined: Set[UOp]) -> UOp:
    """Rebuilds the graph with the chosen STAGEs replaced by their values."""
    return simplify(own_elements(_Inliner(inlined).rebuilt(sink)))


class _Inliner:
    """Rebuilds nodes at places, on an explicit stack."""

    def __init__(self, inlined: Set[UOp]) -> None:
        self.inlined = inlined
        self.made: dict[tuple[UOp, _Place], UOp] = {}
        self.places: dict[tuple[object, ...], _Place] = {}

    def rebuilt(self, root: UOp) -> UOp:
        """`root` without the inlined STAGEs."""
        stack = [(root, _OUTSIDE)]
        while stack:
            task = stack[-1]
            if task in self.made:
                stack.pop()
                continue
            node, place = task
            missing = [part for part in self._needed(node, place) if part not in self.made]
            if missing:
                stack.extend(reversed(missing))
                continue
            stack.pop()
            self.made[task] = self._make(node, place)
        return self.made[root, _OUTSIDE]

    def _needed(self, node: UOp, place: _Place) -> list[tuple[UOp, _Place]]:
        """What must be rebuilt before a node."""
        if node in place.loops:
            return []
        if node.op is not Ops.INDEX or node.src[0] not in self.inlined:
            return [(source, _at(source, place)) for source in node.src]
        indices = [(source, _at(source, place)) for source in node.src[1:]]
        if any(part not in self.made for part in indices):
            return indices
        body = node.src[0].src[0]
        return [(body, _at(body, self._inside(node, place)))]

    def _make(self, node: UOp, place: _Place) -> UOp:
        if node in place.loops:
            return place.loops[node]
        if node.op is Ops.INDEX and node.src[0] in self.inlined:
            body = node.src[0].src[0]
            return self.made[body, _at(body, self._inside(node, place))]
        sources = tuple(self.made[source, _at(source, place)] for source in node.src)
        if node.op is not Ops.INDEX or place.gate is None:
            return with_sources(node, sources)
        indices = []
        for index in sources[1:]:
            inner, own = ungated(index)
            indices.append(gated(inner, both(place.gate, own)))
        return sources[0].index(*indices)

    def _inside(self, index: UOp, place: _Place) -> _Place:
        """The place of a STAGE's value that `index` reads.  Where a gate is false its loads read nothing."""
        stage = index.src[0]
        gate = place.gate
        plain: list[UOp] = []
        for source in index.src[1:]:
            inner, own = ungated(self.made[source, _at(source, place)])
            plain.append(inner)
            gate = both(gate, own)
        key = (stage, *plain, gate)
        if key not in self.places:
            self.places[key] = _Place(dict(zip(stage.src[1:], plain, strict=True)), gate)
        return self.places[key]


def _at(node: UOp, place: _Place) -> _Place:
    """The place that matters to a node: one whose loops it does not use is like any other."""
    return _OUTSIDE if place.loops.keys().isdisjoint(node.ranges) else place


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
