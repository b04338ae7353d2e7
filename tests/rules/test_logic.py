"""Choices, logic, casts and folded constants."""

from __future__ import annotations

import math

import pytest

from loomgrad.dtype import DType, dtypes
from loomgrad.ir.args import ParamArg
from loomgrad.ir.opcode import Ops
from loomgrad.ir.uop import UOp
from loomgrad.rules import simplify


def leaf(dtype: DType, slot: int = 0) -> UOp:
    return UOp(Ops.PARAM, (), ParamArg(slot, dtype, 1)).index(0)


def typed(value: float, dtype: DType) -> UOp:
    return UOp.const(value, dtype)


def choose(condition: UOp, chosen: UOp, otherwise: UOp) -> UOp:
    return UOp(Ops.WHERE, (condition, chosen, otherwise))


i, j = UOp.range(10, 0), UOp.range(4, 1)
b, c = leaf(dtypes.bool), leaf(dtypes.bool, 1)
x, y = leaf(dtypes.float32), leaf(dtypes.float32, 1)
n, u = leaf(dtypes.int32), leaf(dtypes.uint8)
TRUE, FALSE = UOp.const(True), UOp.const(False)
F32, I32, F16 = dtypes.float32, dtypes.int32, dtypes.float16

# fmt: off
FORMS = {
    "both arms":       (choose(b, x, x),                             x),
    "not":             (choose(~b, x, y),                            choose(b, y, x)),
    "differs":         (choose(x.ne(y), x, y),                       choose(x.eq(y), y, x)),
    "nested":          (choose(b, choose(b, x, y), y),               choose(b, x, y)),
    "both":            (choose(b, choose(c, x, y), y),               choose(b & c, x, y)),
    "either":          (choose(b, x, choose(c, x, y)),               choose(b | c, x, y)),
    "condition":       (choose(b, TRUE, FALSE),                      b),
    "of constants":    (choose(b, typed(2, I32), typed(0, I32)) * 3, choose(b, typed(6, I32), typed(0, I32))),
    "of constants, f": (-choose(b, typed(2.0, F32), typed(0.0, F32)), choose(b, typed(-2.0, F32), typed(-0.0, F32))),
    "back to bool":    (choose(b, typed(1, I32), typed(0, I32)).ne(0), b),
    "masked product":  (b.cast(I32) * n,                             choose(b, n, UOp.const(0))),
    "de Morgan":       ((~b) & (~c),                                 ~(b | c)),
    "absorbed":        (b & (b | c),                                 b),
    "complement":      (b | ~b,                                      TRUE),
    "chain":           ((c & b) & (b & c),                           c & b),
    "bool sum":        (UOp(Ops.ADD, (b, c)),                        b | c),
    "bool product":    (UOp(Ops.MUL, (b, c)),                        b & c),
    "bool maximum":    (UOp(Ops.MAX, (b, c)),                        b | c),
    "cast to itself":  (UOp(Ops.CAST, (x,), F32),                    x),
    "through double":  (x.cast(dtypes.float64).cast(F16),            x.cast(F16)),
    "wrapping twice":  (n.cast(dtypes.int16).cast(dtypes.int8),      n.cast(dtypes.int8)),
    "sign only":       (n.cast(dtypes.uint32).cast(I32),             n),
    "index":           (i.cast(I32).cast(dtypes.int64),              i.cast(dtypes.int64)),
    "index and back":  (i.cast(dtypes.int8).cast(dtypes.weakint),    i),
    "compared":        (i.cast(I32) < j.cast(I32),                   i < j),
    "bool compared":   (b.cast(F32).ne(0.0),                         b),
    "lifted":          (i.cast(I32) * 4 + j.cast(I32),               (i * 4 + j).cast(I32)),
    "twice":           (x + x,                                       x * 2),
    "minus zero":      (x - 0.0,                                     x),
    "plus minus zero": (x + -0.0,                                    x),
    "by one":          ((x * 1) / 1,                                 x),
    "two signs":       (-(-x),                                       x),  # noqa: B002
    "constants meet":  ((n + 5) - 3,                                 n + 2),
    "wrap":            (u + 250 + 10,                                u + 4),
    "scaled maximum":  ((i * 3).maximum(i * 5),                      i * 5),
    "scaled, minus":   ((i * -3).maximum(i * -5),                    i * -3),
    "large":           (u.maximum(300 - 45),                         typed(255, dtypes.uint8)),
}
KEPT = {
    "plus zero":       x + 0.0,
    "times zero":      x * 0.0,
    "minus itself":    x - x,
    "float constants": (x + 1.0) + 2.0,
    "through int":     x.cast(I32).cast(F32),
    "through float":   n.cast(F32).cast(I32),
    "saturating":      n.cast(dtypes.float64).cast(dtypes.int8),
    "widening wrap":   n.cast(dtypes.int8).cast(I32),
    "float order":     y + x,
    "float masks":     b.cast(F32) * x,
}
FOLDED = {
    "rounds":          (typed(0.1, F32) + typed(0.2, F32),           0.30000001192092896),
    "half":            (typed(1.0, F16) + typed(2.0**-12, F16),      1.0),
    "overflow":        (typed(60000.0, F16) * 2.0,                   math.inf),
    "wraps":           (typed(127, dtypes.int8) + typed(1, dtypes.int8), -128),
    "unsigned":        (typed(3, dtypes.uint8) - typed(5, dtypes.uint8), 254),
    "least by -1":     (typed(-128, dtypes.int8) // typed(-1, dtypes.int8), -128),
    "floor":           (typed(-7, I32) // typed(2, I32),             -4),
    "toward zero":     (UOp(Ops.CDIV, (typed(-7, I32), typed(2, I32))), -3),
    "saturates":       (typed(1e10, F32).cast(I32),                  2**31 - 1),
    "nan to int":      (typed(math.nan, F32).cast(I32),              0),
    "nan to bool":     (typed(math.nan, F32).cast(dtypes.bool),      True),
    "int division":    (UOp(Ops.FDIV, (typed(1, I32), typed(4, I32))), 0.25),
    "weak beside":     (typed(0.1, F32).eq(0.1),                     True),
    "bits":            (typed(1.0, F32).bitcast(I32),                0x3F800000),
    "log of zero":     (UOp(Ops.LOG2, (typed(0.0, F32),)),           -math.inf),
    "zero inverse":    (UOp(Ops.RECIPROCAL, (typed(-0.0, F32),)),    -math.inf),
}
# fmt: on


@pytest.mark.parametrize("name", FORMS)
def test_form(name: str) -> None:
    before, after = FORMS[name]
    assert simplify(before) is after


@pytest.mark.parametrize("name", KEPT)
def test_what_would_change_a_value_is_kept(name: str) -> None:
    assert simplify(KEPT[name]) is KEPT[name]


@pytest.mark.parametrize("name", FOLDED)
def test_folded(name: str) -> None:
    before, value = FOLDED[name]
    after = simplify(before)
    assert after.is_const() and after.dtype is before.dtype
    assert after.val == value and type(after.val) is type(value)


def test_nan_bits_are_not_folded() -> None:
    nan = typed(0x7FC00001, dtypes.uint32).bitcast(F32)
    assert simplify(nan) is nan


def test_large_powers_are_not_folded() -> None:
    power = UOp(Ops.POW, (UOp.const(7), UOp.const(10**9)))
    assert simplify(power) is power
    assert simplify(UOp(Ops.POW, (UOp.const(7), UOp.const(3)))) is UOp.const(343)


def test_shapes_are_kept() -> None:
    lanes = UOp.stack(UOp.const(k) for k in range(4))
    zero = simplify(lanes * 0)
    assert zero.shape == (4,)
    assert simplify(lanes // 4).shape == (4,) and simplify(lanes - lanes).shape == (4,)
    assert simplify((lanes + i * 4) // 4).shape == (4,)


def test_constants_broadcast_by_themselves() -> None:
    table = UOp(Ops.BUFFER, (), ParamArg(0, F32, 6)).reshape(2, 3)
    assert simplify(table * typed(2.0, F32).expand(2, 3)) is table * typed(2.0, F32)
    assert simplify(TRUE.expand(2, 1).where(table, table + 1)) is table
    whole = simplify(typed(2, I32).expand(2, 3).cast(F32))
    assert whole.shape == (2, 3) and whole.op is Ops.EXPAND
    assert typed(2.0, F32) in whole.toposort()


def test_the_order_of_operands_depends_on_no_slot() -> None:
    def kernel(first: int, second: int) -> UOp:
        a, d = leaf(I32, first).cast(dtypes.weakint), leaf(I32, second).cast(dtypes.weakint)
        return simplify(j + d // 4 + a + i)

    one, other = kernel(0, 1), kernel(7, 3)
    assert [p.op for p in one.toposort()] == [p.op for p in other.toposort()]
    assert one.src[0].src[0] is other.src[0].src[0] is i + j
