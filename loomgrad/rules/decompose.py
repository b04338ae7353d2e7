"""Operations that a processor lacks, in terms of those it has.

Termination: each rule replaces an operation by ones that no rule here matches.
"""

from __future__ import annotations

from collections.abc import Callable

from loomgrad.dtype import dtypes
from loomgrad.ir.matcher import PatternMatcher
from loomgrad.ir.opcode import Op, Ops
from loomgrad.ir.pattern import UPat
from loomgrad.ir.rule import rewrites
from loomgrad.ir.uop import UOp
from loomgrad.rules.functions.exponential import exp, exp2
from loomgrad.rules.functions.hyperbolic import tanh
from loomgrad.rules.functions.logarithm import log, log2, supported
from loomgrad.rules.functions.power import power
from loomgrad.rules.functions.trigonometric import sin
from loomgrad.rules.integers import divide_down, random_bits, remain_down, whole_power

FUNCTIONS: dict[Op, Callable[..., UOp]] = {
    Ops.EXP: exp,
    Ops.EXP2: exp2,
    Ops.LOG: log,
    Ops.LOG2: log2,
    Ops.SIN: sin,
    Ops.TANH: tanh,
    Ops.POW: power,
}


@rewrites(UPat(tuple(FUNCTIONS), name="node"))
def elementary_function(node: UOp) -> UOp | None:
    """Before: EXP(x).   After: its polynomial and what puts the parts together; short floats in float32.

    Because: `rules/functions` says how each is derived and how accurate it is.
    """
    if not node.dtype.is_float:
        return None
    wide = node.dtype if supported(node.dtype) else dtypes.float32
    return FUNCTIONS[node.op](*(source.cast(wide) for source in node.src)).cast(node.dtype)


DECOMPOSE = PatternMatcher(
    [divide_down, remain_down, whole_power, random_bits, elementary_function]
)
