"""The one estimator of operations and bytes: for the fusion's costs, for the choice of workers, for DEBUG.

An operation counts once per iteration of the loops that it stands in; a fused multiply-add counts 2, and what only
computes addresses or gates counts nothing.  Bytes count each access to memory once per iteration (`accessed`) and
each buffer at most once as a whole (`moved`).
"""

from __future__ import annotations

from dataclasses import dataclass

from loomgrad.ir.opcode import GroupOp, Ops
from loomgrad.ir.shape import extent_of, size_of
from loomgrad.ir.uop import UOp

# Work of one element in units of a vector addition, measured on generated code to within a factor of two.
WEIGHT = {
    **dict.fromkeys(GroupOp.Transcendental, 55.0),
    **dict.fromkeys(GroupOp.Division, 8.0),
    Ops.EXP: 16.0,
    Ops.EXP2: 17.0,
    Ops.LOG: 28.0,
    Ops.LOG2: 29.0,
    Ops.TANH: 28.0,
    Ops.POW: 110.0,
    Ops.SQRT: 4.0,
    Ops.RECIPROCAL: 4.0,
    Ops.FDIV: 4.0,
    Ops.THREEFRY: 120.0,
    Ops.MULACC: 2.0,
}


@dataclass(frozen=True, slots=True)
class Estimate:
    """Operations as a user counts them, work as the cost model does, and bytes."""

    operations: int = 0
    work: float = 0.0
    accessed: int = 0
    moved: int = 0


def value_nodes(root: UOp) -> list[UOp]:
    """The nodes that compute values below `root`, not those that compute addresses; STAGEs are leaves."""
    seen: set[UOp] = set()
    order: list[UOp] = []
    stack = [root]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        order.append(node)
        stack.extend(_value_sources(node))
    return order


def _value_sources(node: UOp) -> tuple[UOp, ...]:
    if node.op is Ops.INDEX or node.op is Ops.STAGE or node.op in GroupOp.Storage:
        return ()
    if node.op is Ops.STORE:
        return node.src[:2]
    if node.op in (Ops.END, Ops.REDUCE):
        return node.src[:1]
    return node.src


def iterations(node: UOp) -> int:
    """How often a node is computed: once per value of its open ranges."""
    return size_of(extent_of(loop) for loop in node.ranges)


def estimate(root: UOp) -> Estimate:
    """The totals below `root`: a value, an effect or a whole kernel."""
    operations = accessed = 0
    work = 0.0
    sizes: dict[UOp, int] = {}
    for node in value_nodes(root):
        if node.op in GroupOp.Elementwise and not node.is_const() and node.op is not Ops.CAST:
            count = iterations(node)
            operations += count * (2 if node.op is Ops.MULACC else 1)
            work += count * WEIGHT.get(node.op, 1.0)
        elif node.op is Ops.REDUCE:
            count = iterations(node.src[0])
            operations += count
            work += count
        elif node.op is Ops.INDEX:
            count = iterations(node)
            accessed += count * node.dtype.itemsize
            storage = node.src[0]
            whole = size_of(storage.shape) if storage.shape_or_none is not None else count
            sizes[storage] = max(sizes.get(storage, 0), min(whole, count) * node.dtype.itemsize)
    return Estimate(operations, work, accessed, sum(sizes.values()))
