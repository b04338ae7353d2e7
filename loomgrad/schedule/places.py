"""Where each value is computed: the first half of rangeify.

Walks from the outputs to the inputs.  An output gets a fresh RANGE for each axis; every consumer then demands its
sources under index expressions, which movement operations transform.  A computed node whose consumers all demand
the same indices, and for which the loops around it stand for one element each, is computed in place.  Otherwise, or
where a reduction stands inside of another, it gets ranges of its own: it will be a STAGE, and the fuse pass decides
whether it is stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from loomgrad.ir.args import AxisType, ReduceArg
from loomgrad.ir.estimate import WEIGHT
from loomgrad.ir.movement import ZERO, Indices, both, source_indices
from loomgrad.ir.opcode import GroupOp, Ops
from loomgrad.ir.shape import Shape, extent_of, size_of
from loomgrad.ir.uop import UOp

Ranges = tuple[UOp, ...]
LONGEST_CHAIN = 400.0  # of operations in one kernel, in additions; longer chains are cut


@dataclass(frozen=True, slots=True)
class Demand:
    """What a consumer wants: the element at `indices`, where `gate` holds, inside of the loops `scope`.

    `work` is that of the longest chain of operations from here to where the consumer's value is stored.
    """

    indices: Indices
    gate: UOp | None
    scope: Ranges
    work: float = 0.0


@dataclass(slots=True)
class Place:
    """Where a node is computed: its element at `indices`, inside of `scope`; `ranges` are its own if staged.

    `forced`: the value must be stored, since a kernel without an end would be compiled without an end.
    """

    indices: Indices
    gate: UOp | None
    scope: Ranges
    ranges: Ranges | None = None
    work: float = 0.0
    forced: bool = False


@dataclass(slots=True)
class Places:
    """The result: a place per computed node, and the demand each consumer made of each source."""

    place: dict[UOp, Place] = field(default_factory=dict)
    demand: dict[tuple[UOp, int], Demand] = field(default_factory=dict)
    reduced: dict[UOp, Ranges] = field(default_factory=dict)
    opaque: set[UOp] = field(default_factory=set)
    ranges_made: int = 0

    def fresh(self, sizes: Iterable[int], kind: AxisType = AxisType.WEAK) -> Indices:
        """A new RANGE for each size, 0 for size 1."""
        made: list[UOp] = []
        for size in sizes:
            if size == 1:
                made.append(ZERO)
                continue
            made.append(UOp.range(size, self.ranges_made, kind))
            self.ranges_made += 1
        return tuple(made)


def loops_of(indices: Indices) -> Ranges:
    """The RANGEs among fresh indices."""
    return tuple(index for index in indices if index.op is Ops.RANGE)


def is_moved(node: UOp, places: Places) -> bool:
    """Whether demands pass through a node to its source."""
    return node.op in GroupOp.Movement and node not in places.opaque


def find_places(sink: UOp, groups: list[list[UOp]]) -> Places:
    """Places for all nodes below `sink`; the outputs of one group share their ranges."""
    places = Places()
    waiting: dict[UOp, list[Demand]] = {}
    for group in groups:
        indices = places.fresh(group[0].shape)
        for root in group:
            waiting[root] = [Demand(indices, None, loops_of(indices))]
    roots = set(waiting)
    for node in reversed(sink.toposort()):
        demands = waiting.pop(node, [])
        if not demands and node not in places.opaque:
            continue
        for source, demand in _demands_of_sources(node, demands, node in roots, places):
            waiting.setdefault(source, []).append(demand)
    return places


def _demands_of_sources(
    node: UOp, demands: list[Demand], is_root: bool, places: Places
) -> list[tuple[UOp, Demand]]:
    """Decides the place of `node` and passes its wishes on."""
    if is_moved(node, places) and not is_root:
        return [(node.src[0], _moved(node, demand)) for demand in demands]
    if node.is_const() and not is_root:
        return []
    if node.op in GroupOp.Storage and node not in places.opaque:
        return []
    place = places.place[node] = _place(node, demands, is_root, places)
    if node.op in GroupOp.Storage:
        return []
    wishes: list[tuple[UOp, Demand]] = []
    for position, (source, demand) in enumerate(_wishes(node, place, places)):
        if demand is None:
            places.opaque.add(source)
            continue
        places.demand[node, position] = demand
        wishes.append((source, demand))
    return wishes


def _moved(node: UOp, demand: Demand) -> Demand:
    indices, gate = source_indices(node, demand.indices)
    return Demand(indices, both(demand.gate, gate), demand.scope, demand.work)


def _place(node: UOp, demands: list[Demand], is_root: bool, places: Places) -> Place:
    if is_root:
        first = demands[0]
        return Place(first.indices, None, first.scope, loops_of(first.indices))
    work = max((d.work for d in demands), default=0.0) + WEIGHT.get(node.op, 1.0)
    too_long = work > LONGEST_CHAIN
    if node not in places.opaque and node.op is not Ops.CONTIGUOUS and not too_long:
        first = demands[0]
        agree = all(d.indices == first.indices and d.gate is first.gate for d in demands)
        scope = min((d.scope for d in demands), key=len)
        used = frozenset[UOp]().union(*(index.ranges for index in first.indices))
        nested = node.op is Ops.REDUCE and any(r.arg.kind is AxisType.REDUCE for r in scope)
        once = size_of(node.shape) >= size_of(extent_of(loop) for loop in scope)
        if agree and used.issuperset(scope) and once and not nested:
            return Place(first.indices, first.gate, scope, None, work)
    indices = places.fresh(node.shape)
    return Place(indices, None, loops_of(indices), loops_of(indices), forced=too_long)


def _wishes(node: UOp, place: Place, places: Places) -> list[tuple[UOp, Demand | None]]:
    """What a node at its place demands of each source; None: the source as a whole, by data index."""
    if node.op in GroupOp.Movement:
        return [
            (node.src[0], _moved(node, Demand(place.indices, place.gate, place.scope, place.work)))
        ]
    if node.op is Ops.REDUCE:
        assert isinstance(node.arg, ReduceArg)
        inner = places.fresh(node.src[0].shape[: node.arg.count], AxisType.REDUCE)
        places.reduced[node] = loops_of(inner)
        scope = place.scope + loops_of(inner)
        return [(node.src[0], Demand(inner + place.indices, place.gate, scope, place.work))]
    if node.op is Ops.INDEX:
        return _gather_wishes(node, place)
    return [
        (source, Demand(_aligned(place.indices, source.shape), place.gate, place.scope, place.work))
        for source in node.src
    ]


def _aligned(indices: Indices, shape: Shape) -> Indices:
    """The indices of a right-aligned operand; 0 on the axes along which it is repeated."""
    own = indices[len(indices) - len(shape) :]
    return tuple(ZERO if size == 1 else index for index, size in zip(own, shape, strict=True))


def _gather_wishes(node: UOp, place: Place) -> list[tuple[UOp, Demand | None]]:
    wishes: list[tuple[UOp, Demand | None]] = [(node.src[0], None)]
    start = 0
    for index in node.src[1:]:
        own = place.indices[start : start + len(index.shape)]
        start += len(index.shape)
        wishes.append((index, Demand(own, place.gate, place.scope, place.work)))
    return wishes
