"""Replacing given nodes by others, in one walk."""

from __future__ import annotations

from collections.abc import Mapping

from loomgrad.ir.opcode import Ops
from loomgrad.ir.rewrite import rebuild
from loomgrad.ir.uop import UOp


def substitute(root: UOp, mapping: Mapping[UOp, UOp], enter_calls: bool = False) -> UOp:
    """`root` with each key of `mapping` replaced by its value, all at once.

    Values are taken as they are: a key inside of a value stays.  Bodies of CALLs only with `enter_calls`.
    """
    results: dict[UOp, UOp] = dict(mapping)
    stack = [root]
    while stack:
        node = stack[-1]
        if node in results:
            stack.pop()
            continue
        rebuilt = rebuild(node, results, stack, enter_calls)
        if rebuilt is not None:
            results[node] = rebuilt
    return results[root]


def substitute_ranges(root: UOp, mapping: Mapping[UOp, UOp]) -> UOp:
    """As `substitute`, for RANGEs, and only where one of them is open.

    What lies below the end of a loop, or never depended on it, is not visited: replacing the loops of one stage
    in a large graph costs what that stage costs.
    """
    replaced = frozenset(mapping)
    assert all(loop.op is Ops.RANGE for loop in replaced)
    results: dict[UOp, UOp] = dict(mapping)
    stack = [root]
    while stack:
        node = stack[-1]
        if node in results:
            stack.pop()
        elif replaced.isdisjoint(node.ranges):
            results[node] = node
        elif (rebuilt := rebuild(node, results, stack, False)) is not None:
            results[node] = rebuilt
    return results[root]
