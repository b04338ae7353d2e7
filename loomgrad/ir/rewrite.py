"""`graph_rewrite`: the only way in which a graph changes.

Nothing here recurses, so the depth of a graph does not matter, and every node is settled once per call, so its size
as a tree does not matter either.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import cast

from loomgrad.errors import LoomError, RewriteLoopError
from loomgrad.ir.match_source import Match
from loomgrad.ir.matcher import PatternMatcher, WatchedTables
from loomgrad.ir.observe import observers
from loomgrad.ir.opcode import Op, Ops
from loomgrad.ir.rewrite_loop import loop_error
from loomgrad.ir.uop import UOp


class Gate(enum.Enum):
    """What a rule returns instead of a node."""

    STOP = enum.auto()


STOP = Gate.STOP  # this node is final: keep it, and do not look below it

Tables = Mapping[Op, Mapping[int, Match | None]]
_DEPTH = 10_000  # rewrites that wait for each other before anyone asks whether they will ever end


def graph_rewrite(
    sink: UOp,
    matcher: PatternMatcher,
    ctx: object = None,
    bottom_up: bool = False,
    name: str | None = None,
    bpm: PatternMatcher | None = None,
    walk: bool = False,
    enter_calls: bool = False,
) -> UOp:
    """`sink` with the rules of `matcher` applied everywhere below it until none applies.

    The order: `matcher` sees a node *after* its sources, which are final then.  With `bottom_up=True` it sees a
    node *before* its sources; `bpm` is a second matcher that does so.  Sources are visited in their order, depth
    first.

    What a rule returns is rewritten in turn, from the start.  Results are remembered for the whole call, so a rule
    runs at most once on each node.  A rule that sees nodes before their sources may return `STOP`: the node
    stays, and nothing below it is visited.

    `walk`: each node of the given graph is visited once, and what rules return is not rewritten again; nor, where
    rules see nodes before their sources, visited below.
    `enter_calls`: also inside the bodies of CALLs.
    `name`: for traces and errors.

    Raises: RewriteLoopError, naming the rules, when they never come to rest.
    """
    run = _Rewrite(matcher, ctx, bottom_up, name or "rewrite", bpm, enter_calls)
    if not observers:
        return run.walk(sink) if walk else run.settle(sink)
    result: UOp | None = None
    watching = tuple(observers)
    for observer in watching:
        observer.begin(run.name, sink)
    try:
        result = run.walk(sink) if walk else run.settle(sink)
    finally:
        for observer in watching:
            observer.end(run.name, result)
    return result


class _Rewrite:
    """One call of `graph_rewrite`.

    `results` holds the final node of each node that is settled, and None for nodes that are being settled: those
    on the path from the root to where we are.  `links` says which of them wait for the node they became.
    """

    def __init__(
        self,
        matcher: PatternMatcher,
        ctx: object,
        bottom_up: bool,
        name: str,
        bpm: PatternMatcher | None,
        enter_calls: bool,
    ) -> None:
        self.before = matcher if bottom_up else bpm
        self.after = None if bottom_up else matcher
        self.ctx = ctx
        self.name = name
        self.enter_calls = enter_calls
        self.results: dict[UOp, UOp | None] = {}
        self.links: dict[UOp, UOp] = {}
        self.stack: list[UOp] = []
        self.depth = _DEPTH

    def settle(self, root: UOp) -> UOp:  # noqa: C901 -- the loop every pass spends its time in
        """The final node of `root`."""
        results, links, ctx, stack = self.results, self.links, self.ctx, self.stack
        before, after = _tables(self.before), _tables(self.after)
        final = results.get
        stack.append(root)
        while stack:
            node = stack[-1]
            if node in results:
                if results[node] is not None:
                    stack.pop()
                    continue
                if links and (became := links.pop(node, None)) is not None:
                    results[node] = results[became]
                    stack.pop()
                    continue
            elif before is not None and (match := before[node.op][node.source_mask]) is not None:
                new = match(node, ctx)
                if new is STOP:
                    results[node] = node
                    stack.pop()
                    continue
                if new is not None:
                    self._follow(node, new)
                    continue
            source = node.src
            if source:
                if node.op is Ops.CALL and not self.enter_calls:
                    settled = (source[0], *map(final, source[1:]))
                else:
                    settled = tuple(map(final, source))
                if None in settled:
                    self._descend(node, settled)
                    continue
                if settled != source:
                    self._follow(node, UOp(node.op, settled, node.arg, node.tag))  # type: ignore[arg-type]
                    continue
            if after is not None and (match := after[node.op][node.source_mask]) is not None:
                new = match(node, ctx)
                if new is not None and new is not STOP:
                    self._follow(node, new)
                    continue
            results[node] = node
            stack.pop()
        return cast(UOp, results[root])

    def _descend(self, node: UOp, settled: tuple[UOp | None, ...]) -> None:
        """Settles the sources that are not, the first one first."""
        self.results[node] = None
        for source, result in zip(reversed(node.src), reversed(settled), strict=True):
            if result is None:
                if source in self.results:
                    raise self._loop(source)
                self.stack.append(source)

    def _follow(self, node: UOp, new: object) -> None:
        """`node` becomes what `new`, a node, becomes."""
        if not isinstance(new, UOp):
            raise self._not_a_node(node, new)
        if new in self.results:
            result = self.results[new]
            if result is None:
                self.links[node] = new
                raise self._loop(new)
            self.results[node] = result
            self.stack.pop()
            return
        self.results[node] = None
        self.links[node] = new
        self.stack.append(new)
        if len(self.links) > self.depth:
            self._question_depth()

    def _question_depth(self) -> None:
        """Long chains of rewrites are right in deep graphs; beyond that they do not end."""
        size = len(self.stack[0].toposort())
        if self.depth < _DEPTH + 8 * size:
            self.depth = _DEPTH + 8 * size
        else:
            raise loop_error(self, list(self.links.items())[-100:])

    def _loop(self, repeated: UOp) -> RewriteLoopError:
        """The error that says: we came back to a node that waits for us."""
        start = len(self.stack) - 1 - self.stack[::-1].index(repeated)
        path = self.stack[start:]
        return loop_error(self, [(node, self.links[node]) for node in path if node in self.links])

    def _not_a_node(self, node: UOp, new: object) -> LoomError:
        matchers = [matcher for matcher in (self.before, self.after) if matcher is not None]
        fired = next(filter(None, (m.rewrite_named(node, self.ctx) for m in matchers)), None)
        rule = "a rule" if fired is None else f"rule {fired[0].name!r}"
        return LoomError(
            f"{rule} returned {type(new).__name__}, not a node",
            fix="call matcher.rewrite(node, ctx) for anything else",
        )

    def walk(self, root: UOp) -> UOp:
        """Each node of the graph once; what rules return is final."""
        results, stack = self.results, self.stack
        before, after = _tables(self.before), _tables(self.after)
        stack.append(root)
        while stack:
            node = stack[-1]
            if results.get(node) is not None:
                stack.pop()
                continue
            if node not in results and before is not None:
                new = _apply(before, node, self.ctx)
                if new is not None:
                    results[node] = node if new is STOP else self._checked(node, new)
                    continue
            rebuilt = rebuild(node, results, stack, self.enter_calls)
            if rebuilt is None:
                results[node] = None
                continue
            new = None if after is None else _apply(after, rebuilt, self.ctx)
            results[node] = rebuilt if new is None or new is STOP else self._checked(rebuilt, new)
        return cast(UOp, results[root])

    def _checked(self, node: UOp, new: object) -> UOp:
        if isinstance(new, UOp):
            return new
        raise self._not_a_node(node, new)


def rebuild(
    node: UOp, results: Mapping[UOp, UOp | None], stack: list[UOp], enter_calls: bool
) -> UOp | None:
    """`node` with its sources replaced by their results; None, with the sources on the stack, if some lack one."""
    kept = 1 if node.op is Ops.CALL and not enter_calls else 0
    settled = node.src[:kept] + tuple(map(results.get, node.src[kept:]))
    if None in settled:
        pending = zip(reversed(node.src), reversed(settled), strict=True)
        stack.extend(source for source, result in pending if result is None)
        return None
    if settled == node.src:
        return node
    return UOp(node.op, cast("tuple[UOp, ...]", settled), node.arg, node.tag)


def _apply(tables: Tables, node: UOp, ctx: object) -> object:
    match = tables[node.op][node.source_mask]
    return None if match is None else match(node, ctx)


def _tables(matcher: PatternMatcher | None) -> Tables | None:
    """What the loops look rules up in."""
    if matcher is None:
        return None
    return WatchedTables(matcher, observers) if observers else matcher.tables
