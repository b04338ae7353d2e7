"""Collapse: reductions that only pick one element or count some lose their loop.

Needs: a ranged graph.  Guarantees: the same values; arange, one-hot selections, gathers and embeddings written as
masked sums are index arithmetic.
"""

from __future__ import annotations

from loomgrad.ir.rewrite import graph_rewrite
from loomgrad.ir.uop import UOp
from loomgrad.rules import SYMBOLIC
from loomgrad.rules.collapse import COLLAPSE
from loomgrad.target import Target


def collapse(sink: UOp, target: Target) -> UOp:
    """The ranged graph with needless reductions removed."""
    return graph_rewrite(sink, COLLAPSE + SYMBOLIC, name="collapse")
