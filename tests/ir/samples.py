"""One well-formed node of every operation."""

from __future__ import annotations

from loomgrad.dtype import DType, dtypes
from loomgrad.ir.args import KernelInfo
from loomgrad.ir.opcode import GroupOp, Op, Ops
from loomgrad.ir.ops import ROWS
from loomgrad.ir.uop import UOp
from tests.ir.graphs import buffer, loop, param, reduction, tensor

_DTYPES: dict[Op, DType] = {
    **dict.fromkeys((*GroupOp.Division, Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR), dtypes.int32),
    Ops.THREEFRY: dtypes.uint64,
}


def elementwise(op: Op, slot: int = 0) -> UOp:
    """An elementwise operation on tensors of its own."""
    dtype = _DTYPES.get(op, dtypes.float32)
    sources = [tensor(slot + i, (2, 3), dtype) for i in range(len(ROWS[op].sources.split()))]
    if op is Ops.WHERE:
        sources[0] = sources[0] < 0
    arg = dtypes.int32 if op in (Ops.CAST, Ops.BITCAST) else None
    return UOp(op, tuple(sources), arg)


def samples(slot: int = 0) -> dict[Op, UOp]:
    """A node of every operation.  Storage is numbered from `slot` on, so that samples can be kept apart."""
    x = tensor(slot, (2, 3))
    i, k = loop(6, slot), reduction(6, slot + 1)
    index = param(slot, 6).index(i)
    store = param(slot + 1, 6).index(i).store(index)
    sink = UOp.sink(store.end(i), info=KernelInfo(f"sample_{slot}"))
    made = {
        Ops.CONST: UOp.const(slot + 0.5),
        Ops.BUFFER: buffer(slot, 6),
        Ops.PARAM: param(slot, 6),
        Ops.STACK: UOp.stack([x, x + 1]),
        Ops.RANGE: i,
        Ops.RESHAPE: x.reshape(6),
        Ops.PERMUTE: x.permute(1, 0),
        Ops.FLIP: x.flip(0),
        Ops.PAD: x.pad(((1, 1), None)),
        Ops.SHRINK: x.shrink(((0, 1), None)),
        Ops.EXPAND: x.expand(4, 2, 3),
        Ops.REDUCE: index.exp().fold_ranges(Ops.ADD, i),
        Ops.INDEX: index,
        Ops.LOAD: index.load(),
        Ops.STORE: store,
        Ops.AFTER: param(slot + 1, 6).after(store.end(i)),
        Ops.END: store.end(i),
        Ops.GROUP: UOp.group(store, store.end(i)),
        Ops.SINK: sink,
        Ops.STAGE: param(slot, 6).index(k).stage("CPU", k),
        Ops.CONTIGUOUS: UOp(Ops.CONTIGUOUS, (x,)),
        Ops.DETACH: UOp(Ops.DETACH, (x,)),
        Ops.NOOP: UOp(Ops.NOOP, (x,), None, slot),
        Ops.CALL: sink.call(buffer(slot, 6), buffer(slot + 1, 6)),
        Ops.LINEAR: UOp(Ops.LINEAR, (index, store)),
    }
    made.update((op, elementwise(op, slot)) for op in sorted(GroupOp.Elementwise))
    return made


def facts_of(node: UOp) -> tuple[object, ...]:
    """Every derived property, so that it is cached."""
    facts = (node.dtype, node.shape_or_none, node.bounds, node.key, node.device, repr(node))
    return (*facts, len(node.ranges), len(node.toposort()))
