"""Matchers: generated code against the interpreter, rules of both kinds, guards, results that fit, pickling."""

import pickle
from collections.abc import Callable
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomgrad.dtype import DType, dtypes
from loomgrad.errors import LoomError
from loomgrad.ir.args import Invalid, ParamArg, ReduceArg
from loomgrad.ir.guard import (
    Guard,
    guard,
    is_bool,
    is_float,
    is_int,
    is_weak,
    negative,
    no_overflow,
    nonnegative,
    nonzero,
    positive,
    same_dtype,
    valid,
)
from loomgrad.ir.match_interpreted import bindings
from loomgrad.ir.match_source import compile_rules
from loomgrad.ir.matcher import PatternMatcher, rules, rules_of
from loomgrad.ir.opcode import GroupOp, Op, Ops
from loomgrad.ir.pattern import UPat, where
from loomgrad.ir.rule import FAST, SAFE, AnyRule, FunctionRule, Rule, rewrites
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


# ---- generated code finds what the interpreter finds, in its order

NAMES = ("x", "y", "z", "c")
COLLECTORS: dict[tuple[str, ...], Callable[..., None]] = {
    names: eval(f"lambda ctx, {', '.join(names) or 'node'}: ctx.append(({', '.join(names)},))")
    for size in range(1, len(NAMES) + 1)
    for names in combinations(NAMES, size)
}
OPS = (Ops.ADD, Ops.MUL, Ops.SUB, Ops.MAX, Ops.FLOORDIV, Ops.CMPLT, Ops.CMPNE, Ops.WHERE, Ops.NEG)


@st.composite
def graphs(draw: st.DrawFn) -> list[UOp]:
    """Nodes built from each other, small enough for shapes to repeat."""
    nodes = [i, j, UOp.const(0), UOp.const(1), UOp.const(2, dtypes.int32), strong(dtypes.int32)]
    for _ in range(draw(st.integers(3, 12))):
        op = draw(st.sampled_from((*OPS, Ops.CAST, Ops.STACK)))
        pick = st.sampled_from(nodes)
        if op is Ops.CAST:
            nodes.append(draw(pick).cast(dtypes.int64))
        elif op is Ops.STACK:
            nodes.append(UOp.stack(draw(st.lists(pick, max_size=3))))
        else:
            count = 1 if op is Ops.NEG else 3 if op is Ops.WHERE else 2
            nodes.append(UOp(op, tuple(draw(pick) for _ in range(count))))
    return nodes


@st.composite
def patterns(draw: st.DrawFn, node: UOp, depth: int = 3) -> UPat:
    """A pattern that was made by forgetting parts of a node, so that it has a chance to match."""
    kind = draw(st.sampled_from(("var", "constant", "alternatives", "structure", "structure")))
    name = draw(st.sampled_from((None, "x", "y", "z")))
    if kind == "constant" and node.is_const():
        literal = UPat.const(node.val)
        return draw(st.sampled_from((literal, UPat.cvar("c"), UPat.cvar(), literal.or_casted())))
    if kind == "alternatives" and depth:
        ways = [draw(patterns(node, depth - 1)) for _ in range(draw(st.integers(1, 2)))]
        made = UPat.any(*ways)
        return made if name is None else made.named(name)
    if kind == "var" or not depth or not node.src:
        dtype = draw(st.sampled_from((None, None, node.dtype, dtypes.is_int)))
        some = draw(st.sampled_from((None, (node.op,), (node.op, Ops.ADD))))
        return UPat(some, dtype, name=name)
    below = [draw(patterns(source, depth - 1)) for source in node.src]
    src: tuple[UPat, ...] | list[UPat] | UPat = tuple(below)
    form = draw(st.sampled_from(("tuple", "list", "alu", "more", "each")))
    if form == "each":
        src = UPat({source.op for source in node.src})
    elif form == "more":
        src = tuple(below[:-1])
    elif form == "list" or (form == "alu" and node.op in GroupOp.Commutative):
        src = below
    ops = draw(st.sampled_from(((node.op,), (node.op, Ops.MUL))))
    arg = draw(st.sampled_from((None, node.arg)))
    return UPat(ops, None, src, arg, name, allow_more=form == "more")


@given(st.data())
def test_generated_code_enumerates_the_bindings_of_the_interpreter(data: st.DataObject) -> None:
    nodes = data.draw(graphs())
    made = [data.draw(patterns(data.draw(st.sampled_from(nodes)))) for _ in range(3)]
    collecting: list[AnyRule] = []
    for pattern in made:
        names = tuple(name for name in NAMES if name in pattern.names)
        if names:
            collecting.append(FunctionRule(pattern, COLLECTORS[names]))
    matcher = PatternMatcher(collecting)
    for node in nodes:
        generated: list[object] = []
        assert matcher.rewrite(node, generated) is None
        interpreted = [
            tuple(bound.get(name) for name in NAMES if name in rule.pattern.names)
            for rule in rules_of(node.op, collecting)
            for bound in bindings(rule.pattern, node)
        ]
        assert generated == interpreted


@st.composite
def laws(draw: st.DrawFn, node: UOp) -> Rule | None:
    """A law that may fire on a node; not a true one."""
    pattern = draw(patterns(node))
    names = sorted(pattern.sure_names)
    if not names:
        return None
    one, two = (UPat.var(draw(st.sampled_from(names))) for _ in range(2))
    afters: list[UPat | int] = [
        *(one, 1, -1, one + two, one * 2, 1 - (one + 3) * two, (one < 2).where(two, 0)),
        *(one.cast(), one.cast(dtypes.int64), (one < two).where(1, 0.5), one.maximum(-1)),
    ]
    guards = [
        *(None, is_int(one), nonzero(one) & ~is_weak(two), no_overflow, positive(one + two)),
        same_dtype(one, two) | no_overflow,
    ]
    after, when = draw(st.sampled_from(afters)), draw(st.sampled_from(guards))
    return Rule("law", pattern, after, when)


@given(st.data())
def test_generated_laws_give_what_interpreted_laws_give(data: st.DataObject) -> None:
    nodes = data.draw(graphs())
    made = [data.draw(laws(data.draw(st.sampled_from(nodes)))) for _ in range(4)]
    matcher = PatternMatcher([law for law in made if law is not None])
    for node in nodes:
        both(matcher, node)


# ---- the examples that rule tables are made of

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


def where_node(condition: UOp, chosen: UOp, otherwise: UOp) -> UOp:
    return UOp(Ops.WHERE, (condition, chosen, otherwise))


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
    assert drop_cast.location.rpartition(":")[0] == __file__


# ---- guards


def test_guards() -> None:
    number = UOp.const(3, dtypes.int32)
    wrapped = UOp.const(200, dtypes.int8)
    cases: list[tuple[Guard, UOp, bool]] = [
        (positive(x), number, True),
        (positive(x), wrapped, False),
        (negative(x), wrapped, True),
        (positive(x), i, False),
        (positive(x), i + 1, True),
        (nonnegative(x), i, True),
        (nonnegative(x), i - 1, False),
        (nonnegative(x), UOp.range(0, 5), False),
        (nonzero(x), number, True),
        (nonzero(x), i, False),
        (nonzero(x), i - 20, True),
        (nonzero(x), UOp.const(0.5), True),
        (nonzero(x), UOp.const(-0.0), False),
        (nonzero(x), UOp.const(256, dtypes.uint8), False),
        (nonzero(x), i.cast(dtypes.float32) + 1.0, False),
        (is_int(x), i, True),
        (is_int(x), i < j, False),
        (is_float(x), UOp.const(0.5), True),
        (is_bool(x), i < j, True),
        (is_weak(x), number, False),
        (valid(x), number, True),
        (valid(x), where_node(i < j, i, where_node(j < i, i, UOp.const(Invalid))), False),
        (valid(x), UOp.stack([i, UOp.const(Invalid)]), False),
        (no_overflow(x), i * 1000, True),
        (no_overflow(x), strong(dtypes.int32) + 1, False),
        (no_overflow(x), strong(dtypes.int16).cast(dtypes.int32) + 1, True),
        (no_overflow(x), strong(dtypes.int32).cast(dtypes.int8), False),
        (no_overflow(x), strong(dtypes.float32) + 1, True),
        (same_dtype(x, x + 1), i, True),
    ]
    for test, node, expected in cases:
        for combined, wanted in (
            (test, expected),
            (~test, not expected),
            (test & ~test, False),
            (test | ~test, True),
        ):
            matcher = PatternMatcher([Rule("r", x.named("x"), x + 7, when=combined)])
            assert (both(matcher, node) is not None) is wanted or node.dtype.is_bool, (
                combined,
                node,
            )


def test_guards_print_compare_and_pickle() -> None:
    combined = positive(x) & ~(is_int(y) | no_overflow)
    assert repr(combined) == "(positive(x) & ~(is_int(y) | no_overflow))"
    assert combined == positive(x) & ~(is_int(y) | no_overflow) != positive(x)
    assert pickle.loads(pickle.dumps(combined)) == combined


def test_a_guard_of_ones_own() -> None:
    threshold = 5
    with pytest.raises(LoomError, match="closure"):
        guard(lambda x: bool(x.vmax > threshold))


# ---- function rules


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


# ---- matchers


def test_matchers_add_in_order_and_share_generated_code() -> None:
    first, second = rules("a", Rule("one", x + y, x)), rules("b", Rule("two", x + y, y))
    assert both(first + second, i + j) is i and both(second + first, i + j) is j
    total = first + second
    assert total.rules == first.rules + second.rules and len(total) == 2
    assert compile_rules(Ops.ADD, first.rules) is compile_rules(Ops.ADD, total.parts[0])
    equal = rules("a", Rule("one", x + y, x))
    assert compile_rules(Ops.ADD, equal.rules) is compile_rules(Ops.ADD, first.rules)


def test_nothing_is_generated_before_a_node_comes_that_may_match() -> None:
    matcher = PatternMatcher([(x * c + y.exp() * 12345, lambda x: x)])
    compiled = compile_rules(Ops.ADD, matcher.rules)
    assert matcher.rewrite(i + j) is None and compiled.source == ""
    node = i * 3 + UOp(Ops.EXP, (i,)) * 12345
    assert both(matcher, node) is not None and "is EXP" in compiled.source


def test_source_masks_reject_before_any_source_is_looked_at() -> None:
    matcher = PatternMatcher(
        [(UPat(Ops.ADD, src=[UPat(Ops.MUL), UPat(Ops.RANGE)]), lambda node: 1)]
    )
    table = matcher.tables[Ops.ADD]
    assert table[Ops.MUL.bit] is None and table[Ops.RANGE.bit | Ops.SIN.bit] is None
    assert table[Ops.MUL.bit | Ops.RANGE.bit] is not None


def test_too_many_ways_are_refused() -> None:
    terms = [UPat.var(f"x{place}") for place in range(14)]
    total = terms[0]
    for term in terms[1:]:
        total = term + total
    matcher = PatternMatcher([(total, lambda node: 1)])
    with pytest.raises(LoomError, match="ways, more than 1024"):
        matcher.rewrite(i + j)


def test_matchers_pickle() -> None:
    again = pickle.loads(pickle.dumps(ALGEBRA + PatternMatcher([drop_cast, describe])))
    assert again.rules == ALGEBRA.rules + (drop_cast, describe) and len(again.parts) == 2
    assert both(again, i + 0) is i
    assert [rule.location for rule in again.rules] == [
        rule.location for rule in (*ALGEBRA.rules, drop_cast, describe)
    ]
    by_code = PatternMatcher([(x + c, lambda x, c: i.alu(Ops.SUB, c))])
    assert both(pickle.loads(pickle.dumps(by_code)), j + 1) is i - 1


def test_generated_text_shows_in_tracebacks() -> None:
    def fail(node: UOp) -> None:
        raise ZeroDivisionError

    matcher = PatternMatcher([(UPat(Ops.SIN), fail)])
    with pytest.raises(ZeroDivisionError) as caught:
        matcher.rewrite(UOp(Ops.SIN, (UOp.const(0.5),)))
    lines = [str(entry.statement) for entry in caught.traceback]
    assert any("# fail" in line for line in lines)


def test_reduce_laws_by_fields() -> None:
    matcher = PatternMatcher([Rule("lift", UPat(Ops.REDUCE, src=(x,), arg={"op": Ops.MAX}), x)])
    value = strong(dtypes.int32, 0, (1,))
    single = UOp(Ops.REDUCE, (value,), ReduceArg(Ops.MAX, 0))
    assert both(matcher, single) is value
    assert both(matcher, UOp(Ops.REDUCE, (value,), ReduceArg(Ops.ADD, 0))) is None


def test_every_operation_has_a_rule_table_of_its_own() -> None:
    wild = FunctionRule(UPat(), lambda node: node.op)
    assert [rules_of(op, [wild]) for op in Ops] == [(wild,)] * len(Ops)
    only: Callable[[Op], int] = lambda op: len(rules_of(op, ALGEBRA.rules))  # noqa: E731
    assert only(Ops.ADD) == 2 and only(Ops.SIN) == 0
