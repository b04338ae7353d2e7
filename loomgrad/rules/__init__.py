"""The algebra, as tables of laws by subject.

`SYMBOLIC` is what `simplify` applies: index arithmetic, logic, choices, validity and casts, exact on every value.
Importing this package fills the slot of `loomgrad.ir.simplify`.
"""

from __future__ import annotations

from loomgrad.ir.rewrite import graph_rewrite
from loomgrad.ir.simplify import fill
from loomgrad.ir.uop import UOp
from loomgrad.rules.fold import FOLD
from loomgrad.rules.index import INDEX

SYMBOLIC = FOLD + INDEX


def _simplified(node: UOp) -> UOp:
    return graph_rewrite(node, SYMBOLIC, name="simplify")


fill(_simplified)
