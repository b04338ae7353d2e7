"""Verify: whether a graph is in the grammar of its level.

The legal operations, sources and args of each level stand in the op table (`well_formed`); what a table cannot
say is a function in `constraints`, `program_order` and `out_of_bounds`.  `VERIFY=1` runs this between passes.
"""

from __future__ import annotations

from collections.abc import Iterator

from loomgrad.errors import VerifyError
from loomgrad.ir.constraints import CONSTRAINTS, storage_below
from loomgrad.ir.opcode import GroupOp, Ops, OpSet
from loomgrad.ir.ops import Level
from loomgrad.ir.out_of_bounds import access_faults
from loomgrad.ir.program_order import order_faults
from loomgrad.ir.typing_rules import is_invalid
from loomgrad.ir.uop import UOp
from loomgrad.ir.well_formed import fault_of_form

Faults = Iterator[tuple[str, UOp]]
_PASSES_STORAGE_ON = OpSet(Ops.CALL, Ops.LINEAR, Ops.SINK)
_TAKES_STORAGE_FIRST = OpSet(Ops.LOAD, Ops.STORE, Ops.INDEX, Ops.AFTER)
_CLOSES = OpSet(Ops.END, Ops.REDUCE)


def verify(graph: UOp, level: Level, pass_name: str) -> int:
    """Checks a graph after a pass; bodies of CALLs are checked as kernels.

    Returns the number of accesses to storage of which nothing could prove that they are in bounds.
    Raises: VerifyError naming the pass, the node and the constraint.
    """
    order = graph.toposort(lambda node: node.op is not Ops.CALL)
    for fault, node in _faults(graph, order, level):
        raise VerifyError(
            f"after pass {pass_name}, at level {str(level.name).lower()}: {fault}",
            node=repr(node),
            sources=", ".join(map(repr, node.src)) or "none",
            where="",
        )
    calls = [node for node in order if node.op is Ops.CALL]
    bodies = dict.fromkeys(call.src[0] for call in calls)
    undecided = sum(verify(body, level, pass_name) for body in bodies)
    if level is Level.TENSOR:
        return undecided
    outside, unknown = access_faults(order)
    for fault, node in outside:
        raise VerifyError(
            f"after pass {pass_name}, at level {str(level.name).lower()}: {fault}",
            node=repr(node),
            storage=repr(node.src[0]),
            where="",
        )
    return undecided + unknown


def _faults(graph: UOp, order: list[UOp], level: Level) -> Faults:
    """What breaks the grammar, node by node, then of the graph as a whole."""
    for node in order:
        fault = fault_of_form(node, level)
        if fault is not None:
            yield fault, node
        for constraint in CONSTRAINTS.get(node.op, ()):
            fault = constraint(node, level)
            if fault is not None:
                yield fault, node
    yield from _faults_of_slots(order)
    if level is not Level.TENSOR:
        yield from _faults_of_use(order)
    if level in Level.KERNEL | Level.LANES | Level.PROGRAM:
        yield from _faults_of_loops(order)
        yield from _faults_of_order(order)
    if level is Level.PROGRAM:
        if graph.op is not Ops.LINEAR:
            yield "a program is one LINEAR", graph
        yield from order_faults(graph)


def _faults_of_slots(order: list[UOp]) -> Faults:
    slots: dict[int, UOp] = {}
    for node in order:
        if node.op is Ops.PARAM and slots.setdefault(node.arg.slot, node) is not node:
            yield f"two PARAMs have slot {node.arg.slot}", node


def _faults_of_use(order: list[UOp]) -> Faults:
    """Below the tensor graph storage is only indexed, ordered or passed on, and Invalid is an else arm."""
    for node in order:
        for position, source in enumerate(node.src):
            if source.op in GroupOp.Storage and node.op not in _PASSES_STORAGE_ON:
                if position or node.op not in _TAKES_STORAGE_FIRST:
                    yield f"{node.op.name} uses storage as a value without INDEX", node
            elif is_invalid(source) and (node.op is not Ops.WHERE or position != 2):
                yield f"{node.op.name} of Invalid, which may only be the else arm of a WHERE", node


def _faults_of_order(order: list[UOp]) -> Faults:
    """Nothing orders the reads of a kernel against its writes: it may not read memory that it writes."""
    stores = [node for node in order if node.op is Ops.STORE and node.src[0].op is Ops.INDEX]
    written = {storage_below(store.src[0].src[0]) for store in stores}
    for node in order:
        if node.op is Ops.LINEAR:
            continue
        for position, source in enumerate(node.src):
            is_target = node.op is Ops.STORE and position == 0
            if source.op is Ops.INDEX and not is_target and storage_below(source.src[0]) in written:
                yield "a kernel reads memory that it writes", node


def _faults_of_loops(order: list[UOp]) -> Faults:
    """In a kernel a loop has a number of its own and closes once."""
    axes: dict[tuple[int, ...], UOp] = {}
    closed: set[UOp] = set()
    for node in order:
        if node.op is Ops.RANGE and axes.setdefault(node.arg.axis, node) is not node:
            yield f"two loops have the number {node.arg.axis}", node
        if node.op in _CLOSES:
            for loop in node.src[1:]:
                if loop in closed:
                    yield f"the loop {loop.arg.axis} closes twice", node
                closed.add(loop)
