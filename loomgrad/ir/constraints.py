"""Constraints of single operations that no table column can say.  A fault is a sentence, None means none."""

from __future__ import annotations

from collections.abc import Callable

from loomgrad.ir.args import AddrSpace, AxisType, Invalid
from loomgrad.ir.opcode import GroupOp, Op, Ops, OpSet
from loomgrad.ir.ops import Level
from loomgrad.ir.shape import broadcast
from loomgrad.ir.uop import UOp

Constraint = Callable[[UOp, Level], str | None]

EFFECTS = OpSet(Ops.STORE, Ops.END, Ops.GROUP, Ops.CALL, Ops.SINK)
FOLDS = OpSet(Ops.ADD, Ops.MUL, Ops.MAX)
_INSIDE = Level.KERNEL | Level.LANES | Level.PROGRAM
_LATE = Level.LANES | Level.PROGRAM


def storage_below(node: UOp) -> UOp | None:
    """The storage behind AFTERs, or None where there is none."""
    while node.op is Ops.AFTER:
        node = node.src[0]
    return node if node.op in GroupOp.Storage else None


def is_register(node: UOp) -> bool:
    """Whether a node is storage in registers or scratch, which is read and written as a whole."""
    storage = storage_below(node)
    return storage is not None and storage.arg.addrspace in (AddrSpace.REG, AddrSpace.LOCAL)


def _buffer(node: UOp, level: Level) -> str | None:
    """In a kernel, memory is a PARAM.  Below its CALL a BUFFER is an argument."""
    if level in _LATE and node.arg.addrspace is AddrSpace.GLOBAL:
        return "a kernel names a BUFFER of memory; it should be a PARAM"
    return None


def _range(node: UOp, level: Level) -> str | None:
    extent = node.src[0]
    if not extent.is_const() or not extent.dtype.is_int or extent.val < 0:
        return "the extent of a RANGE is not a constant count"
    kind = node.arg.kind
    if level in _LATE and kind in (AxisType.UPCAST, AxisType.UNROLL):
        return f"a loop of kind {kind.name} is left beside lanes"
    if level is Level.PROGRAM and kind is AxisType.WEAK:
        return "a loop is still WEAK in a program"
    if level is Level.RANGED and kind in (AxisType.UPCAST, AxisType.UNROLL, AxisType.THREAD):
        return f"a loop is {kind.name} before there are kernels"
    return None


def _closes_loops(node: UOp, level: Level) -> str | None:
    loops = node.src[1:]
    if any(loop.op is not Ops.RANGE for loop in loops):
        return f"{node.op.name} closes something that is not a RANGE"
    if len(set(loops)) < len(loops):
        return f"{node.op.name} closes a RANGE twice"
    return None


def _end(node: UOp, level: Level) -> str | None:
    if node.src[0].op not in EFFECTS:
        return f"END of {node.src[0].op.name}, which has no effect"
    if any(loop not in node.src[0].ranges for loop in node.src[1:]):
        return "END closes a RANGE that is not open"
    return _closes_loops(node, level)


def _reduce(node: UOp, level: Level) -> str | None:
    if node.arg.op not in FOLDS:
        return f"REDUCE by {node.arg.op.name}, which does not associate"
    loops, count = node.src[1:], node.arg.count
    if level in Level.TENSOR | Level.PROGRAM and loops:
        return "REDUCE has loops where there are none"
    if level in Level.RANGED | Level.KERNEL and count:
        return "REDUCE folds axes where there are none"
    return _closes_loops(node, level)


def _index(node: UOp, level: Level) -> str | None:
    base, *indices = node.src
    for index in indices:
        if not index.dtype.is_int:
            return f"an index is {index.dtype.name}"
    if level in _INSIDE and (storage_below(base) is None or len(indices) != 1):
        return "in a kernel INDEX takes flat storage and one index"
    if level is Level.RANGED and base.op is not Ops.STAGE and storage_below(base) is None:
        return "INDEX of neither storage nor a STAGE"
    return None


def _where(node: UOp, level: Level) -> str | None:
    if node.src[1].op is Ops.CONST and node.src[1].arg is Invalid:
        return "Invalid is in the first arm of a WHERE"
    return None


def _store(node: UOp, level: Level) -> str | None:
    target, value = node.src[:2]
    indexed = target.op is Ops.INDEX and storage_below(target.src[0]) is not None
    if not indexed and not is_register(target):
        return f"STORE to {target.op.name}, which is not an INDEX of storage"
    if value.dtype is not target.dtype and not value.dtype.is_weak:
        return f"STORE of {value.dtype.name} to {target.dtype.name}"
    return _fits(node, target, node.src[1:]) or _gate(node)


def _fits(node: UOp, target: UOp, others: tuple[UOp, ...]) -> str | None:
    shapes = [target.shape, *(other.shape_or_none or () for other in others)]
    if broadcast(shapes) == target.shape:
        return None
    return f"{node.op.name} at shape {target.shape} of shapes {shapes[1:]}"


def _gate(node: UOp) -> str | None:
    if len(node.src) > 2 and not node.src[2].dtype.is_bool:
        return f"the gate of {node.op.name} is {node.src[2].dtype.name}"
    return None


def _load(node: UOp, level: Level) -> str | None:
    target = node.src[0]
    indexed = target.op is Ops.INDEX and storage_below(target.src[0]) is not None
    if not indexed and not is_register(target):
        return f"LOAD of {target.op.name}, which is not an INDEX of storage"
    if (
        len(node.src) > 1
        and node.src[1].dtype is not target.dtype
        and not node.src[1].dtype.is_weak
    ):
        return f"LOAD of {target.dtype.name} with an alternative of {node.src[1].dtype.name}"
    return _fits(node, target, node.src[1:]) or _gate(node)


def _after(node: UOp, level: Level) -> str | None:
    for effect in node.src[1:]:
        if effect.op not in EFFECTS and not (level in _LATE and effect.op is Ops.RANGE):
            return f"AFTER waits for {effect.op.name}, which has no effect"
    return None


def _group(node: UOp, level: Level) -> str | None:
    for effect in node.src:
        if effect.op not in EFFECTS:
            return f"GROUP of {effect.op.name}, which has no effect"
    return None


def _sink(node: UOp, level: Level) -> str | None:
    """A kernel's SINK holds its effects; a schedule's holds the LINEAR of its CALLs and the outputs."""
    if node.ranges:
        return f"{len(node.ranges)} loops are open at the SINK"
    if level is Level.RANGED:
        wrong = [source for source in node.src if source.op is not Ops.STAGE]
        return f"SINK of {wrong[0].op.name}, not of STAGEs" if wrong else None
    schedule = bool(node.src) and node.src[0].op is Ops.LINEAR
    if level not in _INSIDE or schedule:
        return None
    wrong = [source for source in node.src if source.op not in EFFECTS]
    return f"SINK of {wrong[0].op.name}, which has no effect" if wrong else None


def _call(node: UOp, level: Level) -> str | None:
    body, *arguments = node.src
    if body.op is not Ops.SINK:
        return f"CALL of {body.op.name}, which is not a SINK"
    for param in body.toposort():
        if param.op is not Ops.PARAM:
            continue
        if param.arg.slot >= len(arguments):
            return f"CALL has {len(arguments)} arguments, its body asks for number {param.arg.slot}"
        argument = arguments[param.arg.slot]
        if (argument.dtype, argument.shape_or_none) != (param.dtype, param.shape_or_none):
            return f"argument {param.arg.slot} of a CALL is {argument!r}, the body wants {param!r}"
    return None


def _stage(node: UOp, level: Level) -> str | None:
    return _closes_loops(node, level)


CONSTRAINTS: dict[Op, tuple[Constraint, ...]] = {
    Ops.BUFFER: (_buffer,),
    Ops.RANGE: (_range,),
    Ops.END: (_end,),
    Ops.REDUCE: (_reduce,),
    Ops.INDEX: (_index,),
    Ops.WHERE: (_where,),
    Ops.STORE: (_store,),
    Ops.LOAD: (_load,),
    Ops.AFTER: (_after,),
    Ops.GROUP: (_group,),
    Ops.SINK: (_sink,),
    Ops.CALL: (_call,),
    Ops.STAGE: (_stage,),
}
