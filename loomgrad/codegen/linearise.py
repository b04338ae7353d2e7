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
    parents = _parents([node for node in order if node.op is Ops.END])
    writer = _Writer({node: _path_of(node, parents) for node in order})
    writer.block(())
    return UOp(Ops.LINEAR, tuple(writer.written))


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


class _Writer:
    """Writes blocks of nodes; `paths` says in which block a node stands."""

    def __init__(self, paths: dict[UOp, Path]) -> None:
        self.paths = paths
        self.blocks: dict[Path, list[UOp]] = {}
        for node, path in paths.items():
            if node.op is not Ops.RANGE:
                self.blocks.setdefault(path, []).append(node)
        self.written: list[UOp] = []
        self.seen: set[UOp] = set()

    def block(self, path: Path) -> None:
        """The nodes of one block in order; an END brings its whole loop along when its turn comes."""
        stack = list(reversed(self.blocks.get(path, [])))
        while stack:
            node = stack[-1]
            if node in self.seen:
                stack.pop()
                continue
            needed = self._needed(node, path)
            if needed:
                stack.extend(reversed(needed))
                continue
            stack.pop()
            self.seen.add(node)
            if node.op is Ops.END:
                self._loops(node, path)
            self.written.append(node)

    def _loops(self, end: UOp, path: Path) -> None:
        """Opens the loops of an END one by one, each with the nodes of its block."""
        for loop in end.src[1:]:
            path = (*path, loop)
            self.written.append(loop)
            self.seen.add(loop)
            self.block(path)

    def _needed(self, node: UOp, path: Path) -> list[UOp]:
        """What must stand in this block before a node: its sources here; for a loop, those of all of its body."""
        inside = [node]
        if node.op is Ops.END:
            inner = (*path, node.src[1])
            bodies = (m for block, m in self.blocks.items() if block[: len(inner)] == inner)
            inside = [member for members in bodies for member in members] + inside
        sources = dict.fromkeys(source for member in inside for source in member.src)
        return [
            source
            for source in sources
            if source is not node
            and source not in self.seen
            and source.op is not Ops.RANGE
            and self.paths.get(source) == path
        ]
