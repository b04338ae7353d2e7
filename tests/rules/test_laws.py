"""Every law of every table, on random typed values: both sides are equal wherever the law fires."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

import pytest

from loomgrad.dtype import DType, dtypes, truncate
from loomgrad.ir.args import Invalid, ParamArg
from loomgrad.ir.matcher import PatternMatcher
from loomgrad.ir.opcode import Ops
from loomgrad.ir.pattern import ANY_VALUE, UPat
from loomgrad.ir.right_side import instantiate
from loomgrad.ir.rule import Rule
from loomgrad.ir.uop import UOp
from loomgrad.rules import SYMBOLIC
from tests.rules.brute import value_of

LAWS = [rule for rule in SYMBOLIC.rules if isinstance(rule, Rule)]
DTYPES = (
    *(dtypes.weakint, dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.uint32, dtypes.int64),
    *(dtypes.bool, dtypes.float32, dtypes.float16, dtypes.float64),
)
SMALL = (-3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 8, 12, 100)
FLOATS = (0.0, -0.0, 1.0, -1.5, 3.0, math.inf, -math.inf, math.nan, 65504.0, 1e-8, 0.1)
ENOUGH = 12


class Drawn:
    """One random instance of a law's left side, and values for its leaves."""

    def __init__(self, rule: Rule, seed: int) -> None:
        self.random = random.Random(seed)
        self.rule = rule
        self.dtype = self.random.choice(DTYPES)
        self.bound: dict[str, UOp] = {}
        for pattern in rule.before.walk():
            if pattern.name is not None and pattern.name not in self.bound:
                self.bound[pattern.name] = self._node(pattern)
        outer = self._leaf(self.random.choice(DTYPES))
        self.node = instantiate(_unnamed(rule.before), self.bound, outer, False)

    def _node(self, pattern: UPat) -> UOp:
        if pattern.arg is not None:
            return UOp.const(Invalid)
        fitting = [
            d for d in (self.dtype, *DTYPES) if pattern.dtypes is None or pattern.dtypes.accepts(d)
        ]
        dtype = fitting[0]
        if pattern.value is not None:
            value = self._value(dtype) if pattern.value is ANY_VALUE else pattern.value
            weak = self.random.random() < 0.5 and not dtype.is_bool
            kind = (dtypes.weakfloat if dtype.is_float else dtypes.weakint) if weak else dtype
            return UOp.const(value, kind)
        if pattern.src is not None:
            inner = {p.name: self._node(p) for p in pattern.walk() if p is not pattern and p.name}
            self.bound.update(inner)
            return instantiate(pattern._with(name=None), self.bound, self._leaf(dtype), False)
        return self._leaf(dtype)

    def _leaf(self, dtype: DType) -> UOp:
        axis = self.random.randrange(3)
        small = UOp.range(self.random.choice((1, 3, 7)), axis) + self.random.choice((-4, 0, 0, 2))
        beside = self.random.random() < 0.15 and not dtype.is_bool  # a weak int beside the others
        if dtype is dtypes.weakint or beside:
            return small
        if self.random.random() < 0.4 and not dtype.is_bool:
            return small.cast(dtype)
        return UOp(Ops.PARAM, (), ParamArg(axis, dtype, 1)).index(0)

    def _value(self, dtype: DType) -> Any:
        if dtype.is_float:
            return self.random.choice(FLOATS)
        return self.random.random() < 0.5 if dtype.is_bool else self._int(dtype)

    def _int(self, dtype: DType) -> int:
        extreme = not dtype.is_weak and self.random.random() < 0.3
        values = (dtypes.min(dtype), dtypes.max(dtype)) if extreme else SMALL
        return int(truncate(dtype, self.random.choice(values)))

    def has_bits(self) -> bool:
        """Whether what is taken as bits has some: a weak int has none."""
        parts = self.node.toposort()
        return not any(p.op is Ops.BITCAST and p.src[0].dtype.fmt is None for p in parts)

    def environments(self, *nodes: UOp) -> Iterator[dict[UOp, Any]]:
        """Random values for the leaves."""
        leaves = {n for node in nodes for n in node.toposort() if n.op in (Ops.RANGE, Ops.INDEX)}
        for _ in range(10):
            yield {
                leaf: self.random.randrange(int(leaf.src[0].val))
                if leaf.op is Ops.RANGE
                else truncate(leaf.dtype, self._value(leaf.dtype))
                for leaf in leaves
            }


def _unnamed(pattern: UPat) -> UPat:
    return pattern._with(name=None)


def same(a: Any, b: Any) -> bool:
    """Equal, NaN to NaN, bools only to bools; the sign of a zero counts."""
    if isinstance(a, float) and isinstance(b, float):
        return (a != a and b != b) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return type(a) is type(b) and bool(a == b)


@pytest.mark.parametrize("rule", LAWS, ids=lambda rule: rule.name)
def test_both_sides_are_equal(rule: Rule) -> None:
    matcher = PatternMatcher([rule])
    fired = 0
    for seed in range(6000):
        drawn = Drawn(rule, seed)
        if drawn.node.dtype is dtypes.illtyped or not drawn.has_bits():
            continue
        after = matcher.rewrite(drawn.node)
        if after is None:
            continue
        assert isinstance(after, UOp)
        assert after.dtype is drawn.node.dtype or after.arg is Invalid
        for env in drawn.environments(drawn.node, after):
            expected, found = value_of(drawn.node, env), value_of(after, env)
            assert same(expected, found), (rule, drawn.node, env, expected, found)
        fired += 1
        if fired == ENOUGH:
            return
    raise AssertionError(f"{rule} fired {fired} times; can its guard be true?")


@pytest.mark.parametrize("rule", LAWS, ids=lambda rule: rule.name)
def test_the_right_side_binds_nothing_new(rule: Rule) -> None:
    assert rule.after.names <= rule.before.sure_names
    assert rule.why and rule.name.count(".") >= 1


def test_names_are_unique() -> None:
    names = [rule.name for rule in SYMBOLIC.rules]
    assert len(set(names)) == len(names)
    assert len(LAWS) > 80
