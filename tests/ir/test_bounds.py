"""Intervals hold every value: random integer expressions over all points, and the rules one by one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loomgrad.dtype import DType, dtypes
from loomgrad.ir.args import Invalid
from loomgrad.ir.evaluate import evaluate_tensor
from loomgrad.ir.opcode import GroupOp, Op, Ops
from loomgrad.ir.uop import UOp
from tests.ir.graphs import buffer, loop, tensor

LOOPS = (loop(4, 0), loop(5, 1), loop(3, 2))
INT_OPS = (
    *(Ops.ADD, Ops.SUB, Ops.MUL, Ops.MAX, Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR),
    *GroupOp.Division,
)
DTYPES = (dtypes.weakint, dtypes.int8, dtypes.uint8, dtypes.int32)


def all_values(node: UOp) -> np.ndarray:
    return evaluate_tensor(node.stage("CPU", *LOOPS), {})


def fitting_constant(draw: st.DrawFn, dtype: DType) -> UOp:
    low, high = (-9, 9) if dtype.is_weak else (max(int(dtype.min), -9), 9)
    return UOp.const(draw(st.integers(low, high)))


@st.composite
def int_expressions(draw: st.DrawFn) -> UOp:
    """An expression of one int dtype over LOOPS, with comparisons, choices and casts inside."""
    dtype: DType = draw(st.sampled_from(DTYPES))
    pool = [r if dtype.is_weak else r.cast(dtype) for r in LOOPS]
    for _ in range(draw(st.integers(1, 7))):
        pool.append(draw(st.sampled_from(GROW))(draw, pool, dtype))
    return pool[-1]


def grown_by_operation(draw: st.DrawFn, pool: list[UOp], dtype: DType) -> UOp:
    op: Op = draw(st.sampled_from(sorted(INT_OPS)))
    x = draw(st.sampled_from(pool))
    y = draw(st.sampled_from(pool)) if draw(st.booleans()) else fitting_constant(draw, dtype)
    if op in (Ops.SHL, Ops.SHR):
        y = UOp.const(draw(st.integers(0, 9)))
    node = UOp(op, (x, y) if op in (Ops.SHL, Ops.SHR) or draw(st.booleans()) else (y, x))
    small = not dtype.is_weak or all(abs(bound) < 1 << 40 for bound in node.bounds)
    return node if small else x


def grown_by_choice(draw: st.DrawFn, pool: list[UOp], dtype: DType) -> UOp:
    x, y, z = (draw(st.sampled_from(pool)) for _ in range(3))
    other = fitting_constant(draw, dtype)
    condition = UOp(
        draw(st.sampled_from(sorted(GroupOp.Comparison))), (x, draw(st.sampled_from([y, other])))
    )
    if draw(st.booleans()):
        second = UOp(draw(st.sampled_from(sorted(GroupOp.Comparison))), (z, y))
        condition = UOp(draw(st.sampled_from([Ops.AND, Ops.OR, Ops.XOR])), (condition, second))
    return condition.where(y, other)


def grown_by_cast(draw: st.DrawFn, pool: list[UOp], dtype: DType) -> UOp:
    through = draw(st.sampled_from([dtypes.bool, dtypes.int8, dtypes.uint8, dtypes.float32]))
    x = draw(st.sampled_from(pool)).cast(through)
    return x.cast(dtypes.int32 if dtype.is_weak else dtype).cast(dtype)


def grown_by_sign(draw: st.DrawFn, pool: list[UOp], dtype: DType) -> UOp:
    return UOp(draw(st.sampled_from([Ops.NEG, Ops.TRUNC])), (draw(st.sampled_from(pool)),))


GROW = (grown_by_operation, grown_by_operation, grown_by_choice, grown_by_cast, grown_by_sign)


@settings(max_examples=600)
@given(int_expressions())
def test_bounds_hold_every_value(node: UOp) -> None:
    for part in node.toposort():
        if part.dtype.is_int or part.dtype.is_bool:
            values = all_values(part)
            low, high = part.bounds
            assert low <= values.min() and values.max() <= high, part
            if not part.dtype.is_weak:
                assert part.dtype.min <= low and high <= part.dtype.max, part


def test_bounds_of_exact_rules() -> None:
    i, j, _ = LOOPS
    # fmt: off
    cases = (
        (i + j,           (0, 7)),   (i - j,           (-4, 3)),   (i * j,         (0, 12)),
        (-i,              (-3, 0)),  (i * 5 + j,       (0, 19)),   (i.maximum(2),  (2, 3)),
        (i.minimum(2),    (0, 2)),   (j // 2,          (0, 2)),    (j % 3,         (0, 2)),
        ((j + 6) % 16,    (6, 10)),  ((j - 9) // 4,    (-3, -2)),  (i << 2,        (0, 12)),
        (j >> 1,          (0, 2)),   (i & 1,           (0, 1)),    (i < 4,         (True, True)),
        (i < 0,           (False, False)), (i.eq(7),   (False, False)), (i.ne(-1), (True, True)),
        ((i < 2).where(i, 9), (0, 9)), (i.cast(dtypes.int8), (0, 3)), (i.cast(dtypes.float32), (0.0, 3.0)),
        ((i - 2).cast(dtypes.uint8), (0, 255)), ((i - 2).cast(dtypes.bool), (False, True)),
        ((i + 1).cast(dtypes.bool), (True, True)), (UOp.stack([i, j + 7]), (0, 11)),
    )
    # fmt: on
    for node, expected in cases:
        assert node.bounds == expected, node
        assert (node.vmin, node.vmax) == expected


def test_strong_ints_that_could_wrap_are_unknown() -> None:
    small = LOOPS[0].cast(dtypes.int8)
    assert (small * 42).bounds == (0, 126)
    assert (small * 43).bounds == (-128, 127)
    assert (LOOPS[0] * 43).bounds == (0, 129)


def test_shifts_beyond_the_width() -> None:
    negative = (LOOPS[0] - 5).cast(dtypes.int8)
    assert negative.alu(Ops.SHR, UOp.const(7)).bounds == (-1, -1)
    assert negative.alu(Ops.SHR, UOp.const(8)).bounds == (0, 0)
    assert negative.alu(Ops.SHL, UOp.const(8)).bounds == (0, 0)


def test_a_divisor_that_may_be_zero_gives_zero() -> None:
    i, j, _ = LOOPS
    assert ((i + 5) // j).bounds == (0, 8)
    assert UOp.const(7).alu(Ops.FLOORDIV, UOp.const(0)).bounds == (0, 0)
    assert ((i + 5) % UOp.const(0)).bounds == (0, 0)


def test_extremes_of_division() -> None:
    x = buffer(0, 1, dtypes.int32)
    low, high = dtypes.int32.min, dtypes.int32.max
    assert x.alu(Ops.CDIV, UOp.const(-1)).bounds == (low, high)
    assert x.alu(Ops.FLOORMOD, UOp.const(8)).bounds == (0, 7)
    assert x.alu(Ops.CMOD, UOp.const(8)).bounds == (-7, 7)
    assert x.alu(Ops.FLOORMOD, UOp.const(-8)).bounds == (-7, 0)


def test_padding_adds_zero() -> None:
    shifted = (UOp.const(5, dtypes.int32).expand(3)).pad(((1, 1),))
    assert shifted.bounds == (0, 5)


def test_floats_are_unknown_but_for_constants() -> None:
    everything = (-math.inf, math.inf)
    assert tensor(0, (2,)).bounds == everything
    assert UOp.const(2.5).bounds == (2.5, 2.5)
    assert UOp.const(math.nan).bounds == everything
    assert (UOp.const(1.0) + UOp.const(2.0)).bounds == everything
    assert UOp.const(2.5).trunc().bounds == (2.0, 2.0)
    assert UOp.const(2.5, dtypes.float32).cast(dtypes.int8).bounds == (2, 2)
    assert tensor(0, (2,)).cast(dtypes.int8).bounds == (-128, 127)
    condition = tensor(0, (2,)) < 1.0
    assert condition.bounds == (False, True)
    assert condition.where(UOp.const(1.0), UOp.const(1.0)).bounds == everything


def test_invalid_adds_nothing() -> None:
    i = LOOPS[0]
    gated = UOp(Ops.WHERE, (i < 2, i, UOp.const(Invalid)))
    assert gated.bounds == (0, 3)


@pytest.mark.parametrize("op", sorted(INT_OPS), ids=lambda op: op.name)
def test_nothing_follows_from_a_loop_without_iterations(op: Op) -> None:
    empty = loop(0, 9)
    assert empty.bounds == (0, -1)
    whole = (dtypes.weakint.min, dtypes.weakint.max)
    assert UOp(op, (empty, UOp.const(1))).bounds == whole
    assert empty.cast(dtypes.int8).bounds == (-128, 127)
    assert (empty < 5).bounds == (False, True)
