"""The algebra, as tables of laws by subject.

`SYMBOLIC` is what `simplify` applies: index arithmetic, logic, choices, validity and casts, exact on every value.
Importing this package fills the slot of `loomgrad.ir.simplify`.
"""

from __future__ import annotations

from loomgrad.ir.rewrite import graph_rewrite
from loomgrad.ir.simplify import fill
from loomgrad.ir.simplify import simplify as simplify
from loomgrad.ir.uop import UOp
from loomgrad.rules.arith import ARITH, WRAP
from loomgrad.rules.canonical import CANONICAL
from loomgrad.rules.cast import CAST
from loomgrad.rules.compare import COMPARE
from loomgrad.rules.divmod import DIVMOD
from loomgrad.rules.fold import FOLD
from loomgrad.rules.index import INDEX
from loomgrad.rules.lift_cast import LIFT_CAST
from loomgrad.rules.valid import GATES, VALID
from loomgrad.rules.where import WHERE

# Termination, by the first of these that changes: reductions with loops; divisions, casts, choices and gates below
# other operations; the number of operations, where SUB and NEG of ints count double and a product of a sum counts as
# the sum of products it becomes; how far constants are from the outside; pairs of operands out of order.
# GATES comes first: a law like x * 0 = 0 must not lose a gate.  WRAP makes constants what the bounds take them for.
# CANONICAL orders what the laws have settled.
_NUMBERS = WRAP + FOLD + CAST + LIFT_CAST + INDEX + ARITH + DIVMOD
SYMBOLIC = GATES + _NUMBERS + COMPARE + WHERE + CANONICAL + VALID


def _simplified(node: UOp) -> UOp:
    return graph_rewrite(node, SYMBOLIC, name="simplify")


fill(_simplified)
