"""Rebuilding a graph node by node, sources first: the form of every pass that is a function rather than rules."""

from __future__ import annotations

from collections.abc import Callable

from loomgrad.ir.uop import UOp

Sources = tuple[UOp, ...]


def with_sources(node: UOp, sources: Sources) -> UOp:
    """The node over other sources; itself if they are the same."""
    return node if sources == node.src else node.replace(src=sources)


def transform(
    root: UOp, make: Callable[[UOp, Sources], UOp], leaf: Callable[[UOp], bool] | None = None
) -> UOp:
    """`root` with each node replaced by `make(node, sources as they were made)`.

    Every node is visited once.  A `leaf` stays as it is, and what only it needs is not visited.
    """
    made: dict[UOp, UOp] = {}
    order = root.toposort() if leaf is None else root.toposort(lambda node: not leaf(node))
    for node in order:
        if leaf is not None and leaf(node):
            made[node] = node
        else:
            made[node] = make(node, tuple(made[source] for source in node.src))
    return made[root]
