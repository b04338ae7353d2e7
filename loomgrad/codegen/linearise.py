"""Linearise: the graph of a kernel as a list of nodes with nested loops.

A node's block is its set of open loops: what depends on no inner loop stands outside of it.  A loop that is closed
by an END is one item of the block around it, so two reductions are two loops one after the other, and a loop that
another loop's body needs is run before that loop begins.

Needs: a kernel in which each loop is closed by one END.  Guarantees: LINEAR(...) with every node after its sources
and RANGE ... END nested.
"""

from __future__ import annotations

from loomgrad.ir.opcode import Ops
from loomgrad.ir.uop import UOp
from loomgrad.target import Target

Path = tuple[UOp, ...]


def linearise(kernel: UOp, target: Target) -> UOp:
    """LINEAR of the nodes below a kernel's SINK, without the SINK."""
    order = [node for node in kernel.toposort() if node is not kernel]
    ends = [node for node in order if node.op is Ops.END]
    parents = _parents(ends)
    paths = {node: _path_of(node, parents) for node in order}
    blocks: dict[Path, list[UOp]] = {}
    for node in order:
        if node.op is not Ops.RANGE:
            blocks.setdefault(paths[node], []).append(node)
    for end in ends:
        for depth in range(len(end.src) - 1):
            blocks.setdefault(paths[end] + end.src[1 : 2 + depth], [])
    emitted: list[UOp] = []
    seen: set[UOp] = set()
    _emit((), blocks, paths, emitted, seen)
    return UOp(Ops.LINEAR, tuple(emitted))


def _parents(ends: list[UOp]) -> dict[UOp, Path]:
    """For each loop the loops around it, outermost first."""
    around: dict[UOp, Path] = {}
    waiting = list(reversed(ends))
    while waiting:
        rest = []
        for end in waiting:
            outer = end.ranges
            if not all(loop in around for loop in outer):
                rest.append(end)
                continue
            path = max((around[loop] + (loop,) for loop in outer), key=len, default=())
            for loop in end.src[1:]:
                around[loop] = path
                path = (*path, loop)
        assert len(rest) < len(waiting), "a loop stands inside of a loop that nothing closes"
        waiting = rest
    return around


def _path_of(node: UOp, around: dict[UOp, Path]) -> Path:
    """The loops in whose block a node stands."""
    return max((around[loop] + (loop,) for loop in node.ranges), key=len, default=())


def _emit(
    path: Path,
    blocks: dict[Path, list[UOp]],
    paths: dict[UOp, Path],
    emitted: list[UOp],
    seen: set[UOp],
) -> None:
    """The nodes of one block in order; an END brings its whole loop along when its turn comes."""
    stack: list[UOp] = list(reversed(blocks.get(path, [])))
    while stack:
        node = stack[-1]
        if node in seen:
            stack.pop()
            continue
        needed = _needed(node, path, blocks, paths, seen)
        if needed:
            stack.extend(reversed(needed))
            continue
        stack.pop()
        seen.add(node)
        if node.op is Ops.END:
            _emit_loop(node, path, blocks, paths, emitted, seen)
        emitted.append(node)


def _emit_loop(
    end: UOp,
    path: Path,
    blocks: dict[Path, list[UOp]],
    paths: dict[UOp, Path],
    emitted: list[UOp],
    seen: set[UOp],
) -> None:
    """Opens the loops of an END one by one, each with the nodes of its block."""
    for loop in end.src[1:]:
        path = (*path, loop)
        emitted.append(loop)
        seen.add(loop)
        _emit(path, blocks, paths, emitted, seen)


def _needed(
    node: UOp,
    path: Path,
    blocks: dict[Path, list[UOp]],
    paths: dict[UOp, Path],
    seen: set[UOp],
) -> list[UOp]:
    """What must stand in this block before a node: its sources here; for a loop, those of all of its body."""
    if node.op is not Ops.END:
        return [s for s in node.src if s not in seen and paths.get(s) == path]
    inside: list[UOp] = []
    depth = len(path)
    first = node.src[1]
    for block, members in blocks.items():
        if len(block) > depth and block[:depth] == path and block[depth] is first:
            inside.extend(members)
    inside.append(node)
    found: dict[UOp, None] = {}
    for member in inside:
        for source in member.src:
            if source not in seen and source is not node and paths.get(source) == path:
                found[source] = None
    found.pop(node, None)
    return [source for source in found if source.op is not Ops.RANGE]
