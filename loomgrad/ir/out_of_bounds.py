"""Whether every access to storage is in bounds: by intervals under its gate, or, where its loops are few, by trying.

What neither can decide is counted, not reported.
"""

from __future__ import annotations

from loomgrad.ir.args import Invalid
from loomgrad.ir.constraints import storage_below
from loomgrad.ir.evaluate import Run
from loomgrad.ir.opcode import GroupOp, Ops
from loomgrad.ir.shape import extent_of, size_of
from loomgrad.ir.uop import UOp
from loomgrad.ir.values import both, joint_loops, over

TRIED_POINTS = 1 << 14


def access_faults(order: list[UOp]) -> tuple[list[tuple[str, UOp]], int]:
    """The accesses that leave their storage, and the number of those that nothing decides."""
    faults: list[tuple[str, UOp]] = []
    unknown = 0
    for index, gate in _accesses(order):
        size = size_of(index.src[0].shape)
        if _proved(index.src[1], gate, size):
            continue
        outside = _tried(index.src[1], gate, size)
        if outside is None:
            unknown += 1
        elif outside:
            faults.append((f"the index reaches outside of 0 .. {size - 1}", index))
    return faults, unknown


def _accesses(order: list[UOp]) -> list[tuple[UOp, UOp | None]]:
    """Each INDEX of flat storage with the gate of each LOAD or STORE that uses it; None where it is bare."""
    found: dict[tuple[UOp, UOp | None], None] = {}
    for node in order:
        if node.op is Ops.LINEAR:  # lists its nodes, uses none
            continue
        gate = node.src[2] if node.op in (Ops.LOAD, Ops.STORE) and len(node.src) > 2 else None
        for position, source in enumerate(node.src):
            if source.op is Ops.INDEX and len(source.src) == 2 and storage_below(source.src[0]):
                found[source, gate if position == 0 else None] = None
    return list(found)


def _proved(index: UOp, gate: UOp | None, size: int) -> bool:
    """By intervals.  An index that a clause of the gate bounds is known to lie within."""
    while index.op is Ops.WHERE and index.src[2].op is Ops.CONST and index.src[2].arg is Invalid:
        gate = index.src[0] if gate is None else gate & index.src[0]
        index = index.src[1]
    low, high = index.bounds
    if low > high:
        return True
    if gate is not None:
        low, high = _narrowed(index, gate, low, high)
    return low >= 0 and high < size


def _narrowed(index: UOp, gate: UOp, low: float, high: float) -> tuple[float, float]:
    """The interval of an index where a gate holds, as far as clauses about the index itself say."""
    pending = [gate]
    while pending:
        clause = pending.pop()
        if clause.op is Ops.AND:
            pending.extend(clause.src)
            continue
        negated = clause.op is Ops.CMPNE and clause.src[1].is_const() and clause.src[1].val is True
        test = clause.src[0] if negated else clause
        if test.op is not Ops.CMPLT:
            continue
        left, right = test.src
        if left is index:
            high, low = (
                (high, max(low, right.vmin)) if negated else (min(high, right.vmax - 1), low)
            )
        elif right is index:
            high, low = (min(high, left.vmax), low) if negated else (high, max(low, left.vmin + 1))
    return low, high


def _tried(index: UOp, gate: UOp | None, size: int) -> bool | None:
    """Whether any value of the loops leads outside; None where there are too many, or data decides."""
    roots = [index] if gate is None else [index, gate]
    below = {node for root in roots for node in root.toposort()}
    loops = {loop for root in roots for loop in root.ranges}
    points = size_of(extent_of(loop) for loop in loops) * size_of(index.shape)
    if points > TRIED_POINTS or any(node.op in GroupOp.Storage for node in below):
        return None
    values = Run().evaluate(roots)
    joint, rank = joint_loops(values), len(index.shape)
    laid = [over(value, joint, rank) for value in values]
    mask = laid[0].valid if gate is None else both(laid[0].valid, laid[1].array)
    outside = (laid[0].array < 0) | (laid[0].array >= size)
    return bool((outside if mask is None else outside & mask).any())
