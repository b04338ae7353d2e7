"""Which part of each loop the evaluator is looking at, so that no array grows too large for memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from loomgrad.ir.args import RangeArg
from loomgrad.ir.opcode import GroupOp
from loomgrad.ir.ranges import ended_ranges
from loomgrad.ir.shape import extent_of, size_of
from loomgrad.ir.uop import UOp

LIMIT = 1 << 24  # elements of one array; a node with more is evaluated in slices


def loop_order(loop: UOp) -> tuple[tuple[int, ...], str, int, int]:
    """Sorts RANGEs from the outermost in; different ones never compare equal."""
    assert isinstance(loop.arg, RangeArg)
    return loop.arg.axis, loop.arg.kind.name, extent_of(loop), id(loop)


class Slices:
    """The loops that are restricted, each to a span; all others run over their whole extent."""

    def __init__(self) -> None:
        self._spans: dict[UOp, tuple[int, int]] = {}

    def span(self, loop: UOp) -> tuple[int, int]:
        """The first value of a RANGE, and one past the last."""
        return self._spans.get(loop) or (0, extent_of(loop))

    def extent(self, loop: UOp) -> int:
        """How many values of a RANGE are looked at."""
        begin, end = self.span(loop)
        return end - begin

    def cut(
        self, root: UOp, candidates: Collection[UOp], known: Collection[UOp]
    ) -> tuple[UOp, int] | None:
        """The largest of the candidates, and into how many pieces, if a node below takes too much memory.

        Below `known` nodes nothing will be computed.  A loop that closes below must run whole there.
        """
        if not candidates:
            return None
        below = root.toposort(lambda node: node not in known)
        worst = max(below, key=self._volume)
        volume = self._volume(worst)
        if volume <= LIMIT:
            return None
        closed = {loop for node in below if node is not root for loop in ended_ranges(node)}
        free = [loop for loop in worst.ranges if loop in candidates and loop not in closed]
        loop = max(sorted(free, key=loop_order), key=self.extent, default=None)
        if loop is None or self.extent(loop) == 1:
            return None
        return loop, min(self.extent(loop), -(-volume // LIMIT))

    def _volume(self, node: UOp) -> int:
        """How many elements the value of a node has; storage is there anyway."""
        if node.op in GroupOp.Storage or node.shape_or_none is None:
            return 0
        return size_of(self.extent(loop) for loop in node.ranges) * size_of(node.shape)

    def pieces(self, loop: UOp, count: int) -> Iterator[None]:
        """Looks at one of `count` pieces of a loop after the other."""
        before = self._spans.get(loop)
        begin, end = self.span(loop)
        step = -(-(end - begin) // count)
        for start in range(begin, end, step):
            self._spans[loop] = (start, min(start + step, end))
            yield
        del self._spans[loop]
        if before is not None:
            self._spans[loop] = before
