"""Which outputs share their ranges, and so a kernel.

Outputs of one shape that are computed elementwise from a common value of that shape (the new weight and the two
moments of Adam from one gradient) are written by one loop nest.  Two outputs may not share when one needs the
other in any other way than element by element, nor when sharing would make two kernels wait for each other.
"""

from __future__ import annotations

from loomgrad.ir.opcode import GroupOp, Ops, OpSet
from loomgrad.ir.uop import UOp

_ELEMENTWISE = OpSet(*GroupOp.Elementwise)
_COMPUTED = OpSet(*GroupOp.Elementwise, Ops.REDUCE)


def output_groups(sink: UOp) -> list[list[UOp]]:
    """The outputs of `sink`, each once, in groups that share ranges, in their order."""
    roots = list(dict.fromkeys(sink.src))
    soft, hard, below = _dependencies(sink, roots)
    group = list(range(len(roots)))
    for second in range(len(roots)):
        for first in range(second):
            if group[first] == group[second] or not soft[first] & soft[second]:
                continue
            merged = [group[first] if g == group[second] else g for g in group]
            if roots[first].shape == roots[second].shape and _acyclic(merged, hard, below):
                group = merged
                break
    names = list(dict.fromkeys(group))
    return [[root for root, g in zip(roots, group, strict=True) if g == name] for name in names]


def _dependencies(
    sink: UOp, roots: list[UOp]
) -> tuple[list[set[UOp]], list[set[int]], list[frozenset[int]]]:
    """Per output: the computed nodes it uses element by element, the outputs it needs otherwise, and all it needs."""
    number = {root: index for index, root in enumerate(roots)}
    below: dict[UOp, frozenset[int]] = {}
    for node in sink.toposort():
        found = frozenset[int]().union(*(below[source] for source in node.src))
        below[node] = found | {number[node]} if node in number else found
    soft: list[set[UOp]] = []
    hard: list[set[int]] = []
    for root in roots:
        reached = {root} if root.op in _COMPUTED else set()
        needed: set[int] = set()
        stack = [root]
        seen = {root}
        while stack:
            node = stack.pop()
            for source in node.src:
                direct = node.op in _ELEMENTWISE and source.shape == root.shape
                if not direct or source.op not in _COMPUTED:
                    needed |= below[source]
                elif source not in seen:
                    seen.add(source)
                    reached.add(source)
                    stack.append(source)
        soft.append(reached)
        hard.append(needed)
    return soft, hard, [below[root] - {number[root]} for root in roots]


def _acyclic(group: list[int], hard: list[set[int]], below: list[frozenset[int]]) -> bool:
    """Whether no group of outputs needs itself through others."""
    needs: dict[int, set[int]] = {}
    for index, name in enumerate(group):
        others = {group[other] for other in below[index]} - {name}
        needs.setdefault(name, set()).update(others, (group[other] for other in hard[index]))
    state: dict[int, int] = {}
    for start in needs:
        stack = [start]
        while stack:
            name = stack[-1]
            if state.get(name) == 2:
                stack.pop()
                continue
            if state.get(name) == 1:
                state[name] = 2
                stack.pop()
                continue
            state[name] = 1
            for other in needs.get(name, ()):
                if state.get(other) == 1:
                    return False
                if state.get(other) is None:
                    stack.append(other)
    return True
