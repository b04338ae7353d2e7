"""Constraints on the order of a program: nodes after their sources, loops nested."""

from __future__ import annotations

from collections.abc import Iterator

from loomgrad.ir.opcode import Ops
from loomgrad.ir.uop import UOp


def order_faults(linear: UOp) -> Iterator[tuple[str, UOp]]:
    """What is wrong with the order of a LINEAR, with the node where it shows."""
    seen: set[UOp] = set()
    loops: list[UOp] = []
    for node in linear.src:
        if node in seen:
            yield "a program lists this node twice", node
        late = [source for source in node.src if source not in seen]
        if late:
            yield f"it stands before its source {late[0]!r}", node
        seen.add(node)
        if node.op is Ops.RANGE:
            loops.append(node)
            continue
        if node.op is not Ops.END:
            closed = [loop for loop in node.ranges if loop not in loops]
            if closed:
                yield f"it stands outside of its loop {closed[0].arg!r}", node
            continue
        own = list(node.src[1:])
        if own != loops[len(loops) - len(own) :]:
            yield "it closes loops that are not the innermost ones", node
        loops = [loop for loop in loops if loop not in own]
    for loop in loops:
        yield "nothing closes this loop", loop
