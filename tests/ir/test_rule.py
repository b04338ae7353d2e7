"""Laws as data: what they may say, and how their results take the place of a node."""

import pytest

from loomgrad.dtype import DType, dtypes
from loomgrad.errors import LoomError
from loomgrad.ir.args import Invalid, ReduceArg
from loomgrad.ir.guard import is_int, no_overflow, nonzero, positive, valid
from loomgrad.ir.matcher import PatternMatcher, rules
from loomgrad.ir.opcode import Ops
from loomgrad.ir.pattern import UPat, where
from loomgrad.ir.rule import FAST, SAFE, Rule
from loomgrad.ir.uop import UOp
from tests.ir.matching import b, both, c, c0, c1, i, j, strong, where_node, x, y

ALGEBRA = rules(
    "t",
    Rule("zero", x + 0, x, why="0 is neutral"),
    Rule("nest", (x // c0) // c1, x // (c0 * c1), when=positive(c1), why="floor of floor"),
    Rule("cancel", (x * c) // c, x, when=nonzero(c) & no_overflow, why="exact"),
    Rule("arms", where(b, x, x), x, why="both agree"),
    Rule(
        "not", where(~b, x, y), where(b, y, x), when=valid(y), why="Invalid stays in the else arm"
    ),
    Rule("double", x + x, x * 2, why="one operation"),
    Rule("self", x - x, 0, when=is_int(x), why="not for NaN"),
    Rule("clamp", x.maximum(y).maximum(x), x.maximum(y), why="idempotent"),
    Rule("fast", x / x, 1, level=FAST, why="ignores 0, inf, NaN"),
)


def test_laws() -> None:
    assert both(ALGEBRA, i + 0) is i and both(ALGEBRA, 0 + i) is i
    expected = UOp(Ops.FLOORDIV, (i, UOp(Ops.MUL, (UOp.const(3), UOp.const(4)))))
    assert both(ALGEBRA, i // 3 // 4) is expected
    assert both(ALGEBRA, i // 3 // -4) is None
    assert both(ALGEBRA, where_node(i < j, i, i)) is i
    assert both(ALGEBRA, where_node(~(i < j), i, j)) is where_node(i < j, j, i)
    assert both(ALGEBRA, where_node(~(i < j), i, UOp.const(Invalid))) is None
    assert both(ALGEBRA, i + i) is i * 2
    for node in (i.maximum(j).maximum(i), i.maximum(j.maximum(i)), j.maximum(i).maximum(i)):
        assert both(ALGEBRA, node) in (i.maximum(j), j.maximum(i))
    assert [rule.name for rule in ALGEBRA.rules][:2] == ["t.zero", "t.nest"]
    assert [rule.level for rule in ALGEBRA.rules if isinstance(rule, Rule)] == [SAFE] * 8 + [FAST]


def test_no_overflow_judges_the_inner_operations_of_both_sides() -> None:
    small, large = strong(dtypes.int8).cast(dtypes.int32), strong(dtypes.int32)
    assert both(ALGEBRA, (small * 3) // 3) is small
    assert both(ALGEBRA, (large * 3) // 3) is None
    moved = PatternMatcher([Rule("move", x + c0 < c1, x < c1 - c0, when=no_overflow)])
    five, most = UOp.const(-5, dtypes.int32), UOp.const(2**31 - 1, dtypes.int32)
    assert both(moved, small + five < five) is (small < UOp(Ops.SUB, (five, five)))
    assert both(moved, small + five < most) is None, "the constant on the right side would wrap"


def test_numbers_become_what_a_user_would_have_written() -> None:
    matcher = PatternMatcher([Rule("half", -x, x * -1), Rule("up", x.trunc(), x + 1)])
    assert both(matcher, -strong(dtypes.int32)) is strong(dtypes.int32) * -1
    assert both(matcher, -strong(dtypes.float32)) is strong(dtypes.float32) * -1
    assert both(matcher, -strong(dtypes.uint8)) is strong(dtypes.uint8) * 255
    truncated = UOp(Ops.TRUNC, (strong(dtypes.float16),))
    assert both(matcher, truncated) is strong(dtypes.float16) + 1


@pytest.mark.parametrize(
    ("dtype", "value"),
    [(dtypes.int32, 0), (dtypes.float32, 0.0), (dtypes.weakint, 0), (dtypes.bool, False)],
)
def test_a_number_in_place_of_a_node_has_its_dtype(dtype: DType, value: bool | int | float) -> None:
    zero = PatternMatcher(
        [Rule("zero", x.maximum(x), 0), Rule("chosen", x - x, where(x < 1, 0, 0))]
    )
    operand = i if dtype.is_weak else strong(dtype)
    result = both(zero, UOp(Ops.MAX, (operand, operand)))
    assert isinstance(result, UOp) and result.val == value
    assert result.dtype is dtype and type(result.val) is type(value)
    if dtype is dtypes.int32:
        arms = UOp.const(0, dtype)
        assert both(zero, UOp(Ops.SUB, (operand, operand))) is where_node(operand < 1, arms, arms)


def test_a_result_gets_the_dtype_and_shape_of_what_it_replaces() -> None:
    first = PatternMatcher(
        [Rule("first", x + y, x), Rule("bool", x < y, x), Rule("zero", x * y, 0)]
    )
    weak, wide = UOp.const(3), strong(dtypes.int32)
    assert both(first, UOp(Ops.ADD, (weak, wide))) is UOp.const(3, dtypes.int32)
    assert both(first, wide < i) is wide.cast(dtypes.bool)
    row, table = strong(dtypes.int32, 0, (1, 4)), strong(dtypes.int32, 1, (3, 4))
    assert both(first, UOp(Ops.ADD, (row, table))) is row.expand(3, 4)
    result = both(first, UOp(Ops.MUL, (table, table)))
    assert isinstance(result, UOp) and result.shape == (3, 4) and result.dtype is dtypes.int32


def test_a_result_that_cannot_fit_does_not_replace() -> None:
    arms = PatternMatcher([Rule("condition", where(b, x, y), b.cast(dtypes.float32))])
    assert both(arms, where_node(i < j, i, j)) is None, "weak dtypes have no cast"
    table, row = strong(dtypes.int32, 0, (3, 4)), strong(dtypes.int32, 1, (1, 4))
    shrunk = PatternMatcher([Rule("shrunk", UPat(Ops.SHRINK, src=(x,), allow_more=True), x)])
    assert both(shrunk, table.shrink(((0, 1), (0, 4)))) is None
    assert both(shrunk, row.shrink(((0, 1), (0, 4)))) is None
    mixed = PatternMatcher([Rule("mixed", x.cast(), x + 0.5)])
    assert both(mixed, wide_to_int64()) is None, "weakfloat beside an int is ill-typed"


def wide_to_int64() -> UOp:
    return strong(dtypes.int32).cast(dtypes.int64)


def test_ill_typed_nodes_match_no_rule() -> None:
    bad = UOp(Ops.ADD, (strong(dtypes.int8), strong(dtypes.float32)))
    assert both(PatternMatcher([Rule("any", x + y, x), (x, lambda x: "text")]), bad) is None


def test_what_a_law_may_say() -> None:
    with pytest.raises(LoomError, match="the result of rule 'r' uses 'y', which not every match"):
        Rule("r", x + 0, y)
    with pytest.raises(LoomError, match="uses 'x', which not every match"):
        Rule("r", UPat.any(x + 0, y * 1), x)
    with pytest.raises(LoomError, match="the guard of rule 'r' uses 'c'"):
        Rule("r", x + 0, x, when=positive(c))
    with pytest.raises(LoomError, match=r"the guard positive must be applied.*\n.*positive\(x\)"):
        Rule("r", x + 0, x, when=positive)
    for after in (UPat(Ops.ADD), x.reduce(), UPat(), UPat((Ops.ADD, Ops.MUL), src=(x, x))):
        with pytest.raises(LoomError, match="from which no node can be made"):
            Rule("r", x + 0, after)


def test_where_a_rule_stands_is_known() -> None:
    rule = Rule("r", x + 0, x, why="neutral")
    assert (
        rule.location.rpartition(":")[0] == __file__ and rule.renamed("s").location == rule.location
    )


def test_reduce_laws_by_fields() -> None:
    matcher = PatternMatcher([Rule("lift", UPat(Ops.REDUCE, src=(x,), arg={"op": Ops.MAX}), x)])
    value = strong(dtypes.int32, 0, (1,))
    single = UOp(Ops.REDUCE, (value,), ReduceArg(Ops.MAX, 0))
    assert both(matcher, single) is value
    assert both(matcher, UOp(Ops.REDUCE, (value,), ReduceArg(Ops.ADD, 0))) is None
