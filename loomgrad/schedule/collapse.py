"""Collapse: reductions that only pick one element or count some lose their loop.

Needs: a ranged graph.  Guarantees: the same values; arange, one-hot selections, gathers and embeddings written as
masked sums are index arithmetic.
"""

from __future__ import annotations

from loomgrad.ir.opcode import Ops
from loomgrad.ir.rewrite import graph_rewrite
from loomgrad.ir.uop import UOp
from loomgrad.rules import SYMBOLIC
from loomgrad.rules.collapse import COLLAPSE
from loomgrad.schedule.inline import inline_stages
from loomgrad.target import Target


def collapse(sink: UOp, target: Target) -> UOp:
    """The ranged graph with needless reductions removed.

    A STAGE that reads nothing and reduces nothing (a count, once its own sum is gone) is inlined, so that the
    reductions that pick by it are seen.
    """
    while True:
        sink = graph_rewrite(sink, COLLAPSE + SYMBOLIC, name="collapse")
        arithmetic = {node for node in sink.toposort() if _is_arithmetic(node)}
        if not arithmetic:
            return sink
        sink = inline_stages(sink, arithmetic)


def _is_arithmetic(node: UOp) -> bool:
    if node.op is not Ops.STAGE or not node.arg.removable:
        return False
    below = node.src[0].toposort(lambda n: n.op not in (Ops.INDEX, Ops.REDUCE))
    return not any(part.op in (Ops.INDEX, Ops.REDUCE) for part in below)
