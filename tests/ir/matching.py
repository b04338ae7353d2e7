"""What the tests of matching share: variables, nodes, and all ways to run a matcher at once."""

from loomgrad.dtype import DType, dtypes
from loomgrad.ir.args import ParamArg
from loomgrad.ir.matcher import PatternMatcher
from loomgrad.ir.opcode import Ops
from loomgrad.ir.pattern import UPat
from loomgrad.ir.uop import UOp

x, y, z = UPat.var("x"), UPat.var("y"), UPat.var("z")
b = UPat.var("b", dtypes.bool)
c, c0, c1 = UPat.cvar("c"), UPat.cvar("c0"), UPat.cvar("c1")
i, j = UOp.range(10, 0), UOp.range(7, 1)


def strong(dtype: DType, slot: int = 0, shape: tuple[int, ...] = ()) -> UOp:
    """A value of a strong dtype that is no constant."""
    return UOp(Ops.PARAM, (), ParamArg(slot, dtype, 1, shape=shape))


def both(matcher: PatternMatcher, node: UOp, ctx: object = None) -> object:
    """The result of a matcher, which the interpreter and the watched rules share."""
    result = matcher.rewrite(node, ctx)
    assert matcher.rewrite_interpreted(node, ctx) is result
    named = matcher.rewrite_named(node, ctx)
    assert result is (None if named is None else named[1])
    return result


def where_node(condition: UOp, chosen: UOp, otherwise: UOp) -> UOp:
    """WHERE, as it is."""
    return UOp(Ops.WHERE, (condition, chosen, otherwise))
