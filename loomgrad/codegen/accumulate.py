"""Accumulate: reductions over loops become registers, and reads of storage become loads.

Before:  REDUCE(v, k; ADD)
After:   acc = BUFFER(REG);  s0 = STORE(acc, 0) after the loops around;
         s1 = END(STORE(acc, ADD(LOAD(AFTER(acc, s0, k)), v)), k);  LOAD(AFTER(acc, s1))

A multiplication under a float sum is contracted into MULACC, which rounds once (the only place where that happens).
"""

from __future__ import annotations

import itertools

from loomgrad.codegen.expand import lanes_of_shape
from loomgrad.ir.args import AddrSpace, ParamArg, ReduceArg
from loomgrad.ir.movement import ungated
from loomgrad.ir.opcode import GroupOp, Op, Ops
from loomgrad.ir.ops import identity_element
from loomgrad.ir.shape import broadcast, size_of
from loomgrad.ir.transform import Sources, transform, with_sources
from loomgrad.ir.uop import UOp
from loomgrad.target import Target

_LOGICAL = {Ops.ADD: Ops.OR, Ops.MUL: Ops.AND, Ops.MAX: Ops.OR}


def accumulate(kernel: UOp, target: Target) -> UOp:
    """The kernel with accumulators, loads and gates."""
    targets = {node.src[0] for node in kernel.toposort() if node.op is Ops.STORE}
    numbers = itertools.count()

    def make(node: UOp, sources: Sources) -> UOp:
        new = with_sources(node, sources)
        if node.op is Ops.REDUCE and len(node.src) > 1:
            return _accumulator(new, next(numbers))
        if node.op is Ops.STORE:
            return _store(new)
        is_load = node.op is Ops.INDEX and node.src[0].op in GroupOp.Storage and node not in targets
        return _load(new) if is_load else new

    return transform(kernel, make)


def combine(op: Op, first: UOp, second: UOp) -> UOp:
    """`op` of an accumulator and a value."""
    if first.dtype.is_bool:
        return first.alu(_LOGICAL[op], second)
    if op is Ops.ADD and second.op is Ops.MUL and first.dtype.is_float:
        return second.src[0].alu(Ops.MULACC, second.src[1], first)
    return first.alu(op, second)


def _accumulator(reduce: UOp, number: int) -> UOp:
    value, loops = reduce.src[0], reduce.src[1:]
    order = value.axes if value.op is Ops.PERMUTE else None
    if order is not None:  # lanes are put in the order of folding after the loop, not in it
        value = value.src[0]
    shape = value.shape
    register = UOp(
        Ops.BUFFER,
        (),
        ParamArg(number, value.dtype, size_of(shape), addrspace=AddrSpace.REG, shape=shape),
    )
    around = sorted(reduce.ranges, key=lambda loop: loop.arg.axis)
    identity = value.const_like(identity_element(reduce.arg.op, value.dtype))
    start = register.after(*around).store(identity)
    before = UOp(Ops.LOAD, (register.after(start, *loops),))
    update = register.store(combine(reduce.arg.op, before, value)).end(*loops)
    result = UOp(Ops.LOAD, (register.after(update),))
    if order is not None:
        result = result.permute(order)
    if reduce.arg.count == 0:
        return result
    return UOp(Ops.REDUCE, (result,), ReduceArg(reduce.arg.op, reduce.arg.count))


def _load(index: UOp) -> UOp:
    position, gate = ungated(index.src[1])
    if gate is None:
        return index.src[0].index(position).load()
    plain = index.src[0].index(_as_wide(position, gate))
    return plain.load(plain.const_like(False if index.dtype.is_bool else 0), gate)


def _store(store: UOp) -> UOp:
    target, value = store.src
    if target.op is not Ops.INDEX:
        return store
    position, gate = ungated(target.src[1])
    if gate is None:
        return target.src[0].index(position).store(value)
    return target.src[0].index(_as_wide(position, gate)).store(value, gate)


def _as_wide(position: UOp, gate: UOp) -> UOp:
    """The position with at least the lanes of its gate."""
    shape = broadcast((position.shape, gate.shape))
    assert shape is not None
    return lanes_of_shape(position, shape)
