"""Random expressions: simplifying keeps every value, respects the bounds, and comes to rest."""

from __future__ import annotations

import pytest

from loomgrad.dtype import dtypes
from loomgrad.ir.args import Invalid
from loomgrad.ir.uop import UOp
from loomgrad.rules import simplify
from tests.rules.brute import environments, value_of
from tests.rules.random_index import RandomIndex
from tests.rules.random_typed import FLOATS, INTS, RandomTyped

SEEDS = range(12)
EACH = 15


def check_everywhere(before: UOp) -> UOp:
    """Compares an index expression with its simplified form for every value of its loop variables."""
    after = simplify(before)
    assert simplify(after) is after
    for env in environments(before):
        expected, found = value_of(before, env), value_of(after, env)
        if expected is Invalid:
            continue  # never read, so it may be anything
        assert found == expected and type(found) is type(expected), env
        assert before.vmin <= expected <= before.vmax and after.vmin <= found <= after.vmax
    return after


@pytest.mark.parametrize("seed", SEEDS)
def test_index_arithmetic(seed: int) -> None:
    for number in range(EACH):
        draw = RandomIndex(seed * EACH + number)
        check_everywhere(draw.number(4))


@pytest.mark.parametrize("seed", SEEDS)
def test_conditions(seed: int) -> None:
    for number in range(EACH):
        draw = RandomIndex(seed * EACH + number)
        check_everywhere(draw.condition(3))


@pytest.mark.parametrize("seed", SEEDS)
def test_positions_taken_apart_and_together(seed: int) -> None:
    for number in range(EACH):
        draw = RandomIndex(seed * EACH + number)
        check_everywhere(draw.position())


@pytest.mark.parametrize("seed", SEEDS)
def test_gated_indices(seed: int) -> None:
    for number in range(EACH):
        draw = RandomIndex(seed * EACH + number)
        check_everywhere(draw.gated(3))


@pytest.mark.parametrize("seed", SEEDS)
def test_values_that_wrap_and_round(seed: int) -> None:
    for number in range(4 * EACH):
        draw = RandomTyped(seed * 4 * EACH + number)
        before = draw.value(draw.random.choice((*INTS, *FLOATS, dtypes.bool)), 3)
        assert before.dtype is not dtypes.illtyped
        after = simplify(before)
        assert simplify(after) is after and after.dtype is before.dtype
        for _ in range(6):
            env = draw.environment(before, after)
            expected, found = value_of(before, env), value_of(after, env)
            assert type(found) is type(expected)
            assert found == expected or (found != found and expected != expected), env
            assert expected != expected or before.vmin <= expected <= before.vmax


def test_the_random_expressions_are_of_every_kind() -> None:
    """Else the tests above would say little."""
    seen: set[str] = set()
    for seed in range(60):
        draw = RandomIndex(seed)
        roots = [draw.number(4), draw.condition(3), draw.position(), draw.gated(3)]
        typed = RandomTyped(seed)
        roots += [typed.value(typed.random.choice((*INTS, *FLOATS)), 3)]
        seen |= {node.op.name for root in roots for node in root.toposort()}
    assert seen >= {
        "ADD",
        "SUB",
        "MUL",
        "NEG",
        "MAX",
        "FLOORDIV",
        "FLOORMOD",
        "CDIV",
        "CMOD",
        "WHERE",
    }
    assert seen >= {"CMPLT", "CMPEQ", "CMPNE", "AND", "OR", "XOR", "CAST", "FDIV", "RANGE", "INDEX"}
