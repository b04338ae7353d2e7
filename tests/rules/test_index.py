"""The normal forms of index arithmetic, as movement operations need them."""

from __future__ import annotations

import pytest

from loomgrad.dtype import dtypes
from loomgrad.ir.opcode import Ops
from loomgrad.ir.uop import UOp
from loomgrad.rules import simplify
from tests.rules.brute import sym
from tests.rules.test_fuzz import check_everywhere

i, j, k = UOp.range(10, 0), UOp.range(4, 1), UOp.range(3, 2)
r = UOp.range(120, 3)
flat = i * 12 + j * 3 + k

# fmt: off
FORMS = {
    "row":              (flat // 12,                                      i),
    "middle":           (flat % 12 // 3,                                  j),
    "middle.other":     (flat // 3 % 4,                                   j),
    "last":             (flat % 3,                                        k),
    "nested":           (((i * 4 + j) * 3 + k) // 12,                     i),
    "two rows":         (flat // 24,                                      i // 2),
    "two rows, rest":   (flat % 24,                                       j * 3 + k + i % 2 * 12),
    "put together":     (r // 12 * 12 + r % 12,                           r),
    "three parts":      (r // 12 * 12 + r // 3 % 4 * 3 + r % 3,           r),
    "two of three":     (r // 3 % 4 * 3 + r % 3,                          r % 12),
    "scaled":           (r // 12 * 36 + r % 12 * 3,                       r * 3),
    "shifted":          ((r + 5) // 4 * 4 + (r + 5) % 4,                  r + 5),
    "div of mod":       (r % 12 // 3,                                     r // 3 % 4),
    "mod of mod":       (r % 12 % 4,                                      r % 4),
    "mod of sum":       ((r % 12 + j) % 4,                                (j + r) % 4),
    "div of div":       (r // 3 // 4,                                     r // 12),
    "div of div + c":   ((r // 3 + 1) // 4,                               (r + 3) // 12),
    "subtract div":     (r - r // 7 * 7,                                  r % 7),
    "subtract mod":     (r - r % 7,                                       r // 7 * 7),
    "multiples leave":  ((r * 8 + j + 9) // 4,                            r * 2 + (j + 1) // 4 + 2),
    "common factor":    ((r * 6 + 4) // 8,                                (r * 3 + 2) // 4),
    "congruent":        ((j * 5) // 4,                                    j),
    "congruent mod":    ((j * 5) % 4,                                     j),
    "negative":         ((j + -4) // 4,                                   UOp.const(-1)),
    "minus":            (r // -3,                                         r * -1 // 3),
    "bounded":          (j // 4,                                          UOp.const(0)),
    "mod bounded":      (j % 4,                                           j),
    "like terms":       (r * 3 + j - r - j * 2 + 4,                       j * -1 + r * 2 + 4),
    "cancel":           (r - r,                                           UOp.const(0)),
    "distribute":       ((r + 2) * 3,                                     r * 3 + 6),
    "products":         (r * j * 2 - j * r,                               j * r),
    "order":            (k + 3 + j + i,                                   i + j + k + 3),
    "maximum":          (r.maximum(j).maximum(119),                       UOp.const(119)),
    "minimum":          (r.minimum(200),                                  r),
}
# fmt: on


@pytest.mark.parametrize("name", FORMS)
def test_form(name: str) -> None:
    before, after = FORMS[name]
    assert check_everywhere(before) is after


def test_one_node_for_equal_sums() -> None:
    assert simplify((i + j) + k) is simplify(k + (j + i)) is simplify((i + 1) + (j + k) - 1)


def test_near_misses_do_not_recombine() -> None:
    for expression in (r // 3 % 4 * 3 + r // 13 * 13, r // 12 * 13 + r % 12, r // 12 * 12 + r % 11):
        after = check_everywhere(expression)
        assert any(part.op in (Ops.FLOORDIV, Ops.FLOORMOD) for part in after.toposort())


def test_nothing_is_known_inside_of_an_empty_loop() -> None:
    empty = UOp.range(0, 0)
    assert simplify(empty // 4).op is Ops.FLOORDIV
    assert simplify(empty < 4).op is Ops.CMPLT


def test_strong_ints_are_divided_only_where_nothing_wraps() -> None:
    x = sym(0, 0, 100).cast(dtypes.uint8)
    loaded = UOp.range(300, 1).cast(dtypes.uint8)
    assert simplify(x * 2 // 2) is simplify(x)
    assert simplify(loaded * 2 // 2) is not loaded


def test_long_sums_take_linear_time() -> None:
    loops = [UOp.range(3, axis) for axis in range(2000)]
    total = loops[0]
    for loop in loops[1:]:
        total = total + loop
    assert simplify(total).bounds == (0, 4000)


def test_shared_subexpressions_do_not_explode() -> None:
    x = r
    for _ in range(60):
        x = x + x // 2
        x = x + x
    assert simplify(x).dtype is dtypes.weakint
