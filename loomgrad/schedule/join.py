"""Join: a stored value that reads another one element by element becomes a second output of that one's kernel.

An activation is written by the matrix product it belongs to, the logarithm of a sum by the kernel of the sum.  Only
where the loops are the same, nothing else needs to run in between, and no register tile has to hold two products.

Needs: a ranged graph whose STAGEs are all to be stored.  Guarantees: the same values; joined STAGEs share their loops.

Before:  a = STAGE(v, i, j);  b = STAGE(MAX(INDEX(a, m, n), 0), m, n)
After:   a = STAGE(v, i, j);  b = STAGE(MAX(v, 0), i, j)
"""

from __future__ import annotations

from loomgrad.ir.opcode import Ops
from loomgrad.ir.shape import extent_of
from loomgrad.ir.simplify import simplify
from loomgrad.ir.substitute import substitute_ranges
from loomgrad.ir.transform import Sources, transform, with_sources
from loomgrad.ir.uop import UOp
from loomgrad.schedule.inline import own_elements
from loomgrad.target import Target

Loops = tuple[UOp, ...]


def join(sink: UOp, target: Target) -> UOp:
    """The ranged graph with outputs joined."""
    stages = [node for node in sink.toposort() if node.op is Ops.STAGE]
    reads = {stage: _reads_of(stage) for stage in stages}
    group: dict[UOp, Loops] = {stage: _loops(stage) for stage in stages}
    chosen: dict[UOp, Loops] = {}
    for stage in stages:
        for read in dict.fromkeys(index.src[0] for index in reads[stage]):
            if _fits(stage, group[read], reads, group) and _stays_acyclic(
                stage, read, reads, group
            ):
                chosen[stage] = group[stage] = group[read]
                break
    return _rebuilt(sink, chosen) if chosen else sink


def _loops(stage: UOp) -> Loops:
    """The loops that name a kernel; a STAGE without any is one by itself."""
    return stage.src[1:] if len(stage.src) > 1 else (stage,)


def _reads_of(stage: UOp) -> list[UOp]:
    """The INDEXes of other STAGEs in the value of one."""
    body = stage.src[0].toposort(gate=lambda node: node.op is not Ops.STAGE)
    return [node for node in body if node.op is Ops.INDEX and node.src[0].op is Ops.STAGE]


def _fits(stage: UOp, loops: Loops, reads: dict[UOp, list[UOp]], group: dict[UOp, Loops]) -> bool:
    """Whether a STAGE reads all that a kernel writes only element by element, under loops of the same extents."""
    own = stage.src[1:]
    inside = [index for index in reads[stage] if group[index.src[0]] == loops]
    if not own or any(index.src[1:] != own or index.src[0].arg.ends_kernel for index in inside):
        return False
    if [extent_of(loop) for loop in own] != [extent_of(loop) for loop in loops]:
        return False
    members = [member for member in reads if group[member] == loops]
    if any(i.src[0] is stage and i.src[1:] != m.src[1:] for m in members for i in reads[m]):
        return False
    return len(own) == 1 or not _reduces(stage)


def _reduces(stage: UOp) -> bool:
    body = stage.src[0].toposort(gate=lambda node: node.op is not Ops.STAGE)
    return any(node.op is Ops.REDUCE for node in body)


def _stays_acyclic(
    stage: UOp, read: UOp, reads: dict[UOp, list[UOp]], group: dict[UOp, Loops]
) -> bool:
    """Whether no kernel waits for itself once `stage` is in the kernel of `read`."""
    joined = {**group, stage: group[read]}
    needs: dict[Loops, set[Loops]] = {}
    for each, indices in reads.items():
        others = {joined[index.src[0]] for index in indices} - {joined[each]}
        needs.setdefault(joined[each], set()).update(others)
    start = joined[stage]
    seen: set[Loops] = set()
    waiting = list(needs[start])
    while waiting:
        kernel = waiting.pop()
        if kernel == start:
            return False
        if kernel not in seen:
            seen.add(kernel)
            waiting.extend(needs.get(kernel, ()))
    return True


def _rebuilt(sink: UOp, chosen: dict[UOp, Loops]) -> UOp:
    def make(node: UOp, sources: Sources) -> UOp:
        new = with_sources(node, sources)
        loops = chosen.get(node)
        if loops is None:
            return new
        value = substitute_ranges(new.src[0], dict(zip(new.src[1:], loops, strict=True)))
        return new.replace(src=(value, *loops))

    return simplify(own_elements(transform(sink, make)))
