"""The operations that targets lack, in terms of those they have.

`DECOMPOSE` leaves ADD SUB MUL FDIV NEG RECIPROCAL SQRT TRUNC MAX MULACC CDIV CMOD, comparisons, bits, shifts, WHERE
and casts.  Termination: a result holds none of the operations replaced, but for a wider dtype.
"""

from __future__ import annotations

from collections.abc import Callable

from loomgrad.dtype import dtypes
from loomgrad.ir.matcher import PatternMatcher
from loomgrad.ir.opcode import Op, Ops
from loomgrad.ir.pattern import UPat
from loomgrad.ir.right_side import fit
from loomgrad.ir.rule import rewrites
from loomgrad.ir.uop import UOp
from loomgrad.rules.functions import division
from loomgrad.rules.functions.build import LAYOUTS
from loomgrad.rules.functions.exponential import exp, exp2
from loomgrad.rules.functions.hyperbolic import tanh
from loomgrad.rules.functions.logarithm import log, log2
from loomgrad.rules.functions.power import float_power, int_power
from loomgrad.rules.functions.threefry import threefry
from loomgrad.rules.functions.trigonometric import cos, sin

FUNCTIONS: dict[Op, Callable[..., UOp]] = {
    Ops.EXP: exp,
    Ops.EXP2: exp2,
    Ops.LOG: log,
    Ops.LOG2: log2,
    Ops.SIN: sin,
    Ops.COS: cos,
    Ops.TANH: tanh,
    Ops.POW: float_power,
}
DIVISIONS: dict[Op, Callable[[UOp, UOp], UOp | None]] = {
    Ops.FLOORDIV: division.floor_divide,
    Ops.FLOORMOD: division.floor_modulo,
    Ops.CDIV: division.truncated_divide,
    Ops.CMOD: division.truncated_modulo,
}
_COMPUTED = (
    *(Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV, Ops.NEG, Ops.RECIPROCAL),
    *(Ops.SQRT, Ops.TRUNC, Ops.MAX, Ops.MULACC, Ops.REDUCE),
)
_SHORT = frozenset((dtypes.float16, dtypes.bfloat16, *dtypes.float8s))


def _operands(node: UOp) -> list[UOp]:
    """The sources in the dtype of the node: ints become floats, and weak constants strong ones."""
    return [source.cast(node.dtype) for source in node.src]


@rewrites(UPat(tuple(FUNCTIONS), LAYOUTS))
def expand_function(node: UOp) -> UOp | None:
    """Before: EXP(x) of float32 or float64.   After: arithmetic, bits and choices.

    Because: see the files in `functions`.
    """
    return fit(FUNCTIONS[node.op](*_operands(node)), node)


@rewrites(UPat(tuple(FUNCTIONS), _SHORT))
def widen_function(node: UOp) -> UOp:
    """Before: EXP(x) of float16.   After: float16(EXP(float32(x))).

    Because: rounding the float32 result is right but for the rarest near-ties, and no target is faster.
    """
    wide = [source.cast(dtypes.float32) for source in node.src]
    return UOp(node.op, tuple(wide)).cast(node.dtype)


@rewrites(UPat(_COMPUTED, dtypes.bfloat16))
def widen_arithmetic(node: UOp) -> UOp:
    """Before: ADD(x, y) of bfloat16.   After: bfloat16(ADD(float32(x), float32(y))).

    Because: targets store bfloat16 and do not compute with it.
    """
    return UOp(node.op, _widened(node), node.arg).cast(node.dtype)


@rewrites(UPat((Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ)))
def widen_comparison(node: UOp) -> UOp | None:
    """Before: CMPLT(x, y) of bfloat16.   After: CMPLT(float32(x), float32(y)).   Because: see above."""
    if dtypes.bfloat16 not in (node.src[0].dtype, node.src[1].dtype):
        return None
    return UOp(node.op, _widened(node))


def _widened(node: UOp) -> tuple[UOp, ...]:
    count = 1 if node.op is Ops.REDUCE else len(node.src)
    wide = (source.cast(dtypes.bfloat16).cast(dtypes.float32) for source in node.src[:count])
    return (*wide, *node.src[count:])


@rewrites(UPat(Ops.POW, dtypes.ints))
def expand_int_power(node: UOp) -> UOp | None:
    """Before: a**b of ints.   After: a product of squares.   Because: b is the sum of its bits."""
    return fit(int_power(*_operands(node)), node)


@rewrites(UPat(tuple(DIVISIONS), dtypes.is_int))
def expand_division(node: UOp) -> UOp | None:
    """Before: a // b.   After: CDIV(a, b) less 1 where it was rounded up; a shift for b = 2**n.

    Because: both round the same quotient.
    """
    result = DIVISIONS[node.op](*_operands(node))
    return None if result is None else fit(result, node)


@rewrites(Ops.THREEFRY)
def expand_threefry(node: UOp) -> UOp | None:
    """Before: THREEFRY(counter, key).   After: 20 rounds of uint32 arithmetic.   Because: it is defined so."""
    return fit(threefry(*node.src), node)


DECOMPOSE = PatternMatcher(
    [
        *(expand_function, widen_function, widen_arithmetic, widen_comparison),
        *(expand_int_power, expand_division, expand_threefry),
    ]
)
