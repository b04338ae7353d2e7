"""Comparisons: bounds, constants, scales, and the normal form."""

from __future__ import annotations

import pytest

from loomgrad.dtype import dtypes
from loomgrad.ir.args import ParamArg
from loomgrad.ir.opcode import Ops
from loomgrad.ir.uop import UOp
from loomgrad.rules import simplify
from tests.rules.test_fuzz import check_everywhere

i, j, r = UOp.range(10, 0), UOp.range(4, 1), UOp.range(28, 2)
TRUE, FALSE = UOp.const(True), UOp.const(False)
NUMBER = UOp.const

# fmt: off
FORMS = {
    "decided":         (i < 10,                        TRUE),
    "never":           (UOp.const(9) < i,              FALSE),
    "add":             (i + 3 < 7,                     i < 4),
    "scale":           (i * 3 < 7,                     i < 3),
    "minus":           (i * -3 < -7,                   NUMBER(2) < i),
    "not":             (~(i < 4),                      NUMBER(3) < i),
    "not greater":     (~(NUMBER(4) < i),              i < 5),
    "not of two":      (~(i < j),                      j < i + 1),
    "not not":         (~~(i < j),                     i < j),
    "sides":           (r + 2 < i + j - r,             r * 2 + 2 < i + j),
    "common":          (r * 4 + 2 < i * 6 + 8,         r * 2 < i * 3 + 3),
    "equal terms":     (r + i < r + j,                 i < j),
    "low part":        (i * 4 + j < 20,                i < 5),
    "low part, two":   (i * 4 + j < r * 4 + 8,         i < r + 2),
    "quotient":        (r // 4 < 3,                    r < 12),
    "quotient above":  (NUMBER(3) < r // 4,            NUMBER(15) < r),
    "equal":           ((i + 3).eq(7),                 i.eq(4)),
    "equal scaled":    ((i * 3).eq(6),                 i.eq(2)),
    "never equal":     ((i * 3).eq(7),                 FALSE),
    "out of reach":    (i.eq(11),                      FALSE),
    "differ":          ((i * 2).ne(r * 2 + 1),         TRUE),
    "itself":          (i.eq(i),                       TRUE),
    "turned":          ((j * -1).eq(i * -1),           i.eq(j)),
}
# fmt: on


@pytest.mark.parametrize("name", FORMS)
def test_form(name: str) -> None:
    before, after = FORMS[name]
    assert check_everywhere(before) is after


def test_strong_ints_keep_what_may_wrap() -> None:
    x = UOp(Ops.PARAM, (), ParamArg(0, dtypes.uint8, 1)).index(0)
    assert simplify(x + 3 < 7) is (x + 3 < 7)
    small = i.cast(dtypes.uint8)
    assert simplify(small + 3 < 7) is (i < 4)
    assert simplify((x + 3).eq(7)) is x.eq(4)
    assert simplify((x + 3).eq(2)) is x.eq(255)
    assert simplify(~(x < 4)) is (UOp.const(3) < x)


def test_floats_are_left_alone() -> None:
    x = UOp(Ops.PARAM, (), ParamArg(0, dtypes.float32, 1)).index(0)
    for kept in (x.eq(x), x.ne(x), x + 1.0 < 2.0, ~(x < 2.0)):
        assert simplify(kept) is kept
    assert simplify(x < x) is FALSE
