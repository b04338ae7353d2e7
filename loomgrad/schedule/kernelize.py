"""Kernelize: each STAGE that is left becomes a buffer and a kernel that fills it.

Needs: a ranged graph whose STAGEs are all to be stored.  Guarantees: SINK(LINEAR(CALL(SINK(...), buffers...)...),
outputs...) in an order in which every kernel follows those it reads from.  In a kernel buffers are PARAMs numbered by
first use with outputs first, and ranges are numbered from 0, so that equal kernels are one node.

Before:  SINK(STAGE(v, i, j))
After:   SINK(LINEAR(CALL(SINK(END(STORE(INDEX(P0, i*N+j), v), i, j)), y, x...)), y)
"""

from __future__ import annotations

import itertools

from loomgrad.dtype import DType, commit_dtype, dtypes
from loomgrad.ir.args import AxisType, KernelInfo, ParamArg
from loomgrad.ir.movement import both, flatten, gated, ungated
from loomgrad.ir.opcode import GroupOp, Ops
from loomgrad.ir.shape import extent_of, size_of
from loomgrad.ir.simplify import simplify
from loomgrad.ir.substitute import substitute, substitute_ranges
from loomgrad.ir.transform import Sources, transform, with_sources
from loomgrad.ir.uop import UOp
from loomgrad.target import Target


def kernelize(sink: UOp, target: Target) -> UOp:
    """SINK(LINEAR of the kernels in order, BUFFER of each value that the sink asked for...).

    The tag of a BUFFER is the node of the tensor graph whose value it holds.
    """
    stages = [node for node in sink.toposort() if node.op is Ops.STAGE]
    buffers = {stage: _buffer_of(stage, slot) for slot, stage in enumerate(stages)}
    groups: dict[tuple[UOp, ...], list[UOp]] = {}
    for stage in stages:
        own = stage.src[1:]
        groups.setdefault(own if own else (stage,), []).append(stage)
    calls = tuple(_call(group, buffers) for group in _in_order(list(groups.values())))
    return UOp.sink(UOp(Ops.LINEAR, calls), *(buffers[stage] for stage in sink.src))


def _buffer_of(stage: UOp, slot: int) -> UOp:
    size = size_of(extent_of(loop) for loop in stage.src[1:])
    arg = ParamArg(slot, _stored_dtype(stage), size, stage.arg.device)
    return UOp(Ops.BUFFER, (), arg, stage.tag)


def _stored_dtype(stage: UOp) -> DType:
    """Mathematical integers are stored as int64, so that none is lost; a weak float as any other."""
    return dtypes.int64 if stage.dtype is dtypes.weakint else commit_dtype(stage.dtype)


def _reads(stage: UOp) -> set[UOp]:
    """The STAGEs that the value of one reads directly."""
    below = stage.src[0].toposort(gate=lambda node: node.op is not Ops.STAGE)
    return {node for node in below if node.op is Ops.STAGE}


def _in_order(groups: list[list[UOp]]) -> list[list[UOp]]:
    """Groups after the groups they read from.  The output groups were chosen so that there is such an order."""
    group_of = {stage: number for number, group in enumerate(groups) for stage in group}
    needs = [
        {group_of[read] for stage in group for read in _reads(stage)} - {number}
        for number, group in enumerate(groups)
    ]
    ordered: list[list[UOp]] = []
    placed: set[int] = set()
    while len(ordered) < len(groups):
        ready = [n for n in range(len(groups)) if n not in placed and needs[n] <= placed]
        assert ready, "kernels wait for each other"
        for number in ready:
            placed.add(number)
            ordered.append(groups[number])
    return ordered


def _call(group: list[UOp], buffers: dict[UOp, UOp]) -> UOp:
    loops = group[0].src[1:]
    shape = tuple(extent_of(loop) for loop in loops)
    position = flatten(loops, shape)
    stores = []
    for stage in group:
        value = _stored_reads(stage.src[0], buffers).cast(buffers[stage].dtype)
        stores.append(buffers[stage].index(position).store(value))
    effect = UOp.group(*stores).end(*loops)
    return make_call(simplify(effect))


def _stored_reads(value: UOp, buffers: dict[UOp, UOp]) -> UOp:
    """The value with elements of STAGEs read from their buffers."""

    def make(node: UOp, sources: Sources) -> UOp:
        if node.op is Ops.INDEX and node.src[0].op is Ops.STAGE:
            return _stored_read(node.src[0], sources[1:], buffers)
        return with_sources(node, sources)

    return transform(value, make, leaf=lambda node: node.op is Ops.STAGE)


def _stored_read(stage: UOp, indices: tuple[UOp, ...], buffers: dict[UOp, UOp]) -> UOp:
    gate: UOp | None = None
    plain: list[UOp] = []
    for index in indices:
        inner, own = ungated(index)
        plain.append(inner)
        gate = both(gate, own)
    shape = tuple(extent_of(loop) for loop in stage.src[1:])
    return buffers[stage].index(gated(flatten(tuple(plain), shape), gate)).cast(stage.dtype)


def make_call(effect: UOp) -> UOp:
    """The CALL of a kernel, in the form in which equal kernels are one node."""
    effect = simplify(_renumbered(_own_reductions(effect)))
    storages = list(dict.fromkeys(_storages(effect)))
    mapping = {
        storage: UOp(
            Ops.PARAM,
            (),
            ParamArg(slot, storage.dtype, storage.arg.size, storage.arg.device),
        )
        for slot, storage in enumerate(storages)
    }
    body = UOp.sink(simplify(substitute(effect, mapping)), info=KernelInfo())
    return body.call(*storages)


def _storages(effect: UOp) -> list[UOp]:
    """Storage in the order of first use, outputs first."""
    order = effect.toposort()
    outputs = [node.src[0].src[0] for node in order if node.op is Ops.STORE]
    return outputs + [node for node in order if node.op in GroupOp.Storage]


def _own_reductions(effect: UOp) -> UOp:
    """Gives each REDUCE ranges of its own: two reductions are two loops."""
    numbers = itertools.count(
        1 + max((n.arg.axis[0] for n in effect.toposort() if n.op is Ops.RANGE), default=0)
    )
    taken: set[UOp] = set()

    def make(node: UOp, sources: Sources) -> UOp:
        new = with_sources(node, sources)
        if node.op is not Ops.REDUCE:
            return new
        fresh = {
            loop: UOp.range(extent_of(loop), next(numbers), AxisType.REDUCE)
            for loop in new.src[1:]
            if loop in taken
        }
        if fresh:
            loops = (fresh.get(loop, loop) for loop in new.src[1:])
            new = new.replace(src=(substitute_ranges(new.src[0], fresh), *loops))
        taken.update(new.src[1:])
        return new

    return transform(effect, make)


def _renumbered(effect: UOp) -> UOp:
    """Ranges numbered from 0: the output's in order, then the others by first use."""
    loops = [*effect.src[1:]] if effect.op is Ops.END else []
    loops += [node for node in effect.toposort() if node.op is Ops.RANGE]
    mapping = {
        loop: UOp.range(extent_of(loop), number, loop.arg.kind)
        for number, loop in enumerate(dict.fromkeys(loops))
    }
    return substitute(effect, mapping)
