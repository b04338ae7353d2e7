"""Cases that systems like this one got wrong: reductions, gradients, numbers.  The id of each is in its name."""

from __future__ import annotations

import math

import numpy as np
import pytest

from loomgrad import Tensor, dtypes
from loomgrad.errors import IndexingError
from tests.tensor.checks import close

INF, NAN = math.inf, math.nan


def grad(result: Tensor, *targets: Tensor) -> list[list[float]]:
    return [slope.tolist() for slope in result.gradient(*targets)]  # type: ignore[misc]


# ---- reductions


def test_B082_mean_of_many_small_halves() -> None:
    mean = Tensor.full((4, 10000), 0.001, dtypes.float16).mean(1)
    np.testing.assert_allclose(mean.numpy(), [0.001] * 4, 2e-3)


def test_B083_variance_of_more_elements_than_the_largest_half() -> None:
    x = Tensor([0.0, 1.0], dtype=dtypes.float16).repeat(35000)
    assert abs(x.var(correction=0).item() - 0.25) < 1e-3
    assert abs(x.var().item() - 0.25) < 1e-3


def test_B084_least_of_what_has_no_negative() -> None:
    assert Tensor([0, 128, 255, 64], dtype=dtypes.uint8).min().item() == 0
    assert Tensor([0, -(2**31)]).argmax().item() == 0
    assert Tensor([0, -(2**31)]).argmin().item() == 1
    assert Tensor([-(2**31), 0]).min().item() == -(2**31)
    assert Tensor([True, False]).argmin().item() == 1


def test_B085_bitwise_not_before_argmax() -> None:
    assert (~Tensor([2, 2])).argmax().item() == 0
    assert (~Tensor([0, 1, -1])).tolist() == [-1, -2, 0]


def test_B086_the_first_of_several_least() -> None:
    assert Tensor([1, 0, 0, 5, 0]).argmin().item() == 1
    assert Tensor([[3, 1, 1], [2, 2, 2]]).argmin(1).tolist() == [1, 0]


def test_B089_reductions_without_axes() -> None:
    x = Tensor(5.0)
    assert x.sum().item() == x.cumsum(0).item() == 5
    with pytest.raises(IndexingError, match="axis 1 is out of range"):
        x.sum(1)
    with pytest.raises(IndexingError, match="axis 5 is out of range"):
        Tensor.ones(3, 4).sum(5)


# ---- gradients


def test_B126_ties_of_many_halves() -> None:
    x = Tensor.ones(70000, dtype=dtypes.float16, requires_grad=True)
    slope = x.max().gradient(x)[0].numpy()
    assert (slope > 0).all()
    assert abs(slope.astype(np.float64).sum() - 1) < 2e-2


def test_B127_equal_constants_are_two_leaves() -> None:
    a, b = Tensor(3.0), Tensor(3.0)
    assert [slope.item() for slope in (a + b).gradient(a, b)] == [1.0, 1.0]


def test_B129_the_exponent_of_a_base_of_zero() -> None:
    u, v = Tensor([1.0, 1.0]), Tensor([1.0, 1.0])
    assert grad((((u - v) ** v).sum() * 123), u, v) == [[123.0, 123.0], [-123.0, -123.0]]


def test_B131_nothing_leaks_from_the_unselected_branch() -> None:
    x = Tensor([-1.0, -4.0])
    assert grad((x > 0).where(x.sqrt(), x).sum(), x) == [[1.0, 1.0]]
    x = Tensor([0.0])
    assert grad(x.eq(0).where(0.0, x * x.sqrt()).sum(), x) == [[0.0]]


def test_B132_norms_at_the_origin() -> None:
    x = Tensor([0.0, 0.0])
    assert grad(x.norm() ** 2, x) == [[0.0, 0.0]]
    assert grad(x.norm(), x) == [[0.0, 0.0]]


def test_B134_powers_of_infinity_and_to_zero() -> None:
    x = Tensor([-INF])
    assert grad((x**0.3).sum(), x) == [[0.0]]
    x = Tensor([-INF, INF, 0.0])
    assert grad((x ** Tensor.zeros(3)).sum(), x) == [[0.0, 0.0, 0.0]]


def test_B137_the_part_that_was_not_overwritten() -> None:
    x, y = Tensor([0.0, 1.0, 2.0, 3.0, 4.0]), Tensor([1.0, 1.0])
    assert grad(y.cat(x[2:]).sum(), x, y) == [[0.0, 0.0, 1.0, 1.0, 1.0], [1.0, 1.0]]


# ---- numbers


def test_B203_no_algebra_that_ignores_special_numbers() -> None:
    def equal(found: Tensor, wanted: list[float]) -> None:
        np.testing.assert_array_equal(found.numpy(), wanted)

    equal(Tensor([NAN, INF, 2.0]) * 0, [NAN, NAN, 0])
    x = Tensor([0.0, 2.0])
    equal(x / x, [NAN, 1])
    equal(x - x, [0, 0])
    equal(Tensor([INF]) - Tensor([INF]), [NAN])


def test_B206_logarithms_and_sines_far_out() -> None:
    assert abs(Tensor([1.1754944e-38]).log2().numpy()[0] + 126) < 1e-4
    assert Tensor([0.0]).log2().numpy()[0] == -INF
    assert np.isnan(Tensor([INF, -INF, NAN]).sin().numpy()).all()
    far = Tensor([30000.0, 1e6]).sin().numpy()
    np.testing.assert_allclose(far, [-0.8026654, -0.3499935], 2e-6)


def test_B207_functions_of_bfloat16_are_rounded_once() -> None:
    assert Tensor([12.0], dtype=dtypes.bfloat16).exp().float().item() == 162816.0


def test_B208_isclose_of_infinities_and_nan() -> None:
    x, y = Tensor([INF, -INF, NAN, 1.0]), Tensor([INF, INF, NAN, 1.0])
    assert x.isclose(y).tolist() == [True, False, False, True]
    assert x.isclose(y, equal_nan=True).tolist() == [True, False, True, True]
    assert Tensor([1.0, 1 + 1e-7, 2.0, INF]).isclose(1.0).tolist() == [True, True, False, False]
    assert Tensor([1, 2]).isclose(Tensor([1, 3])).tolist() == [True, False]
    assert Tensor([1.0, 2.0]).allclose(Tensor([1.0, 2.0 + 1e-7])) is True
    assert Tensor([1.0]).allclose(1.1) is False
    assert x.isinf().tolist() == [True, True, False, False]
    assert x.isfinite().tolist() == [False, False, False, True]


def test_norms() -> None:
    x = np.array([[3.0, -4.0], [0.0, 0.0], [1.0, NAN]])
    close(Tensor(x).norm(axis=1).numpy(), np.linalg.norm(x, axis=1), 2)
    close(Tensor(x[:2]).norm(1, 1).numpy(), np.linalg.norm(x[:2], 1, axis=1), 2)
    close(Tensor(x[:2]).norm(INF, 1, keepdim=True).numpy(), np.array([[4.0], [0.0]]), 0)
    assert Tensor([3, 4]).norm().item() == 5
