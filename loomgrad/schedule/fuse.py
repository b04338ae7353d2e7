"""Fuse: decides for each STAGE whether it is stored (keep) or computed where it is used (inline).

A cost model, not a list of cases.  Consumers are decided before their producers, so that it is known in which loops
a value would be computed.  Keeping costs a launch, a write and reads; inlining costs the value's work once per
iteration of the loops around each use.  A value with a reduction is inlined only where its loop stands outside of
the loops that it does not depend on, and is never computed more than once per element.

Needs: a ranged graph.  Guarantees: one in which every STAGE left is to be stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from loomgrad.ir.args import AxisType
from loomgrad.ir.estimate import Estimate, estimate
from loomgrad.ir.opcode import Ops
from loomgrad.ir.shape import extent_of, size_of
from loomgrad.ir.uop import UOp
from loomgrad.schedule.inline import inline_stages
from loomgrad.target import Target

MOST_SITES = 24
MOST_RECOMPUTE = 4.0
SHARED_ELEMENTS = 1 << 14  # an output of this size is spread over the workers


@dataclass(frozen=True, slots=True)
class Site:
    """One use of a STAGE: in the kernel of `container`, inside of the loops `scope` (outermost first)."""

    container: UOp
    scope: tuple[UOp, ...]
    used: frozenset[UOp]

    @property
    def prefix(self) -> tuple[UOp, ...]:
        """The outer loops that must have begun before the value can be computed."""
        depth = max((i + 1 for i, loop in enumerate(self.scope) if loop in self.used), default=0)
        return self.scope[:depth]


def fuse(sink: UOp, target: Target) -> UOp:
    """The ranged graph with every STAGE inlined that is cheaper to compute than to store."""
    stages = [node for node in sink.toposort() if node.op is Ops.STAGE]
    sites: dict[UOp, set[Site]] = {stage: set() for stage in stages}
    inlined: set[UOp] = set()
    between = _between_outputs_of_one_kernel(stages)
    for stage in reversed(stages):
        keep = not stage.arg.removable or not (
            stage in between or _inline_is_cheaper(stage, sites[stage], target)
        )
        if not keep:
            inlined.add(stage)
        for used, site in _sites_in(stage):
            placed = {site} if keep else {_through(site, stage, outer) for outer in sites[stage]}
            sites[used] |= placed
    return inline_stages(sink, inlined)


def _between_outputs_of_one_kernel(stages: list[UOp]) -> set[UOp]:
    """STAGEs that read one output of a kernel and are read by another: stored, they would make a cycle.

    Outputs share a kernel only where each needs the others element by element, so these can always be inlined.
    """
    reads = {stage: _stages_read(stage) for stage in stages}
    below: dict[UOp, set[tuple[UOp, ...]]] = {}
    for stage in stages:
        below[stage] = set[tuple[UOp, ...]]().union(
            *(below[s] | ({s.src[1:]} if not s.arg.removable else set()) for s in reads[stage])
        )
    above: dict[UOp, set[tuple[UOp, ...]]] = {stage: set() for stage in stages}
    for stage in reversed(stages):
        own = above[stage] | ({stage.src[1:]} if not stage.arg.removable else set())
        for read in reads[stage]:
            above[read] |= own
    return {s for s in stages if s.arg.removable and below[s] & above[s] - {()}}


def _stages_read(stage: UOp) -> list[UOp]:
    return [node for node in _body(stage) if node.op is Ops.STAGE]


def _sites_in(stage: UOp) -> list[tuple[UOp, Site]]:
    """The uses of other STAGEs in the body of one, with the loops around each."""
    body = stage.src[0]
    scopes: dict[UOp, tuple[UOp, ...]] = {body: stage.src[1:]}
    found: list[tuple[UOp, Site]] = []
    for node in reversed(body.toposort(gate=lambda n: n.op is not Ops.STAGE)):
        scope = scopes.get(node)
        if scope is None or node.op is Ops.STAGE:
            continue
        if node.op is Ops.INDEX and node.src[0].op is Ops.STAGE:
            used = frozenset[UOp]().union(*(index.ranges for index in node.src[1:]))
            found.append((node.src[0], Site(stage, scope, used)))
        inner = scope + node.src[1:] if node.op is Ops.REDUCE else scope
        for source in node.src:
            known = scopes.get(source)
            if known is None or len(inner) < len(known):
                scopes[source] = inner
    return found


def _through(site: Site, stage: UOp, outer: Site) -> Site:
    """A use in the body of an inlined STAGE, seen from one of that STAGE's uses."""
    own = frozenset(stage.src[1:])
    inner = tuple(loop for loop in site.scope if loop not in own)
    used = site.used - own
    if site.used & own:
        used |= outer.used
    return Site(outer.container, outer.scope + inner, used)


def _inline_is_cheaper(stage: UOp, sites: set[Site], target: Target) -> bool:
    if not sites:
        return True
    if len(sites) > MOST_SITES:
        return False
    own = frozenset(stage.src[1:])
    elements = size_of(extent_of(loop) for loop in own)
    cost = estimate(stage.src[0])
    each = cost.work / max(elements, 1)
    heavy = any(node.op is Ops.REDUCE for node in _body(stage))
    if heavy and not all(_stands_outside(site) for site in sites):
        return False
    evaluations = {(site.container, site.prefix) for site in sites}
    counts = [_evaluations(container, prefix, target) for container, prefix in evaluations]
    limit = 1.0 if heavy else MOST_RECOMPUTE if each > 8 else float("inf")
    if sum(counts) > limit * elements:
        return False
    times = zip(counts, evaluations, strict=True)
    inline = sum(_compute_time(count * each, prefix, heavy, target) for count, (_, prefix) in times)
    containers = len({site.container for site in sites})
    size = elements * stage.dtype.itemsize
    inline += containers * cost.moved / target.memory_bandwidth
    return inline < _keep_time(stage, cost, size, containers, target)


def _evaluations(container: UOp, prefix: tuple[UOp, ...], target: Target) -> int:
    """How often a value inside of `prefix` is computed; outside of all loops, once by each worker."""
    if not prefix:
        whole = size_of(extent_of(loop) for loop in container.src[1:])
        return target.cores if whole >= SHARED_ELEMENTS else 1
    return size_of(extent_of(loop) for loop in prefix)


def _keep_time(stage: UOp, cost: Estimate, size: int, containers: int, target: Target) -> float:
    compute = _compute_time(cost.work, stage.src[1:], False, target)
    traffic = cost.moved + size + containers * size
    return compute + traffic / target.memory_bandwidth + target.launch_overhead


def _compute_time(work: float, loops: tuple[UOp, ...], heavy: bool, target: Target) -> float:
    """Seconds of vector work under the given outer loops, on all cores if these give enough to share.

    A reduction inside of another reduction's loop cannot use a register tile.
    """
    parallel = size_of(extent_of(loop) for loop in loops if loop.arg.kind is not AxisType.REDUCE)
    cores = target.cores if parallel >= target.cores else 1
    inside = heavy and any(loop.arg.kind is AxisType.REDUCE for loop in loops)
    return work / (target.core_flops * 0.25 * cores) * (8.0 if inside else 1.0)


def _stands_outside(site: Site) -> bool:
    """Whether a reduction used at a site runs in a block of its own, outside of loops it does not need."""
    return frozenset(site.prefix) == site.used


def _body(stage: UOp) -> list[UOp]:
    return stage.src[0].toposort(gate=lambda node: node.op is not Ops.STAGE)
