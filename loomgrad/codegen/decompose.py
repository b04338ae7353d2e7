"""Decompose: operations that the target lacks, in terms of those it has.

Needs: a lanes graph.  Guarantees: no transcendental operation, floor division or random bits; these became
polynomials, divisions toward zero and integer arithmetic.
"""

from __future__ import annotations

from loomgrad.ir.rewrite import graph_rewrite
from loomgrad.ir.uop import UOp
from loomgrad.rules import SYMBOLIC
from loomgrad.rules.decompose import DECOMPOSE
from loomgrad.target import Target


def decompose(kernel: UOp, target: Target) -> UOp:
    """The kernel in operations that renderers spell."""
    return graph_rewrite(kernel, SYMBOLIC + DECOMPOSE, name="decompose")
