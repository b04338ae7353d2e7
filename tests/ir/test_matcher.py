"""Function rules, and matchers as ordered tables."""

import pickle

import pytest

from loomgrad.dtype import dtypes
from loomgrad.errors import LoomError
from loomgrad.ir.guard import positive
from loomgrad.ir.match_source import compile_rules
from loomgrad.ir.matcher import PatternMatcher, rules, rules_of
from loomgrad.ir.opcode import Ops
from loomgrad.ir.pattern import UPat
from loomgrad.ir.rule import FunctionRule, Rule, rewrites
from loomgrad.ir.uop import UOp
from tests.ir.matching import both, c, c0, c1, i, j, strong, x, y

LAWS = rules(
    "t",
    Rule("zero", x + 0, x, why="0 is neutral"),
    Rule("nest", (x // c0) // c1, x // (c0 * c1), when=positive(c1)),
)


@rewrites(UPat(Ops.CAST, src=(x,), name="cast"))
def drop_cast(cast: UOp, x: UOp) -> UOp | None:
    """Before: cast of x to its own dtype.   After: x.   Because: it changes nothing."""
    return x if cast.arg is x.dtype else None


@rewrites((Ops.ADD, Ops.MUL))
def describe(node: UOp, ctx: list[str]) -> str:
    """Before: a sum or product.   After: its name, also in ctx.   Because: tests."""
    ctx.append(node.op.name)
    return node.op.name


@rewrites(UPat.any(x * c, UPat.var("x")) + UPat(Ops.RANGE, name="loop"))
def pick_second_way(x: UOp, c: UOp | None, loop: UOp) -> UOp | None:
    """Before: x + loop.   After: x.   Because: a name that is not bound is None."""
    return None if c is not None else x


def test_function_rules() -> None:
    same = UOp(Ops.CAST, (strong(dtypes.int8),), dtypes.int8)
    matcher = PatternMatcher(
        [drop_cast, describe, (UPat(Ops.SUB, src=(x, y)), lambda y, x: (y, x))]
    )
    assert both(matcher, same) is strong(dtypes.int8)
    assert both(matcher, strong(dtypes.int8).cast(dtypes.int32)) is None
    names: list[str] = []
    assert both(matcher, i + j, names) == "ADD" and names == ["ADD"] * 3
    assert matcher.rewrite(i - j) == (j, i) == matcher.rewrite_interpreted(i - j)
    assert describe(i * j, []) == "MUL" and drop_cast.why.startswith("Before")
    assert drop_cast.name == "drop_cast" and matcher.rules[2].name.startswith("test_matcher:")


def test_each_binding_is_tried_then_each_rule() -> None:
    assert both(PatternMatcher([pick_second_way]), i * 3 + j) is i * 3
    seen: list[tuple[UOp, UOp]] = []
    refuse = FunctionRule(x + y, lambda x, y, ctx: ctx.append((x, y)))
    same = FunctionRule(UPat(Ops.ADD, name="n"), lambda n: n)
    matcher = PatternMatcher([refuse, same, (x + y, lambda x, y: y)])
    assert matcher.rewrite(i + j, seen) is j, "None and the node itself count as no match"
    assert seen == [(i, j), (j, i)]


def test_what_a_function_may_ask_for() -> None:
    with pytest.raises(LoomError, match=r"takes 'w', which its pattern .* does not name"):
        FunctionRule(UPat(Ops.ADD, src=(x, y), name="n"), lambda x, w: w)
    with pytest.raises(LoomError, match="takes 'v', which"):
        FunctionRule(x + y, lambda w, v: w)
    assert FunctionRule(x + y, lambda w, x: w).parameters == ("w", "x"), "one is the node itself"
    with pytest.raises(LoomError, match="plain names"):
        FunctionRule(x + y, lambda *nodes: nodes)
    with pytest.raises(LoomError, match="plain names"):
        FunctionRule(x + y, len)
    outside = i
    with pytest.raises(LoomError, match=r"closure; .* remembers outside"):
        FunctionRule(x + y, lambda x: outside)


def test_matchers_add_in_order_and_share_generated_code() -> None:
    first, second = rules("a", Rule("one", x + y, x)), rules("b", Rule("two", x + y, y))
    assert both(first + second, i + j) is i and both(second + first, i + j) is j
    total = first + second
    assert total.rules == first.rules + second.rules and len(total) == 2
    assert compile_rules(Ops.ADD, first.rules) is compile_rules(Ops.ADD, total.parts[0])
    equal = rules("a", Rule("one", x + y, x))
    assert compile_rules(Ops.ADD, equal.rules) is compile_rules(Ops.ADD, first.rules)


def test_matchers_pickle() -> None:
    again = pickle.loads(pickle.dumps(LAWS + PatternMatcher([drop_cast, describe])))
    assert again.rules == LAWS.rules + (drop_cast, describe) and len(again.parts) == 2
    assert both(again, i + 0) is i
    assert [rule.location for rule in again.rules] == [
        rule.location for rule in (*LAWS.rules, drop_cast, describe)
    ]
    by_code = PatternMatcher([(x + c, lambda x, c: i.alu(Ops.SUB, c))])
    assert both(pickle.loads(pickle.dumps(by_code)), j + 1) is i - 1


def test_rules_are_looked_up_by_operation() -> None:
    wild = FunctionRule(UPat(), lambda node: node.op)
    assert [rules_of(op, [wild]) for op in Ops] == [(wild,)] * len(Ops)
    assert [rule.name for rule in rules_of(Ops.ADD, LAWS.rules)] == ["t.zero"]
    assert rules_of(Ops.SIN, LAWS.rules) == ()
    assert [PatternMatcher([wild]).rewrite(node) for node in (i, i + j)] == [Ops.RANGE, Ops.ADD]
