"""Generated matchers against the interpreter of the same patterns."""

from collections.abc import Callable
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomgrad.dtype import dtypes
from loomgrad.errors import LoomError
from loomgrad.ir.guard import is_int, is_weak, no_overflow, nonzero, positive, same_dtype
from loomgrad.ir.match_interpreted import bindings
from loomgrad.ir.match_source import compile_rules
from loomgrad.ir.matcher import PatternMatcher, rules_of
from loomgrad.ir.opcode import GroupOp, Ops
from loomgrad.ir.pattern import UPat
from loomgrad.ir.rule import AnyRule, FunctionRule, Rule
from loomgrad.ir.uop import UOp
from tests.ir.matching import both, c, i, j, strong, x, y

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


def test_generated_text_shows_in_tracebacks() -> None:
    def fail(node: UOp) -> None:
        raise ZeroDivisionError

    matcher = PatternMatcher([(UPat(Ops.SIN), fail)])
    with pytest.raises(ZeroDivisionError) as caught:
        matcher.rewrite(UOp(Ops.SIN, (UOp.const(0.5),)))
    lines = [str(entry.statement) for entry in caught.traceback]
    assert any("# fail" in line for line in lines)
