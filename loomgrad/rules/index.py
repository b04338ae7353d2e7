"""Index arithmetic: weakint expressions in normal form.

A weakint is mathematical, so a whole sum is treated at once: like terms join, constants of products are
distributed, terms stand in canonical order, multiples leave a division, and x // c * c + x % c is x again.
Equal expressions so become the same node, mostly.
"""

from __future__ import annotations

from loomgrad.dtype import dtypes
from loomgrad.ir.matcher import PatternMatcher
from loomgrad.ir.opcode import Ops
from loomgrad.ir.pattern import UPat
from loomgrad.ir.right_side import fit
from loomgrad.ir.rule import rewrites
from loomgrad.ir.uop import UOp
from loomgrad.rules.division import divided, quotient, remainder
from loomgrad.rules.recombine import recombined
from loomgrad.rules.sums import constant_of, sum_of


@rewrites(UPat((Ops.ADD, Ops.SUB, Ops.NEG, Ops.MUL), dtypes.weakint))
def normalize_sum(node: UOp) -> UOp | None:
    """Before: (j + 2) * 3 - i // 4 * 4 + i.   After: j * 3 + i % 4 + 6.   Because: sums are a ring."""
    total = sum_of(node)
    if total.only is node:
        return None
    return fit(recombined(total).build(), node)


@rewrites(UPat((Ops.FLOORDIV, Ops.FLOORMOD), dtypes.weakint))
def divide_sum(node: UOp) -> UOp | None:
    """Before: (i * 12 + j) // 12, with 0 <= j < 12.   After: i.

    Because: multiples of the divisor leave the division, and what remains may be bounded.
    """
    parts = divided(node)
    if parts is None:
        return None
    x, divisor = parts
    total = sum_of(x)
    divide = quotient if node.op is Ops.FLOORDIV else remainder
    return fit(divide(total, divisor).build(), node)


@rewrites(UPat((Ops.FLOORDIV, Ops.FLOORMOD), dtypes.weakint))
def positive_divisor(node: UOp) -> UOp | None:
    """Before: x // -3, x % -3.   After: (-x) // 3, -((-x) % 3).   Because: both are Python's, by definition."""
    divisor = constant_of(node.src[1])
    if divisor is None or divisor >= 0:
        return None
    negated = sum_of(node.src[0]).scaled(-1)
    if node.op is Ops.FLOORDIV:
        return fit(quotient(negated, -divisor).build(), node)
    return fit(remainder(negated, -divisor).scaled(-1).build(), node)


INDEX = PatternMatcher([normalize_sum, divide_sum, positive_divisor])
