"""Values where it is easy to be wrong: half floats, remainders, whole 64-bit spans, counts of shifts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loomgrad import Tensor, dtypes
from loomgrad.dtype import DType
from loomgrad.engine.state import realized_value
from loomgrad.errors import ArgumentError, DTypeError, ShapeError
from loomgrad.ir.uop import UOp
from tests.tensor.checks import Array

INF = math.inf
Call = Callable[[], Tensor]
HALVES = ((dtypes.float16, 11), (dtypes.bfloat16, 8))
# fmt: off
COMPOSITES: tuple[tuple[str, Callable[[Tensor], Tensor]], ...] = (
    ("var",          lambda x: x.var(-1)),
    ("std",          lambda x: x.std(-1)),
    ("norm",         lambda x: x.norm(axis=-1)),
    ("large norm",   lambda x: (x * 256).norm(axis=-1)),
    ("mean",         lambda x: x.mean(-1)),
    ("softmax",      lambda x: x.softmax()),
    ("log_softmax",  lambda x: x.log_softmax()),
    ("logsumexp",    lambda x: x.logsumexp(-1)),
    ("logcumsumexp", lambda x: x.logcumsumexp(-1)),
    ("layernorm",    lambda x: x.layernorm()),
    ("rmsnorm",      lambda x: x.rmsnorm()),
    ("entropy",      lambda x: x.cross_entropy(Tensor([3, 5, 1, 0]))),
    ("mse",          lambda x: x.mse_loss(x.flip(1))),
    ("sigmoid",      Tensor.sigmoid),
    ("silu",         Tensor.silu),
    ("gelu",         Tensor.gelu),
    ("softplus",     Tensor.softplus),
    ("mish",         Tensor.mish),
    ("elu",          Tensor.elu),
    ("tanhshrink",   Tensor.tanhshrink),
)
# fmt: on


@pytest.mark.parametrize(("name", "function"), COMPOSITES, ids=lambda v: str(v)[:12])
def test_composites_of_half_floats_round_once(
    name: str, function: Callable[[Tensor], Tensor]
) -> None:
    """Within half a unit in the last place of what float64 gives, and a little for float32."""
    values = np.random.default_rng(0).standard_normal((4, 64)) * 3
    for dtype, bits in HALVES:
        x = Tensor(values, dtype=dtype).realize()
        found = function(x)
        assert found.dtype is dtype
        wanted = function(x.double()).numpy()
        unit = 2.0 ** (np.floor(np.log2(np.abs(wanted) + 1e-30)) + 1 - bits)
        error = (np.abs(found.double().numpy() - wanted) - 1e-6) / np.maximum(unit, 2.0**-24)
        assert error.max() <= 0.51, f"{name} of {dtype}: {error.max()} units"


def test_bfloat16_computes_and_compares() -> None:
    values = np.random.default_rng(0).standard_normal((8, 16))
    x = Tensor(values, dtype=dtypes.bfloat16).realize()
    exact = x.double().numpy()
    assert (x.max(1).double().numpy() == exact.max(1)).all()
    assert (x.argmax(0).numpy() == exact.argmax(0)).all()
    assert ((x < x.flip(0)).numpy() == (exact < exact[::-1])).all()
    assert ((-x.maximum(0)).double().numpy() == -np.maximum(exact, 0)).all()
    np.testing.assert_allclose((x * 3 + 1).double().numpy(), exact * 3 + 1, 2**-7, 2**-7)
    np.testing.assert_allclose((x @ x.transpose()).double().numpy(), exact @ exact.T, 2**-8, 2**-6)
    assert (x * 3).dtype is (x / x).dtype is x.sqrt().dtype is dtypes.bfloat16


SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.1, -0.1, 5.0, -5.0, 7.5, 1e4, INF, -INF, math.nan, 1e-40, 6e4)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floor_division_and_remainder_are_numpys(dtype: type) -> None:
    with np.errstate(all="ignore"):
        values: Array = np.array(SPECIAL).astype(dtype)
    a, b = (grid.reshape(-1).copy() for grid in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        wanted = np.floor_divide(a, b), np.remainder(a, b)
    for found, expected in zip(
        (Tensor(a) // Tensor(b), Tensor(a) % Tensor(b)), wanted, strict=True
    ):
        array = found.numpy()
        assert array.dtype == dtype
        np.testing.assert_array_equal(array, expected)
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(array)[numbers], np.signbit(expected)[numbers])


def test_remainders_of_all_sizes_are_exact() -> None:
    rng = np.random.default_rng(0)
    a, b = (
        (np.exp(rng.uniform(-85, 85, 500)) * rng.choice([-1, 1], 500)).astype(np.float32)
        for _ in range(2)
    )
    np.testing.assert_array_equal((Tensor(a) % Tensor(b)).numpy(), np.remainder(a, b))
    wide = a.astype(np.float64) * 1.1
    np.testing.assert_array_equal((Tensor(wide) % 0.3).numpy(), np.remainder(wide, 0.3))


def test_division_with_numbers_and_its_slopes() -> None:
    assert (Tensor([1.0]) // 0.1).item() == 9.0
    assert (1.0 % Tensor([INF])).item() == 1.0 and (-1 % Tensor([INF])).item() == INF
    assert (7.5 // Tensor([2])).tolist() == [3.0] and (7 % Tensor([2.5])).tolist() == [2.0]
    assert math.copysign(1, float((Tensor([-0.0]) % -5).item())) == -1
    x, y = Tensor(np.array([7.5, -7.5, 6.0, 6.0])), Tensor(np.array([2.0, 2.0, 2.0, INF]))
    slopes = [g.tolist() for g in (x % y).sum().gradient(x, y)]
    assert slopes == [[1, 1, 1, 1], [-3, 4, -3, 0]]
    assert (x // y).sum().gradient(x)[0].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (-(2**63), 2**63, dtypes.int64),
        (0, 2**64, dtypes.uint64),
        (2**63 + 5, 2**64, dtypes.uint64),
        (-(2**31), 2**31, dtypes.int32),
        (-3, 4, dtypes.int8),
    ],
)
def test_random_ints_of_any_span(low: int, high: int, dtype: DType) -> None:
    Tensor.manual_seed(1)
    found = Tensor.randint(200, low=low, high=high, dtype=dtype).tolist()
    assert isinstance(found, list)
    numbers = [int(n) for n in found]
    assert all(low <= n < high for n in numbers)
    assert len(set(numbers)) == min(200, high - low)
    middle = (low + high) // 2
    assert 50 < sum(n < middle for n in numbers) < 150


def test_shifts_that_cannot_be_meant() -> None:
    x, bytes_ = Tensor([1, 2]), Tensor([1], dtype=dtypes.uint8)
    negative: tuple[Call, ...] = (lambda: x << -1, lambda: x >> -2, lambda: bytes_ << -1)
    for shift in negative:
        with pytest.raises(ArgumentError, match="negative number of places") as caught:
            shift()
        assert "test_findings_numerics.py" in str(caught.value)
    floats: Any = Tensor([1.0])
    fractions: tuple[Call, ...] = (lambda: floats << 1, lambda: x >> 1.5, lambda: 2 << floats)
    for shift in fractions:
        with pytest.raises(DTypeError, match="needs ints"):
            shift()
    assert (Tensor([True]) << 2).tolist() == [4]
    assert (x << Tensor([-1, 1])).tolist() == [0, 4]


@pytest.mark.parametrize(
    "padding", [((1,),), ((1, 2, 3),), (1, 1), ((-1, 0),), 3, (), ((0, 1), None)]
)
def test_wrong_paddings_are_told_at_the_users_line(padding: Any) -> None:
    with pytest.raises(ShapeError, match="pad needs a pair of nonnegative counts") as caught:
        Tensor([1.0]).pad(padding)
    assert "test_findings_numerics.py" in str(caught.value)
    with pytest.raises(ShapeError, match="shrink needs"):
        Tensor([1.0]).shrink(padding)


def test_a_computed_constant_does_not_become_a_read_elsewhere() -> None:
    for number in (True, 3, 2.5):
        assert Tensor(number).realize().item() == number
    for constant in (UOp.const(True), UOp.const(3, dtypes.int32), UOp.const(2.5, dtypes.float32)):
        assert realized_value(constant) is None
