"""`graph_rewrite` and `substitute`: order, fixed points, gates, loops, depth, observation."""

import time
from collections.abc import Callable

import pytest

from loomgrad.dtype import dtypes
from loomgrad.errors import LoomError, RewriteLoopError
from loomgrad.ir.args import ParamArg
from loomgrad.ir.matcher import PatternMatcher
from loomgrad.ir.observe import Observer, RuleStatistics, observers, observing
from loomgrad.ir.opcode import Ops
from loomgrad.ir.pattern import UPat
from loomgrad.ir.rewrite import STOP, graph_rewrite
from loomgrad.ir.rule import AnyRule, FunctionRule, Rule, rewrites
from loomgrad.ir.substitute import substitute, substitute_ranges
from loomgrad.ir.uop import UOp

x, y = UPat.var("x"), UPat.var("y")
c, c0, c1 = UPat.cvar("c"), UPat.cvar("c0"), UPat.cvar("c1")
i, j, k = UOp.range(10, 0), UOp.range(7, 1), UOp.range(5, 2)
two, three = UOp.const(2), UOp.const(3)


@rewrites(UPat())
def record(node: UOp, ctx: list[UOp]) -> None:
    """Before: anything.   After: the same, and the visit is in ctx.   Because: tests."""
    ctx.append(node)


@rewrites(UPat(Ops.ADD, src=(c0, c1)))
def fold_sum(c0: UOp, c1: UOp) -> UOp:
    """Before: 2 + 3.   After: 5.   Because: constants."""
    return UOp.const(c0.val + c1.val)


@rewrites(UPat(Ops.MUL, src=(c0, c1)))
def fold_product(c0: UOp, c1: UOp) -> UOp:
    """Before: 2 * 3.   After: 6.   Because: constants."""
    return UOp.const(c0.val * c1.val)


FOLD = PatternMatcher([fold_sum, fold_product, Rule("zero", x + 0, x), Rule("one", x * 1, x)])
RECORD = PatternMatcher([record])


def rewriting(*rules: AnyRule) -> Callable[..., UOp]:
    return lambda node, **options: graph_rewrite(node, PatternMatcher(rules), **options)


# ---- order and fixed points


def test_rules_see_a_node_after_its_sources_or_before_them() -> None:
    root = (i + j) * (j + 2)
    visits: list[UOp] = []
    assert graph_rewrite(root, RECORD, visits) is root
    assert visits == [i.src[0], i, j.src[0], j, i + j, two, j + 2, root] == root.toposort()
    visits.clear()
    assert graph_rewrite(root, RECORD, visits, bottom_up=True) is root
    assert visits == [root, i + j, i, i.src[0], j, j.src[0], j + 2, two]
    visits.clear()
    graph_rewrite(i + i, RECORD, visits, bpm=RECORD)
    assert visits == [i + i, i, i.src[0], i.src[0], i, i + i]


@pytest.mark.parametrize("bottom_up", [False, True])
def test_to_a_fixed_point(bottom_up: bool) -> None:
    node = ((i * (two + three)) + (two * 0 + 0)) * 1
    assert graph_rewrite(node, FOLD, bottom_up=bottom_up) is i * 5


def test_what_a_rule_returns_is_rewritten_from_the_start() -> None:
    unfold = FunctionRule(UPat(Ops.NEG, src=(x,)), lambda x: x * (two + three) + (two * 0))
    node = UOp(Ops.NEG, (i + 0,))
    matcher = PatternMatcher([unfold]) + FOLD
    assert graph_rewrite(node, matcher) is i * 5
    assert graph_rewrite(node, matcher, bottom_up=True) is i * 5
    assert graph_rewrite(node, FOLD, bpm=PatternMatcher([unfold])) is i * 5


def test_a_rule_runs_once_on_each_node() -> None:
    visits: list[UOp] = []
    shared = i + j
    node = (shared * 2 + shared) * (shared * 2)
    graph_rewrite(node + 0, RECORD + FOLD, visits)
    assert len(visits) == len(set(visits)) and node in visits
    assert graph_rewrite(node, RECORD, []) is node, "a graph without matches is the same object"


def test_a_function_sees_sources_that_are_final() -> None:
    seen: list[UOp] = []
    watch = FunctionRule(UPat(Ops.SIN, name="n"), lambda n, ctx: ctx.append(n))
    graph_rewrite(UOp(Ops.SIN, (i * (two + three) + 0,)), PatternMatcher([watch]) + FOLD, seen)
    assert seen == [UOp(Ops.SIN, (i * 5,))]


def test_tags_args_and_dtypes_survive_new_sources() -> None:
    node = UOp(Ops.CAST, (i + 0,), dtypes.int8, "tag")
    assert graph_rewrite(node, FOLD) is UOp(Ops.CAST, (i,), dtypes.int8, "tag")


# ---- gates, walks, bodies


def test_a_gate_finishes_a_node_without_descending() -> None:
    stop = PatternMatcher([(UPat(Ops.SIN), lambda node: STOP)])
    gated = UOp(Ops.SIN, (i + 0,))
    assert graph_rewrite(gated + (i + 0), FOLD, bpm=stop) is gated + i
    visits: list[UOp] = []
    graph_rewrite(gated, stop + RECORD, visits, bottom_up=True)
    assert visits == []
    assert graph_rewrite(gated + (i + 0), FOLD, bpm=stop, walk=True) is gated + i
    assert graph_rewrite(gated, stop + FOLD) is UOp(Ops.SIN, (i,)), (
        "after its sources it is too late"
    )


def test_a_walk_does_not_rewrite_what_rules_return() -> None:
    grow = PatternMatcher([(UPat(Ops.RANGE, name="r"), lambda r: r + 0)])
    assert graph_rewrite(i * j, grow, walk=True) is (i + 0) * (j + 0)
    assert graph_rewrite(i * j, grow, walk=True, bottom_up=True) is (i + 0) * (j + 0)
    visits: list[UOp] = []
    root = (i + j) * (i + j)
    graph_rewrite(root, RECORD, visits, walk=True)
    assert visits == root.toposort()
    replace = FunctionRule(UPat(Ops.ADD), lambda node: i * 1)
    assert graph_rewrite(root, PatternMatcher([replace]) + FOLD, walk=True, bottom_up=True) is UOp(
        Ops.MUL, (i * 1, i * 1)
    ), "nothing below a returned node is visited"


@pytest.mark.parametrize("walk", [False, True])
def test_bodies_of_calls_on_request(walk: bool) -> None:
    call = UOp.sink(i + 0).call(j + 0)
    assert graph_rewrite(call, FOLD, walk=walk) is UOp.sink(i + 0).call(j)
    assert graph_rewrite(call, FOLD, walk=walk, enter_calls=True) is UOp.sink(i).call(j)


# ---- loops


def test_two_rules_that_undo_each_other_are_named() -> None:
    run = rewriting(
        Rule("to_sum", x * 2, x + x),
        Rule("to_product", x + x, x * 2),
        Rule("innocent", x - x, x),
    )
    for options in ({}, {"bottom_up": True}, {"name": "demo"}):
        with pytest.raises(RewriteLoopError) as caught:
            run(UOp(Ops.SIN, (i * 2 + j,)), **options)
        assert caught.value.rules == ("to_sum", "to_product")
        assert "never come to rest in" in caught.value.problem and "<MUL" in str(caught.value)
    assert "'demo'" in str(caught.value)


def test_a_rule_that_wraps_what_it_matches_is_named() -> None:
    wrap = FunctionRule(UPat(Ops.RANGE, name="r"), lambda r: r + 1, "wrap")
    for options in ({}, {"bottom_up": True}):
        with pytest.raises(RewriteLoopError, match="'wrap' never comes to rest") as caught:
            rewriting(wrap)(i * j, **options)
        assert caught.value.rules == ("wrap",) and caught.value.facts["node"] is i


def test_a_loop_through_both_matchers_and_through_new_sources_is_named() -> None:
    down = PatternMatcher([Rule("down", x - 1, x + -1)])
    up = PatternMatcher([Rule("up", x + -1, x - 1)])
    with pytest.raises(RewriteLoopError) as caught:
        graph_rewrite(i - 1, up, bpm=down)
    assert set(caught.value.rules) == {"up", "down"}
    grow = FunctionRule(UPat(Ops.SIN, src=(x,)), lambda x: UOp(Ops.EXP, (x,)))
    back = FunctionRule(
        UPat(Ops.EXP, src=(x,)), lambda x: UOp(Ops.EXP, (UOp(Ops.SIN, (x,)),)), "back"
    )
    with pytest.raises(RewriteLoopError) as caught:
        rewriting(grow, back)(UOp(Ops.SIN, (i,)))
    assert "back" in caught.value.rules


def test_growth_without_end_is_named() -> None:
    longer = FunctionRule(UPat(Ops.ADD, src=(x, c)), lambda x, c: x + (c.val + 1), "longer")
    deeper = FunctionRule(UPat(Ops.CAST, src=(x,)), lambda x: (x + 1).cast(dtypes.int8), "deeper")
    inner = FunctionRule(
        UPat(Ops.NEG, src=(UPat.cvar("c"),)),
        lambda c: UOp(Ops.SIN, (-UOp.const(c.val + 1),)),
        "inner",
    )
    for rule, node in ((longer, i + 1), (deeper, i.cast(dtypes.int8)), (inner, -two)):
        for bottom_up in (False, True):
            with pytest.raises(RewriteLoopError, match="never comes to rest") as caught:
                graph_rewrite(node, PatternMatcher([rule]), bottom_up=bottom_up)
            assert caught.value.rules == (rule.name,)


def test_long_chains_that_end_are_no_loops() -> None:
    count = FunctionRule(
        UPat(Ops.ADD, src=(x, c)), lambda x, c: x + (c.val + 1) if c.val < 5000 else None
    )
    assert rewriting(count)(i + 1) is i + 5000
    negate = FunctionRule(
        UPat(Ops.NEG, src=(UPat(Ops.ADD, src=(x, y)),)), lambda x, y: UOp(Ops.ADD, (-x, -y))
    )
    node = i
    for number in range(20_000):
        node = UOp(Ops.ADD, (node, UOp.const(number)))
    result = rewriting(negate)(-node)
    negated = [below.src[0] for below in result.toposort() if below.op is Ops.NEG]
    assert len(negated) > 20_000 and not any(below.op is Ops.ADD for below in negated)


def test_an_error_in_a_rule_passes_through() -> None:
    def broken(node: UOp) -> UOp:
        raise KeyError(node.op.name)

    with pytest.raises(KeyError, match="ADD"):
        graph_rewrite(i + j, PatternMatcher([(UPat(Ops.ADD), broken)]))


@pytest.mark.parametrize("walk", [False, True])
def test_only_nodes_replace_nodes(walk: bool) -> None:
    text = FunctionRule(UPat(Ops.ADD), lambda node: "text", "to_text")
    with pytest.raises(LoomError, match="rule 'to_text' returned str, not a node"):
        graph_rewrite(i + j, PatternMatcher([text]), walk=walk)
    with pytest.raises(LoomError, match="rule 'to_text' returned str, not a node"):
        graph_rewrite(i + j, PatternMatcher([text]), walk=walk, bottom_up=True)


# ---- size


def chain(length: int) -> UOp:
    node = i
    for number in range(length):
        node = node + (number % 7 + 1)
    return node


@pytest.mark.parametrize(("bottom_up", "walk"), [(False, False), (True, False), (False, True)])
def test_deep_graphs(bottom_up: bool, walk: bool) -> None:
    negate = FunctionRule(UPat(Ops.ADD, src=(x, y)), lambda x, y: UOp(Ops.SUB, (x, y)))
    deep = chain(20_000)
    result = graph_rewrite(deep, PatternMatcher([negate]), bottom_up=bottom_up, walk=walk)
    assert sum(node.op is Ops.SUB for node in result.toposort()) == 20_000
    assert graph_rewrite(deep, RECORD, [], bottom_up=bottom_up, walk=walk) is deep


def test_doubled_graphs_in_linear_time() -> None:
    node = i + 0
    for _ in range(60):
        node = node + node
    visits: list[UOp] = []
    assert graph_rewrite(node, RECORD + FOLD, visits) is not node
    assert len(visits) < 200
    assert substitute(node, {i: j}).ranges == {j}
    assert substitute_ranges(node, {i: j}).ranges == {j}


def test_a_visit_without_a_match_costs_a_few_steps_of_a_plain_walk() -> None:
    deep = chain(30_000)
    ratios = [
        _seconds(lambda: graph_rewrite(deep, FOLD)) / _seconds(deep.toposort) for _ in range(5)
    ]
    assert min(ratios) < 9, "it is about 3"


def _seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


# ---- substitution


def test_substitute_replaces_all_at_once() -> None:
    node = i * j + i
    assert substitute(node, {i: j, j: i}) is j * i + j
    assert substitute(node, {i: i + 1}) is (i + 1) * j + (i + 1)
    assert substitute(node, {node: k}) is k and substitute(node, {k: i}) is node
    assert substitute(node, {i * j: k, j: two}) is k + i, (
        "below a replaced node nothing is replaced"
    )


def test_substitute_and_bodies() -> None:
    call = UOp.sink(i + j).call(i)
    assert substitute(call, {i: k}) is UOp.sink(i + j).call(k)
    assert substitute(call, {i: k}, enter_calls=True) is UOp.sink(k + j).call(k)


def test_substitute_ranges_looks_only_where_they_are_open() -> None:
    total = (i * j).fold_ranges(Ops.ADD, i)
    node = total + i * j
    assert substitute_ranges(node, {i: k}) is total + k * j, "i is closed in the sum"
    assert substitute_ranges(node, {j: k}) is (i * k).fold_ranges(Ops.ADD, i) + i * k
    storage = UOp(Ops.PARAM, (), ParamArg(0, dtypes.int32, 10))
    assert substitute_ranges(storage.index(j), {i: k}) is storage.index(j)


# ---- observation


class Diary(Observer):
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.entries: list[tuple[object, ...]] = []

    def begin(self, name: str, root: UOp) -> None:
        self.entries.append(("begin", name, root))

    def end(self, name: str, result: UOp | None) -> None:
        self.entries.append(("end", name, result))

    def fired(self, rule: AnyRule, before: UOp, after: object, seconds: float) -> None:
        self.entries.append((rule.name, before, after))


def test_observers_hear_of_every_rule_that_fires() -> None:
    node = (i + 0) * (two + three)
    diary, statistics = Diary(), RuleStatistics()
    with observing(diary), observing(statistics):
        assert graph_rewrite(node, FOLD, name="fold") is i * 5
    assert observers == []
    assert diary.entries == [
        ("begin", "fold", node),
        ("zero", i + 0, i),
        ("fold_sum", two + three, UOp.const(5)),
        ("end", "fold", i * 5),
    ]
    counts = {name: (count.hits, count.misses) for name, count in statistics.rules.items()}
    assert counts["zero"] == (1, 0) and counts["fold_sum"] == (1, 1) and counts["one"] == (0, 1)
    assert statistics.table().splitlines()[0].split() == ["hits", "misses", "ms", "rule"]
    assert graph_rewrite(node, FOLD) is i * 5 and len(diary.entries) == 4, "nobody listens any more"


def test_observers_hear_of_the_end_of_a_failed_rewrite() -> None:
    diary = Diary()
    wrap = FunctionRule(UPat(Ops.RANGE, name="r"), lambda r: r + 1, "wrap")
    with observing(diary), pytest.raises(RewriteLoopError):
        rewriting(wrap)(i)
    assert diary.entries[-1] == ("end", "rewrite", None)
