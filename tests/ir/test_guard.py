"""Guards of rules."""

import pickle

import pytest

from loomgrad.dtype import dtypes
from loomgrad.errors import LoomError
from loomgrad.ir.args import Invalid
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
from loomgrad.ir.matcher import PatternMatcher
from loomgrad.ir.rule import Rule
from loomgrad.ir.uop import UOp
from tests.ir.matching import both, i, j, strong, where_node, x, y


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
