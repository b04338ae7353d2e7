"""The op table: complete rows, special values, and that the laws it claims hold on values."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from loomgrad.dtype import DType, dtypes
from loomgrad.dtype.number import Number
from loomgrad.ir import fold
from loomgrad.ir.opcode import GroupOp, Op, Ops, OpSet
from loomgrad.ir.ops import (
    BOUNDS_RULES,
    DTYPE_RULES,
    ROWS,
    SHAPE_RULES,
    TABLE,
    Level,
    Property,
    identity_element,
)
from loomgrad.ir.uop import UOp
from loomgrad.ir.verify import verify
from loomgrad.ir.well_formed import SOURCE_COUNTS, fault_of_form
from tests.ir.samples import samples
from tests.ir.values_of import same, values_of

INF, NAN = math.inf, math.nan


# ---- the table


def test_one_row_per_operation_in_order() -> None:
    assert [row.op for row in TABLE] == list(Ops)
    assert len(ROWS) == len(Ops) == len(SHAPE_RULES) == len(DTYPE_RULES) == len(BOUNDS_RULES)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.op.name)
def test_rows_say_what_is_needed(row: Any) -> None:
    assert row.meaning and not row.meaning.endswith(".")
    assert row.levels
    assert (row.evaluate is not None) == (
        row.op in GroupOp.Elementwise and row.op not in (Ops.CAST, Ops.BITCAST)
    )


def test_groups_agree_with_the_table() -> None:
    def having(flag: Property) -> set[Op]:
        return {row.op for row in TABLE if flag in row.properties}

    assert having(Property.COMMUTES) == set(GroupOp.Commutative)
    assert having(Property.ASSOCIATES) == set(GroupOp.Associative)
    counts = {op: SOURCE_COUNTS[op] for op in GroupOp.Elementwise}
    assert {op for op, count in counts.items() if count == (1, 1)} == set(GroupOp.Unary)
    assert {op for op, count in counts.items() if count == (2, 2)} == set(GroupOp.Binary)
    assert {op for op, count in counts.items() if count == (3, 3)} == set(GroupOp.Ternary)


def test_groups_carry_their_bits() -> None:
    for group in (GroupOp.Movement, GroupOp.Elementwise, OpSet(), OpSet(Ops.ADD)):
        assert group.mask == sum(op.bit for op in group)
    assert len({op.bit for op in Ops}) == len(Ops)
    assert Ops["ADD"] is Ops.ADD and isinstance(Ops.ADD, Ops) and repr(Ops.ADD) == "Ops.ADD"


@pytest.mark.parametrize("op", list(Ops), ids=lambda op: op.name)
def test_samples_are_well_formed_at_some_level(op: Op) -> None:
    node = samples()[op]
    levels = [level for level in Level if level in ROWS[op].levels and level is not Level.PROGRAM]
    assert any(fault_of_form(node, level) is None for level in levels)


def test_effects_have_no_dtype_and_values_have_a_shape() -> None:
    for op, node in samples().items():
        effect = node.dtype is dtypes.void
        assert effect == (Property.EFFECT in ROWS[op].properties)
        assert effect == (node.shape_or_none is None)


def test_a_tensor_sample_of_every_operation_verifies() -> None:
    for op, node in samples().items():
        if Level.TENSOR in ROWS[op].levels and op not in (Ops.SINK, Ops.REDUCE, Ops.INDEX):
            assert verify(UOp(Ops.SINK, (node,)), Level.TENSOR, op.name) == 0


# ---- laws


def folded(op: Op, dtype: DType, *operands: Number) -> Number:
    function = ROWS[op].evaluate
    assert function is not None
    result: Number = fold.fold(function, dtype, operands)
    return result


def result_dtype(op: Op, dtype: DType) -> DType:
    return dtypes.bool if op in GroupOp.Comparison else dtype


DTYPES = (dtypes.bool, dtypes.int8, dtypes.uint8, dtypes.int64, dtypes.float32)


@pytest.mark.parametrize("op", sorted(GroupOp.Commutative), ids=lambda op: op.name)
def test_commutative_operations_commute(op: Op) -> None:
    for dtype in DTYPES:
        if dtype.is_float and op in (Ops.AND, Ops.OR, Ops.XOR):
            continue
        out = result_dtype(op, dtype)
        for a, b in itertools.combinations(values_of(dtype), 2):
            left, right = folded(op, out, a, b), folded(op, out, b, a)
            assert same(left, right) or left == right == 0, (op, dtype, a, b)


@pytest.mark.parametrize("op", sorted(GroupOp.Associative), ids=lambda op: op.name)
def test_associative_operations_associate_on_ints(op: Op) -> None:
    for dtype in (dtypes.bool, dtypes.int8, dtypes.uint8, dtypes.int64):
        for a, b, c in itertools.product(values_of(dtype)[::4], repeat=3):
            left = folded(op, dtype, folded(op, dtype, a, b), c)
            assert left == folded(op, dtype, a, folded(op, dtype, b, c)), (op, dtype, a, b, c)


@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX], ids=lambda op: op.name)
def test_identity_elements_change_nothing(op: Op) -> None:
    for dtype in dtypes.all:
        neutral = identity_element(op, dtype)
        for value in values_of(dtype):
            assert folded(op, dtype, value, neutral) == value or value != value


# ---- special values


def test_division_conventions() -> None:
    low = int(dtypes.int32.min)
    for a, b in itertools.product((-7, -6, 0, 5, 7, low), (-3, -1, 1, 3)):
        assert folded(Ops.FLOORDIV, dtypes.int64, a, b) == a // b
        assert folded(Ops.FLOORMOD, dtypes.int64, a, b) == a % b
        toward_zero = math.trunc(a / b)
        assert folded(Ops.CDIV, dtypes.int64, a, b) == toward_zero
        assert folded(Ops.CMOD, dtypes.int64, a, b) == a - toward_zero * b
    for op in GroupOp.Division:
        assert folded(op, dtypes.int32, 7, 0) == 0
    for op, expected in ((Ops.FLOORDIV, low), (Ops.CDIV, low), (Ops.FLOORMOD, 0), (Ops.CMOD, 0)):
        assert folded(op, dtypes.int32, low, -1) == expected


def test_ints_wrap() -> None:
    assert folded(Ops.ADD, dtypes.int8, 127, 1) == -128
    assert folded(Ops.SUB, dtypes.uint8, 0, 1) == 255
    assert folded(Ops.MUL, dtypes.int32, 1 << 20, 1 << 20) == 0
    assert folded(Ops.NEG, dtypes.int8, -128) == -128
    assert folded(Ops.NEG, dtypes.uint16, 1) == 65535


def test_shifts() -> None:
    for distance, left, right in ((0, -5, -5), (1, -10, -3), (31, -(2**31), -1)):
        assert folded(Ops.SHL, dtypes.int32, -5, distance) == left
        assert folded(Ops.SHR, dtypes.int32, -5, distance) == right
    for op, distance in itertools.product((Ops.SHL, Ops.SHR), (-1, 32, 63, 64, 1000)):
        assert folded(op, dtypes.int32, -5, distance) == 0
    assert folded(Ops.SHR, dtypes.uint64, 2**64 - 1, 63) == 1
    assert folded(Ops.SHR, dtypes.uint8, 255, 8) == 0


def test_powers() -> None:
    assert folded(Ops.POW, dtypes.int32, 3, 4) == 81
    assert folded(Ops.POW, dtypes.int32, 2, -1) == 0
    assert folded(Ops.POW, dtypes.int32, 3, 2**31 - 1) == pow(3, 2**31 - 1, 2**32) - 2**32 * (
        pow(3, 2**31 - 1, 2**32) >> 31
    )
    assert folded(Ops.POW, dtypes.int64, -1, 2**62 + 1) == -1
    assert folded(Ops.POW, dtypes.float64, -8.0, 1 / 3) != folded(
        Ops.POW, dtypes.float64, -8.0, 1 / 3
    )
    assert folded(Ops.POW, dtypes.float64, 0.0, -2.0) == INF
    assert folded(Ops.POW, dtypes.float64, -0.0, -3.0) == -INF
    assert folded(Ops.POW, dtypes.float64, -10.0, 999.0) == -INF
    assert folded(Ops.POW, dtypes.float64, NAN, 0.0) == 1.0


# fmt: off
UNARY_SPECIALS = (
    (Ops.LOG2,       ((0.0, -INF), (-0.0, -INF), (-1.0, NAN), (INF, INF), (8.0, 3.0), (NAN, NAN))),
    (Ops.LOG,        ((0.0, -INF), (-1.0, NAN), (1.0, 0.0), (INF, INF), (NAN, NAN))),
    (Ops.SQRT,       ((-1.0, NAN), (-0.0, -0.0), (4.0, 2.0), (INF, INF), (-INF, NAN))),
    (Ops.RECIPROCAL, ((0.0, INF), (-0.0, -INF), (INF, 0.0), (-INF, -0.0), (4.0, 0.25))),
    (Ops.SIN,        ((INF, NAN), (-INF, NAN), (0.0, 0.0), (-0.0, -0.0), (NAN, NAN))),
    (Ops.COS,        ((INF, NAN), (-INF, NAN), (0.0, 1.0), (-0.0, 1.0), (NAN, NAN))),
    (Ops.EXP2,       ((2000.0, INF), (-2000.0, 0.0), (3.0, 8.0), (-INF, 0.0), (INF, INF))),
    (Ops.EXP,        ((1000.0, INF), (-1000.0, 0.0), (0.0, 1.0), (NAN, NAN))),
    (Ops.TANH,       ((INF, 1.0), (-INF, -1.0), (-0.0, -0.0), (NAN, NAN))),
    (Ops.TRUNC,      ((2.9, 2.0), (-2.9, -2.0), (-0.5, -0.0), (INF, INF), (NAN, NAN), (1e300, 1e300))),
    (Ops.NEG,        ((0.0, -0.0), (INF, -INF), (NAN, NAN))),
)
BINARY_SPECIALS = (
    (Ops.FDIV,   ((1.0, 0.0, INF), (1.0, -0.0, -INF), (0.0, 0.0, NAN), (-1.0, INF, -0.0), (INF, INF, NAN))),
    (Ops.MAX,    ((NAN, 1.0, NAN), (1.0, NAN, NAN), (INF, 1.0, INF), (-INF, -1.0, -1.0))),
    (Ops.CMPLT,  ((NAN, 1.0, False), (1.0, NAN, False), (-0.0, 0.0, False), (-INF, INF, True))),
    (Ops.CMPNE,  ((NAN, NAN, True), (0.0, -0.0, False), (1.0, 2.0, True))),
    (Ops.CMPEQ,  ((NAN, NAN, False), (0.0, -0.0, True), (INF, INF, True))),
    (Ops.ADD,    ((INF, -INF, NAN), (-0.0, -0.0, -0.0), (-0.0, 0.0, 0.0), (NAN, 1.0, NAN))),
    (Ops.MUL,    ((INF, 0.0, NAN), (-1.0, 0.0, -0.0), (INF, -2.0, -INF))),
)
# fmt: on


def test_special_values_of_float_operations() -> None:
    for op, cases in UNARY_SPECIALS:
        for x, expected in cases:
            assert same(folded(op, dtypes.float64, x), expected), (op, x)
    for op, triples in BINARY_SPECIALS:
        for a, b, expected in triples:
            assert same(folded(op, result_dtype(op, dtypes.float64), a, b), expected), (op, a, b)


def test_truncation_keeps_large_ints() -> None:
    assert folded(Ops.TRUNC, dtypes.int64, 2**62 + 1) == 2**62 + 1


def test_multiply_add_rounds_once() -> None:
    """(1 + e)(1 - e) - 1 is -e*e; with the product rounded first it is 0."""
    e = 2.0**-30
    assert folded(Ops.MULACC, dtypes.float64, 1 + e, 1 - e, -1.0) == -e * e
    assert folded(Ops.MULACC, dtypes.int8, 100, 2, 100) == 44
    assert folded(Ops.MULACC, dtypes.float64, INF, 0.0, 1.0) != folded(
        Ops.MULACC, dtypes.float64, INF, 0.0, 1.0
    )
    assert folded(Ops.MULACC, dtypes.float64, 1e308, 10.0, -INF) == -INF
    assert folded(Ops.MULACC, dtypes.float64, 1e308, 10.0, 1.0) == INF


def test_threefry_gives_the_published_vectors() -> None:
    """Known answers of Random123, threefry2x32 with 20 rounds; the first word is the low half."""
    vectors = (
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    )
    for counter, key, expected in vectors:
        words = [low | high << 32 for low, high in (counter, key, expected)]
        assert folded(Ops.THREEFRY, dtypes.uint64, words[0], words[1]) == words[2]


def test_bool_arithmetic_is_logic() -> None:
    for a, b in itertools.product((False, True), repeat=2):
        assert folded(Ops.ADD, dtypes.bool, a, b) is (a or b)
        assert folded(Ops.MUL, dtypes.bool, a, b) is (a and b)
        assert folded(Ops.MAX, dtypes.bool, a, b) is (a or b)
        assert folded(Ops.SUB, dtypes.bool, a, b) is (a != b)
