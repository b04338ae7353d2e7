"""Cases that systems like this one got wrong; the name of a test is the number of its case."""

from __future__ import annotations

import math
from time import perf_counter

import pytest

from loomgrad.dtype import dtypes
from loomgrad.ir.args import ParamArg
from loomgrad.ir.opcode import Ops
from loomgrad.ir.uop import UOp
from loomgrad.rules import simplify
from tests.rules.brute import sym, value_of
from tests.rules.test_fuzz import check_everywhere


def test_B001_nested_modulo_with_a_scaled_variable() -> None:
    a = sym(0, 0, 31)
    check_everywhere(((a * 5) % 12) % 5)
    check_everywhere(((a * 6) % 12) % 6)


@pytest.mark.parametrize("first", [-4, -2, 2, 3])
@pytest.mark.parametrize("second", [-3, -1, 3, 4])
def test_B002_two_floor_divisions(first: int, second: int) -> None:
    check_everywhere((sym(0, 0, 124) // first) // second)
    check_everywhere((sym(0, -60, 64) // first) % second)


@pytest.mark.parametrize("outer", [-2, 2])
def test_B003_recombination_with_a_negative_modulus(outer: int) -> None:
    b = sym(0, -100, 100)
    check_everywhere(((b // -3) % outer) + (b // (-3 * outer)) * outer)
    check_everywhere((b % outer) * 3 + b // outer * (3 * outer))


def test_B004_recombination_must_reject_near_misses() -> None:
    g = UOp.range(150528, 0)
    whole = simplify(g // 3 % 224 * 3 + g % 3 + g // 672 * 672)
    assert whole is g
    near = g // 3 % 224 * 3 + g // 600 * 600
    for value in (0, 599, 600, 671, 672, 1200, 150527):
        assert value_of(simplify(near), {g: value}) == value // 3 % 224 * 3 + value // 600 * 600


def test_B006_a_minus_sign_in_a_division() -> None:
    i = sym(0, 0, 9)
    check_everywhere((i * -10) // 11)
    check_everywhere((i * -10) % 11)
    check_everywhere(-(i * 10) // -11)


@pytest.mark.parametrize("limit", [-3, -1, 0, 1])
def test_B007_a_quotient_compared_with_a_constant(limit: int) -> None:
    i = sym(0, 0, 24)
    for offset in (-20, -10, 3):
        check_everywhere(((i + offset) // 4) < limit)
        check_everywhere(UOp.const(limit) < ((i + offset) // 4))
        check_everywhere(((i + offset) // -4) < limit)


def test_B008_a_scaled_comparison_is_exact_beyond_floats() -> None:
    a = UOp.range(2**54 + 1, 0)
    folded = simplify(a * 2 < 2**54 + 1)
    assert folded is (a < 2**53 + 1)
    assert value_of(folded, {a: 2**53}) is True and value_of(folded, {a: 2**53 + 1}) is False


def test_B009_a_constant_zero_divisor_is_left_alone() -> None:
    a = UOp.range(8, 0)
    start = perf_counter()
    for node in (a // 0, a % 0, UOp.const(5) // UOp.const(0), a.cast(dtypes.int32) // 0):
        simple = simplify(node)
        assert simple.op in (Ops.FLOORDIV, Ops.FLOORMOD, Ops.CAST)
        assert value_of(simple, {a: 3}) == 0
    assert perf_counter() - start < 1
    assert value_of(simplify(a // 0 * 3 + a % 0), {a: 3}) == 0


def test_B011_bounds_of_a_product_with_a_negative_factor() -> None:
    assert (sym(0, -2, 5) * -3).bounds == (-15, 6)
    assert (sym(0, -2, 5) * sym(1, -4, 3)).bounds == (-20, 15)


def test_B012_the_last_value_of_a_loop() -> None:
    assert UOp.range(10, 0).bounds == (0, 9)
    assert UOp.range(sym(1, 1, 10), 0).bounds == (0, 9)
    assert simplify(UOp.range(10, 0) < 10) is UOp.const(True)
    assert simplify(UOp.range(10, 0) < 9).op is Ops.CMPLT


def test_B013_a_constant_cast_to_int_and_back_differs() -> None:
    c = UOp.const(4.5).cast(dtypes.float32)
    assert simplify(c.ne(c.cast(dtypes.int32).cast(dtypes.float32))) is UOp.const(True)
    assert simplify(UOp.const(-4.5).cast(dtypes.int32)) is UOp.const(-4, dtypes.int32)


def test_B016_a_division_whose_numerator_is_smaller() -> None:
    for numerator in range(6):
        for divisor in range(1, 8):
            x = UOp.range(numerator + 1, 0)
            check_everywhere(x // divisor)
            check_everywhere(x % divisor)


def test_B022_no_nan_in_bounds() -> None:
    loaded = UOp(Ops.PARAM, (), ParamArg(0, dtypes.float32, 1)).index(0)
    for node in (UOp.const(0.0, dtypes.float32) * loaded, loaded - loaded, loaded * 0.0):
        assert not any(math.isnan(bound) for bound in node.bounds)
        assert simplify(node) is node, "0 * inf and inf - inf are NaN"
