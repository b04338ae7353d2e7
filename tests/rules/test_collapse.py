"""Reduce collapse: the loop is gone, and every value is the same."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any

import pytest

from loomgrad.dtype import DType, cast_value, dtypes, truncate
from loomgrad.ir.args import AxisType, Invalid, ParamArg
from loomgrad.ir.opcode import Op, Ops
from loomgrad.ir.ops import ROWS, identity_element
from loomgrad.ir.rewrite import graph_rewrite
from loomgrad.ir.uop import UOp
from loomgrad.rules import SYMBOLIC
from loomgrad.rules.collapse import COLLAPSE
from tests.rules.brute import value_of

RULES = COLLAPSE + SYMBOLIC
i, j = UOp.range(5, 0), UOp.range(4, 1)
r, s = UOp.range(6, 2, AxisType.REDUCE), UOp.range(3, 3, AxisType.REDUCE)
Memory = Mapping[UOp, list[Any]]


def param(slot: int, dtype: DType, size: int) -> UOp:
    return UOp(Ops.PARAM, (), ParamArg(slot, dtype, size))


LABELS, TABLE, NUMBERS = (
    param(0, dtypes.int32, 5),
    param(1, dtypes.float32, 24),
    param(2, dtypes.int32, 24),
)
FAR = param(3, dtypes.uint8, 5)
MEMORY: Memory = {
    LABELS: [0, 3, 5, -1, 6],
    TABLE: [math.nan, math.inf, -math.inf, -0.0, *(float(n) for n in range(20))],
    NUMBERS: [2**31 - 1 - n * 1234567 for n in range(24)],
    FAR: [0, 255, 5, 2, 7],
}
label, far = LABELS.index(i), FAR.index(i)


def choice(condition: UOp, value: UOp, otherwise: float = 0) -> UOp:
    return UOp(Ops.WHERE, (condition, value, value.const_like(otherwise)))


def total(value: UOp, *loops: UOp) -> UOp:
    return value.fold_ranges(Ops.ADD, *loops)


def computed(node: UOp, env: Mapping[UOp, Any]) -> Any:
    """The value of a ranged graph: loads and reductions first, innermost loops inside."""
    known = dict(env)
    for part in node.toposort(gate=lambda part: part.op not in (Ops.REDUCE, Ops.INDEX)):
        if part.op is Ops.REDUCE:
            known[part] = _reduced(part, env)
        elif part.op is Ops.INDEX:
            known[part] = _read(part, env)
    return value_of(node, known)


def _reduced(node: UOp, env: Mapping[UOp, Any]) -> Any:
    loops = node.src[1:]
    result = identity_element(node.arg.op, node.dtype)
    evaluate = ROWS[node.arg.op].evaluate
    assert evaluate is not None
    envs = [dict(env)]
    for loop in loops:
        envs = [{**e, loop: n} for e in envs for n in range(int(loop.src[0].val))]
    for each in envs:
        value = cast_value(computed(node.src[0], each), node.src[0].dtype, node.dtype)
        result = truncate(node.dtype, evaluate(result, value))
    return result


def _read(node: UOp, env: Mapping[UOp, Any]) -> Any:
    place = computed(node.src[1], env)
    memory = MEMORY[node.src[0]]
    if place is Invalid:
        return truncate(node.dtype, 0)
    assert 0 <= place < len(memory), "reads outside of its memory"
    return memory[place]


def collapsed(before: UOp) -> UOp:
    """The collapsed graph, after checking it against the loop."""
    after = graph_rewrite(before, RULES)
    assert graph_rewrite(after, RULES) is after
    for a in range(5):
        for b in range(4):
            expected, found = computed(before, {i: a, j: b}), computed(after, {i: a, j: b})
            same = expected == found or (expected != expected and found != found)
            assert same and type(expected) is type(found), (a, b, expected, found)
    return after


def loops_in(node: UOp) -> set[UOp]:
    return {part for part in node.toposort() if part.op is Ops.RANGE} - {i, j}


one = UOp.const(1, dtypes.int32)
row = TABLE.index(r * 4 + j)

# fmt: off
COLLAPSING = {
    "arange":            total(choice(~(i < r), one), r),
    "arange, strict":    total(choice(r < i, one), r),
    "count between":     total(choice((r < i) & ~(r < 2), one), r),
    "count none":        total(choice((r < 2) & ~(r < 4), one), r),
    "count scaled":      total(choice(r * 2 + 1 < i + j, one), r),
    "count of a value":  total(choice(r < i, label), r),
    "count, other gate": total(choice((r < i) & (j < 2), label), r),
    "count a constant":  total(choice(r < i, UOp.const(0.5, dtypes.float32)), r),
    "count data":        total(choice(r.cast(dtypes.int32) < label, one), r),
    "count above data":  total(choice(label < r.cast(dtypes.int32), one), r),
    "count bools":       total((r < i).cast(dtypes.int32), r),
    "count small ints":  total(choice(r < i, FAR.index(i)), r),
    "gather":            total(choice(r.cast(dtypes.int32).eq(label), row), r),
    "gather, turned":    total(choice(label.eq(r.cast(dtypes.int32)), row), r),
    "gather, negated":   total(UOp(Ops.WHERE, (label.ne(r.cast(dtypes.int32)), row.const_like(0.0), row)), r),
    "gather, uint8":     total(choice(r.cast(dtypes.uint8).eq(far), row), r),
    "gather, weak":      total(choice(r.eq(far.cast(dtypes.weakint)), row), r),
    "gather, shifted":   total(choice((r + 2).cast(dtypes.int32).eq(label), row), r),
    "gather, reversed":  total(choice((5 - r).cast(dtypes.int32).eq(label), row), r),
    "gather, clause":    total(choice(r.cast(dtypes.int32).eq(label) & (r < 4), row), r),
    "every second":      total(choice((r * 2).eq(i), row), r),
    "strided, shifted":  total(choice((r * -3).eq(i * 2 - 4), row), r),
    "strided by data":   total(choice((r * 2).eq(label.cast(dtypes.weakint)), row), r),
    "gather by loop":    total(choice(r.eq(i + 1), row), r),
    "gather, halved":    total(choice(label.eq(r.cast(dtypes.int32)), row) * -0.5, r),
    "gather, cast":      total(choice(label.eq(r.cast(dtypes.int32)), row).cast(dtypes.float64), r),
    "greatest of one":   choice(label.eq(r.cast(dtypes.int32)), row, -math.inf).fold_ranges(Ops.MAX, r),
    "any":               r.cast(dtypes.int32).eq(label).fold_ranges(Ops.MAX, r),
    "any below":         (r < i).fold_ranges(Ops.MAX, r),
    "one hot, ints":     total(choice(label.eq(r.cast(dtypes.int32)), one) * NUMBERS.index(r * 4 + j), r),
    "unused, greatest":  TABLE.index(i).fold_ranges(Ops.MAX, r),
    "unused, ints":      total(NUMBERS.index(i), r),
    "unused, product":   NUMBERS.index(i).fold_ranges(Ops.MUL, r),
    "unused, bools":     total(label < 3, r),
    "constant":          total(UOp.const(3, dtypes.int32), r),
    "two loops":         total(choice(r.eq(i) & s.eq(j), NUMBERS.index(r * 3 + s)), r, s),
    "sum of both":       total(label + choice(r < i, one) + choice(r.eq(j), label), r),
}
KEEPING = {
    "floats added up":   total(choice(r < i, TABLE.index(i)), r),
    "nan times zero":    total(r.cast(dtypes.int32).eq(label).cast(dtypes.float32) * row, r),
    "float product":     TABLE.index(i).fold_ranges(Ops.MUL, r),
    "no identity":       total(choice(r.eq(i), row, 1.0), r),
    "wrapped label":     total(choice(UOp.range(300, 2).cast(dtypes.uint8).eq(far), far), UOp.range(300, 2)),
    "every third":       total(choice((r % 3).eq(i), row), r),
    "plain":             total(row, r),
}
# fmt: on


@pytest.mark.parametrize("name", COLLAPSING)
def test_the_loop_is_gone(name: str) -> None:
    after = collapsed(COLLAPSING[name])
    assert not loops_in(after)
    assert not any(part.op is Ops.REDUCE for part in after.toposort())


@pytest.mark.parametrize("name", KEEPING)
def test_the_loop_stays_where_values_would_change(name: str) -> None:
    after = collapsed(KEEPING[name])
    assert any(part.op is Ops.REDUCE for part in after.toposort())


def test_what_remains_of_well_known_forms() -> None:
    assert graph_rewrite(COLLAPSING["arange"], RULES) is (i + 1).cast(dtypes.int32)
    gather = graph_rewrite(COLLAPSING["gather"], RULES)
    index = next(
        part for part in gather.toposort() if part.op is Ops.INDEX and part.src[0] is TABLE
    )
    assert index.src[1].op is Ops.WHERE and index.src[1].src[2].arg is Invalid
    assert gather.src[0] is index.src[1].src[0], "value and index have the same gate"


def test_part_of_the_loops_may_go() -> None:
    after = collapsed(total(choice(label.eq(r.cast(dtypes.int32)), row), r, s))
    assert not loops_in(after)
    kept = collapsed(total(choice(r.eq(i), TABLE.index(r * 4 + s)), r, s))
    assert loops_in(kept) == {s}
    factored = collapsed(total(NUMBERS.index(r) * label, r))
    assert factored.op is Ops.MUL and loops_in(factored) == {r}


def test_loops_without_iterations() -> None:
    empty = UOp.range(0, 2, AxisType.REDUCE)
    assert graph_rewrite(total(label, empty), RULES) is UOp.const(0, dtypes.int32)


def test_random_masks() -> None:
    draw = random.Random(1)
    operands = (r, r + 1, r * 2, r * -1 + 3, i, j, i + j, UOp.const(2), r + i)
    for _ in range(150):
        clauses = [_clause(draw, operands) for _ in range(draw.choice((1, 2, 2, 3)))]
        gate = clauses[0]
        for clause in clauses[1:]:
            gate = gate & clause
        op: Op = draw.choice((Ops.ADD, Ops.MAX, Ops.MUL))
        value = draw.choice((one, label, NUMBERS.index(r * 4 + j), row))
        neutral = identity_element(op, value.dtype)
        collapsed(choice(gate, value, neutral).fold_ranges(op, r))


def _clause(draw: random.Random, operands: tuple[UOp, ...]) -> UOp:
    a, b = draw.choice(operands), draw.choice(operands)
    kind = draw.randrange(4)
    if kind == 0:
        return ~(a < b)
    return a.eq(b) if kind == 1 else a < b
