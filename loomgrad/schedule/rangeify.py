"""Rangeify: movement operations become index arithmetic on RANGEs.

Needs: a tensor graph whose sink lists the values to store.  Guarantees: a ranged graph,
SINK(STAGE(value, ranges; not removable)...), without movement operations.

A STAGE's tag is the node whose value it is, so that what gets stored can be used again.

Before:  SINK(ADD(REDUCE(PERMUTE(x)), b))
After:   SINK(STAGE(ADD(REDUCE(INDEX(x, i*K+k), k), INDEX(b, i)), i))
"""

from __future__ import annotations

from loomgrad.dtype import dtypes
from loomgrad.ir.args import Invalid, StageArg
from loomgrad.ir.movement import Indices, both, flatten, gated, source_indices
from loomgrad.ir.opcode import GroupOp, Ops
from loomgrad.ir.simplify import simplify
from loomgrad.ir.uop import UOp
from loomgrad.schedule.output_groups import output_groups
from loomgrad.schedule.places import Demand, Places, find_places, is_moved
from loomgrad.target import Target


def rangeify(sink: UOp, target: Target) -> UOp:
    """The ranged graph of a tensor graph."""
    places = find_places(sink, output_groups(sink))
    roots = set(sink.src)
    values: dict[UOp, UOp] = {}
    stages: dict[UOp, UOp] = {}
    for node in sink.toposort():
        place = places.place.get(node)
        if place is None:
            continue
        builder = _Builder(places, values, stages)
        value = values[node] = builder.value_of(node)
        if place.ranges is not None:
            removable = not (node in roots or node.op is Ops.CONTIGUOUS or place.forced)
            arg = StageArg(sink.tag, removable, place.forced)
            stages[node] = UOp(Ops.STAGE, (value, *place.ranges), arg, tag=node)
    return simplify(UOp.sink(*(stages[root] for root in sink.src)))


class _Builder:
    """Builds the value of one node at its place from those of its sources."""

    def __init__(self, places: Places, values: dict[UOp, UOp], stages: dict[UOp, UOp]) -> None:
        self.places, self.values, self.stages = places, values, stages

    def value_of(self, node: UOp) -> UOp:
        """The element of `node` at its place."""
        place = self.places.place[node]
        if node.op in GroupOp.Storage:
            return node.index(gated(flatten(place.indices, node.shape), place.gate))
        if node.op is Ops.INDEX:
            return self._gather(node)
        sources = [self._source(node, i) for i in range(len(node.src))][: _operands(node)]
        if node.op in GroupOp.Movement:
            return sources[0]
        if node.op is Ops.CONTIGUOUS:
            return sources[0]
        if node.op is Ops.REDUCE:
            ranges = self.places.reduced[node]
            return sources[0].fold_ranges(node.arg.op, *ranges)
        return UOp(node.op, tuple(sources), node.arg)

    def _source(self, node: UOp, position: int) -> UOp:
        demand = self.places.demand.get((node, position))
        source = node.src[position]
        if demand is None:
            return source
        if node.op in GroupOp.Movement:
            place = self.places.place[node]
            outer = Demand(place.indices, place.gate, place.scope)
            return self._moved_value(node, outer)
        return self._element(source, demand)

    def _element(self, source: UOp, demand: Demand) -> UOp:
        """The element of any node that a demand asks for."""
        if source.is_const():
            return source
        place = self.places.place.get(source)
        if place is None:
            if is_moved(source, self.places):
                return self._moved_value(source, demand)
            return source.index(gated(flatten(demand.indices, source.shape), demand.gate))
        same = place.indices == demand.indices and place.gate is demand.gate
        same = same and (place.ranges is None or place.scope == demand.scope)
        if same and source in self.values:
            return self.values[source]
        return self._staged(source, demand.indices, demand.gate)

    def _moved_value(self, node: UOp, demand: Demand) -> UOp:
        """Through a movement node; outside of a PAD's source the value is 0."""
        indices, gate = source_indices(node, demand.indices)
        inner = Demand(indices, both(demand.gate, gate), demand.scope)
        value = self._element(node.src[0], inner)
        if gate is None or value.arg is Invalid:
            return value
        return UOp(Ops.WHERE, (gate, value, UOp.const(_zero(value))))

    def _staged(self, source: UOp, indices: Indices, gate: UOp | None) -> UOp:
        """An element of a STAGE; axes of size 1 have no range there."""
        own = self.places.place[source].indices
        used = [i for i, mine in zip(indices, own, strict=True) if mine.op is Ops.RANGE]
        if not used:
            return self.stages[source].index()
        return self.stages[source].index(*(gated(index, gate) for index in used))

    def _gather(self, node: UOp) -> UOp:
        """Elements by data indices, 0 outside of the indexed axes."""
        table, place = node.src[0], self.places.place[node]
        found: list[UOp] = []
        inside: UOp | None = None
        for position, size in enumerate(table.shape[: len(node.src) - 1], start=1):
            index = self._source(node, position).cast(dtypes.weakint)
            check = ~(index < 0) & (index < size)
            inside = both(inside, check)
            found.append(index)
        rest = (
            place.indices[len(place.indices) - (len(table.shape) - len(found)) :]
            if len(table.shape) > len(found)
            else ()
        )
        assert inside is not None
        value = self._staged(table, (*found, *rest), both(place.gate, inside))
        return UOp(Ops.WHERE, (simplify(inside), value, UOp.const(_zero(value))))


def _operands(node: UOp) -> int:
    """How many sources of a node are values; the others say sizes."""
    return 1 if node.op in GroupOp.Movement else len(node.src)


def _zero(value: UOp) -> int | bool:
    return False if value.dtype.is_bool else 0
