"""Matching by walking the pattern: the meaning of patterns and rules in the plainest form.

The generated code of `match_source.py` must find the same bindings in the same order; tests compare the two.
"""

from __future__ import annotations

from collections.abc import Iterator

from loomgrad.dtype import dtypes
from loomgrad.ir.constant import is_constant, is_literal
from loomgrad.ir.pattern import ANY_VALUE, Order, UPat
from loomgrad.ir.right_side import fit, instantiate
from loomgrad.ir.rule import AnyRule, Rule
from loomgrad.ir.uop import UOp

Bindings = dict[str, UOp]


def bindings(pattern: UPat, node: UOp) -> Iterator[Bindings]:
    """Every way in which `pattern` matches `node`."""
    if node.dtype is not dtypes.illtyped:
        for bound, _ in _match(pattern, node, {}):
            yield bound


def each_matches(pattern: UPat, sources: tuple[UOp, ...]) -> bool:
    """Whether every source matches a pattern."""
    return all(next(_match(pattern, source, {}), None) is not None for source in sources)


# What a match has bound, and the operations it has looked into, the root first.
Found = tuple[Bindings, tuple[UOp, ...]]


def _match(pattern: UPat, node: UOp, bound: Bindings) -> Iterator[Found]:
    if pattern.name is not None:
        if bound.get(pattern.name, node) is not node:
            return
        bound = {**bound, pattern.name: node}
    if pattern.alternatives:
        for alternative in pattern.alternatives:
            yield from _match(alternative, node, bound)
        return
    if not _accepts(pattern, node):
        return
    if pattern.src is None or pattern.order is Order.EACH:
        yield bound, ()
        return
    for order in pattern.orders:
        for result, inside in _match_sources(order, node.src, bound):
            yield result, (node, *inside)


def _match_sources(
    patterns: tuple[UPat, ...], sources: tuple[UOp, ...], bound: Bindings
) -> Iterator[Found]:
    if not patterns:
        yield bound, ()
        return
    for first, inside in _match(patterns[0], sources[0], bound):
        for rest, more in _match_sources(patterns[1:], sources[1:], first):
            yield rest, inside + more


def _accepts(pattern: UPat, node: UOp) -> bool:
    """Everything that a pattern asks of one node."""
    if pattern.ops is not None and node.op not in pattern.ops:
        return False
    if pattern.dtypes is not None and not pattern.dtypes.accepts(node.dtype):
        return False
    if pattern.arg is not None and not pattern.arg.accepts(node.arg):
        return False
    if pattern.tag is not None and not pattern.tag.accepts(node.tag):
        return False
    return _accepts_value(pattern, node) and _accepts_sources(pattern, node)


def _accepts_value(pattern: UPat, node: UOp) -> bool:
    if pattern.value is None:
        return True
    return is_constant(node) if pattern.value is ANY_VALUE else is_literal(node, pattern.value)


def _accepts_sources(pattern: UPat, node: UOp) -> bool:
    """The operations demanded of the sources, their number, and the pattern for each if there is one."""
    early = pattern.early_reject
    if early is not None and node.source_mask & early.mask != early.mask:
        return False
    if pattern.src is None:
        return True
    if pattern.order is Order.EACH:
        return each_matches(pattern.src[0], node.src)
    if pattern.allow_more:
        return len(node.src) >= len(pattern.src)
    return len(node.src) == len(pattern.src)


def apply_interpreted(rule: AnyRule, node: UOp, ctx: object) -> object:
    """What a rule makes of a node: the first binding that gives something other than the node itself."""
    if node.dtype is dtypes.illtyped:
        return None
    for bound, inside in _match(rule.pattern, node, {}):
        if isinstance(rule, Rule):
            result = _apply_law(rule, bound, inside, node)
        else:
            result = rule.function(*rule.arguments(bound, node, ctx))
        if result is not None and result is not node:
            return result
    return None


def _apply_law(rule: Rule, bound: Bindings, inside: tuple[UOp, ...], node: UOp) -> UOp | None:
    def build(pattern: UPat) -> UOp:
        return instantiate(pattern, bound, node, False)

    def inner() -> list[UOp]:
        return [*inside[1:], *inner_nodes(rule.after, bound, node)]

    if rule.when is not None and not rule.when.holds(build, inner):
        return None
    return fit(instantiate(rule.after, bound, node), node)


def inner_nodes(after: UPat, bound: Bindings, node: UOp) -> list[UOp]:
    """The operations that a right side makes below its root."""
    made = []
    pending = [after]
    while pending:
        part = pending.pop()
        if part.name is None and part.src is not None:
            if part is not after:
                made.append(instantiate(part, bound, node, False))
            pending.extend(part.src)
    return made
