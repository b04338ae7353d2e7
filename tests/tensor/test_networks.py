"""Normalisation, dropout, attention, initialisers."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from loomgrad import GlobalCounters, Tensor, dtypes
from loomgrad.errors import DTypeError, LoomError, ShapeError, UnsupportedError
from tests.tensor.checks import Array, check_gradient, close, dtype_is


def numbers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def softmax(x: Array) -> Array:
    weights = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True))


# ---- normalisation


@pytest.mark.parametrize("axis", [-1, (1, 2), 0])
def test_layernorm(axis: int | tuple[int, ...]) -> None:
    x = numbers(3, 4, 5) + 2
    wanted = (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + 1e-5)
    close(Tensor(x).layernorm(axis).numpy(), wanted, 64)


def test_rmsnorm() -> None:
    x = numbers(3, 8)
    close(
        Tensor(x).rmsnorm(eps=1e-3).numpy(), x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-3), 16
    )


def test_half_floats_are_normalised_in_float32() -> None:
    x = Tensor.full((1, 512), 100.0, dtypes.float16).cat(
        Tensor.full((1, 512), 300.0, dtypes.float16), dim=1
    )
    result = x.layernorm()
    dtype_is(result, dtypes.float16)
    assert set(result.numpy().reshape(-1).tolist()) == {-1.0, 1.0}


def test_batchnorm() -> None:
    x, weight, bias, mean, invstd = numbers(2, 3, 4), *(numbers(3) + i for i in range(4))
    w, b, m, s = (Tensor(array) for array in (weight, bias, mean, invstd))
    ours = Tensor(x).batchnorm(w, b, m, s).numpy()
    column = (slice(None), None)
    wanted = (x - mean[column]) * invstd[column] * weight[column] + bias[column]
    close(ours, wanted, 16)
    plain = Tensor(x).batchnorm(None, None, Tensor(mean), Tensor(invstd))
    close(plain.numpy(), (x - mean[column]) * invstd[column], 16)
    with pytest.raises(
        ShapeError, match=r"batchnorm along axis 1 of \(2, 3, 4\) with a shape \(4,\)"
    ):
        Tensor(x).batchnorm(None, None, Tensor.ones(4), Tensor.ones(3))


# ---- dropout


def test_dropout_is_for_training() -> None:
    x = Tensor.ones(1000)
    assert x.dropout(0.3) is x
    Tensor.manual_seed(3)
    with Tensor.train():
        assert x.dropout(0) is x
        kept = x.dropout(0.2).numpy()
        assert set(np.unique(kept)) == {np.float32(0), np.float32(1.25)}
        assert 0.75 < (kept > 0).mean() < 0.85
        assert not x.dropout(1.0).numpy().any()
    assert not Tensor.training


def test_dropout_draws_anew_with_the_same_program() -> None:
    x = Tensor(numbers(64))
    with Tensor.train():
        draws = []
        for _ in range(2):
            before = GlobalCounters.kernel_count
            draws.append(x.dropout().numpy())
            assert GlobalCounters.kernel_count == before + 1
    assert (draws[0] != draws[1]).any()


def test_dropped_elements_get_no_gradient() -> None:
    x = Tensor(np.where(np.arange(64) % 2, np.inf, 4.0), requires_grad=True)
    with Tensor.train():
        y = x.reciprocal().dropout()
        y.sum().backward()
    assert x.grad is not None
    slopes = x.grad.numpy()
    dropped = (y.numpy() == 0) & (np.arange(64) % 2 == 0)
    assert dropped.any() and (slopes[dropped] == 0).all() and not np.isnan(slopes).any()
    with pytest.raises(LoomError, match=r"a probability of 1\.5"):
        x.dropout(1.5)


# ---- attention


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal: bool) -> None:
    q, k, v = numbers(2, 3, 4, 8), numbers(2, 3, 5, 8), numbers(2, 3, 5, 6)
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(8)
    if causal:
        scores = np.where(np.tril(np.ones((4, 5), bool)), scores, -np.inf)
    ours = Tensor(q).scaled_dot_product_attention(Tensor(k), Tensor(v), is_causal=causal)
    np.testing.assert_allclose(ours.numpy(), softmax(scores) @ v, 1e-12, 1e-12)


def test_attention_masks() -> None:
    q, k, v = numbers(4, 8), numbers(5, 8), numbers(5, 6)
    scores = q @ k.T * 0.25
    mask = numbers(4, 5) > -0.5
    ours = Tensor(q).scaled_dot_product_attention(Tensor(k), Tensor(v), Tensor(mask), scale=0.25)
    np.testing.assert_allclose(
        ours.numpy(), softmax(np.where(mask, scores, -np.inf)) @ v, 1e-12, 1e-12
    )
    bias = numbers(4, 5)
    ours = Tensor(q).scaled_dot_product_attention(Tensor(k), Tensor(v), Tensor(bias), scale=0.25)
    np.testing.assert_allclose(ours.numpy(), softmax(scores + bias) @ v, 1e-12, 1e-12)


def test_attention_gradients() -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return q.scaled_dot_product_attention(k, v, is_causal=True)

    check_gradient(attend, [numbers(2, 3), numbers(3, 3), numbers(3, 2)])


def test_mistaken_attention() -> None:
    x = Tensor.ones(3, 4)
    with pytest.raises(LoomError, match="attn_mask and is_causal at once"):
        x.scaled_dot_product_attention(x, x, Tensor.ones(3, 3), is_causal=True)
    with pytest.raises(DTypeError, match="a mask of int32"):
        x.scaled_dot_product_attention(x, x, Tensor([[1]]))
    with pytest.raises(ShapeError, match="needs two axes"):
        Tensor.ones(4).scaled_dot_product_attention(x, x)


# ---- initialisers

# fmt: off
DRAWS: dict[str, tuple[Callable[..., Tensor], float, bool]] = {
    "kaiming_uniform": (Tensor.kaiming_uniform, math.sqrt(2 / (1.0001 * 50 * 9)),  True),
    "kaiming_normal":  (Tensor.kaiming_normal,  math.sqrt(2 / (1.0001 * 50 * 9)),  False),
    "xavier_uniform":  (Tensor.xavier_uniform,  math.sqrt(2 / (50 * 9 + 40 * 9)),  True),
    "xavier_normal":   (Tensor.xavier_normal,   math.sqrt(2 / (50 * 9 + 40 * 9)),  False),
    "glorot_uniform":  (Tensor.glorot_uniform,  math.sqrt(2 / (50 * 9 + 40 * 9)),  True),
    "scaled_uniform":  (Tensor.scaled_uniform,  math.sqrt(1 / (3 * 18000)),        True),
}
# fmt: on


@pytest.mark.parametrize("name", DRAWS)
def test_initialisers(name: str) -> None:
    """Mean 0 and the deviation of the formula; uniform ones end at sqrt(3) deviations."""
    draw, deviation, uniform = DRAWS[name]
    Tensor.manual_seed(11)
    weight = draw(40, 50, 3, 3, requires_grad=True)
    assert weight.shape == (40, 50, 3, 3) and weight.requires_grad
    values = weight.numpy()
    assert abs(values.mean()) < 0.05 * deviation
    assert abs(values.std() / deviation - 1) < 0.02
    largest = np.abs(values).max() / deviation
    assert 1.7 < largest < 1.7321 if uniform else largest > 3


def test_initialisers_of_vectors_and_dtypes() -> None:
    assert Tensor.kaiming_uniform(7).shape == Tensor.xavier_normal(7).shape == (7,)
    dtype_is(Tensor.xavier_uniform((3, 2), dtype=dtypes.float64), dtypes.float64)
    assert Tensor.kaiming_normal(0, 3).shape == (0, 3)


# ---- activations with parameters


def test_parameters_of_activations() -> None:
    x = np.array([-2.0, -0.5, 0.0, 0.5, 2.0])
    t = Tensor(x)
    close(t.elu(0.5).numpy(), np.where(x > 0, x, 0.5 * np.expm1(x)), 4)
    close(t.celu(2.0).numpy(), np.where(x > 0, x, 2 * np.expm1(x / 2)), 4)
    close(t.leaky_relu(0.2).numpy(), np.where(x < 0, 0.2 * x, x), 1)
    close(t.hardtanh(-0.5, 1).numpy(), np.clip(x, -0.5, 1), 0)
    close(t.softplus(2.0).numpy(), np.log1p(np.exp(2 * x)) / 2, 4)
    assert t.swish().tolist() == t.silu().tolist()
    with pytest.raises(UnsupportedError, match="needs the error function"):
        t.gelu("none")  # type: ignore[arg-type]


def test_activations_are_accurate_near_zero_and_far_out() -> None:
    small = np.array([-1e-6, -1e-4, -3e-3], np.float32)
    close(Tensor(small).elu().numpy(), np.expm1(small.astype(np.float64)), 3)
    far = np.array([-80.0, -20.0, -10.0, 100.0], np.float32)
    close(Tensor(far).softplus().numpy(), np.logaddexp(far.astype(np.float64), 0), 4)
    close(Tensor(-far).logsigmoid().numpy(), -np.logaddexp(far.astype(np.float64), 0), 4)
