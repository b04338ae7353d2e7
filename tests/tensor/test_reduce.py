"""Reductions: axes, dtypes, empty ones, NaN; matrix products; losses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from loomgrad import Tensor, dtypes
from loomgrad.dtype import DType
from loomgrad.errors import DTypeError, IndexingError, LoomError, ShapeError
from tests.tensor.checks import close, dtype_is

CUBE = np.random.default_rng(3).standard_normal((3, 4, 5))


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2), (1,), (-1, 0), ()], ids=str)
@pytest.mark.parametrize("name", ["sum", "max", "min", "mean", "prod", "any", "all"])
def test_axes(name: str, axis: int | tuple[int, ...] | None) -> None:
    x = Tensor(CUBE)
    for keepdim in (False, True):
        ours = getattr(x, name)(axis, keepdim=keepdim).numpy()
        wanted = np.asarray(getattr(np, name)(CUBE, axis=axis, keepdims=keepdim))
        close(ours, wanted, 16)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, None])
def test_places_of_extremes(axis: int | None) -> None:
    tied = (CUBE * 2).round()
    x = Tensor(tied)
    np.testing.assert_array_equal(x.argmax(axis).numpy(), np.argmax(tied, axis))
    np.testing.assert_array_equal(x.argmin(axis).numpy(), np.argmin(tied, axis))
    kept = np.argmax(tied, axis, keepdims=True)
    np.testing.assert_array_equal(x.argmax(axis, keepdim=True).numpy(), kept)


def test_nan_wins() -> None:
    data = np.array([[1.0, np.nan, 3.0, np.nan], [2.0, np.inf, -np.inf, 0.0]], np.float32)
    x = Tensor(data)
    np.testing.assert_array_equal(x.max(1).numpy(), [np.nan, np.inf])
    np.testing.assert_array_equal(x.min(1).numpy(), [np.nan, -np.inf])
    np.testing.assert_array_equal(x.argmax(1).numpy(), [1, 1])
    np.testing.assert_array_equal(x.argmin(1).numpy(), [1, 2])


# fmt: off
SUM_DTYPES = (
    (dtypes.bool,  dtypes.int32),  (dtypes.int8,    dtypes.int32),   (dtypes.int16,   dtypes.int32),
    (dtypes.uint8, dtypes.uint32), (dtypes.uint32,  dtypes.uint32),  (dtypes.int64,   dtypes.int64),
    (dtypes.int32, dtypes.int32),  (dtypes.float32, dtypes.float32), (dtypes.float64, dtypes.float64),
)
# fmt: on


@pytest.mark.parametrize(("dtype", "wanted"), SUM_DTYPES)
def test_sums_have_room(dtype: DType, wanted: DType) -> None:
    total = Tensor.ones(300, dtype=dtype).sum()
    dtype_is(total, wanted)
    assert total.item() == 300
    dtype_is(Tensor.ones(0, dtype=dtype).sum(), wanted)


def test_half_floats_are_added_in_float32() -> None:
    x = Tensor.ones(4096, dtype=dtypes.float16)
    assert x.sum().dtype is dtypes.float16
    assert x.sum().item() == 4096.0
    assert (x * 20).mean().item() == 20.0
    a = Tensor.full((2, 5000), 1.0, dtypes.float16)
    assert (a @ a.T).dtype is dtypes.float16
    assert (a @ a.T).tolist() == [[5000.0] * 2] * 2


def test_without_elements_a_reduction_is_its_identity() -> None:
    empty = Tensor.zeros(0, 3)
    assert empty.sum(0).tolist() == [0.0] * 3
    assert empty.prod(0).tolist() == [1.0] * 3
    assert empty.max(0).tolist() == [-np.inf] * 3
    assert empty.min(0).tolist() == [np.inf] * 3
    assert empty.any().item() is False and empty.all().item() is True
    assert empty.sum(1).shape == (0,)
    assert np.isnan(empty.mean().item())
    with pytest.raises(ShapeError, match="argmax over the empty axis 0"):
        empty.argmax(0)


def test_spread() -> None:
    x = Tensor(CUBE)
    close(x.var(1).numpy(), CUBE.var(1, ddof=1), 32)
    close(x.std((0, 2), correction=0).numpy(), CUBE.std((0, 2)), 32)
    assert np.isnan(Tensor([1.0]).var().item())


def test_mistaken_axes() -> None:
    x = Tensor(CUBE)
    with pytest.raises(IndexingError, match=r"axis 3 is out of range for shape \(3, 4, 5\)"):
        x.sum(3)
    with pytest.raises(IndexingError, match="named twice"):
        x.sum((1, 1))


# ---- matrix products

# fmt: off
PRODUCTS = (
    ((2, 3), (3, 4)), ((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (7, 3, 1)), ((2, 3), (6, 3, 4)), ((3,), (6, 3, 4)), ((6, 2, 3), (3,)), ((1, 1), (1, 1)),
    ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((17, 33), (33, 19)),
)
# fmt: on


@pytest.mark.parametrize(("left", "right"), PRODUCTS, ids=str)
def test_matrix_products(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal(left), rng.standard_normal(right)
    wanted = a @ b
    np.testing.assert_allclose((Tensor(a) @ Tensor(b)).numpy(), wanted, 1e-12, 1e-12)
    narrow = (Tensor(a).float() @ Tensor(b).float()).numpy()
    np.testing.assert_allclose(narrow, wanted, 1e-4, 1e-4)


def test_products_of_ints_have_room() -> None:
    a = Tensor([[100, 100]], dtype=dtypes.int8)
    assert (a @ a.T).dtype is dtypes.int32
    assert (a @ a.T).tolist() == [[20000]]
    mixed = Tensor([[1, 2]]) @ Tensor([[0.5], [0.25]])
    assert mixed.dtype is dtypes.float32 and mixed.tolist() == [[1.0]]


def test_linear_is_a_product_and_a_sum() -> None:
    x, w, b = Tensor([[1.0, 2.0]]), Tensor([[3.0], [4.0]]), Tensor([5.0])
    assert x.linear(w, b).tolist() == [[16.0]]
    assert x.dot(w).tolist() == [[11.0]]
    assert x.linear(Tensor([2.0, 3.0])).tolist() == [[2.0, 6.0]]


def test_mistaken_products() -> None:
    with pytest.raises(ShapeError, match=r"\(2, 3\) and \(4, 3\): 3 is not 4") as caught:
        Tensor.ones(2, 3) @ Tensor.ones(4, 3)
    assert "y.T fits" in str(caught.value) and "test_reduce.py" in str(caught.value)
    with pytest.raises(ShapeError, match=r"\(\) @ \(3,\)"):
        Tensor(1.0) @ Tensor.ones(3)
    with pytest.raises(ShapeError, match="leading axes"):
        Tensor.ones(2, 3, 4) @ Tensor.ones(5, 4, 3)


# ---- softmax and losses

LOGITS = np.random.default_rng(5).standard_normal((4, 6))
LABELS = np.array([3, 0, 5, 2], np.int32)
LOGP = LOGITS - np.log(np.exp(LOGITS).sum(1, keepdims=True))
CHOSEN = -LOGP[np.arange(4), LABELS]


def same(ours: Tensor, wanted: object) -> None:
    np.testing.assert_allclose(ours.numpy(), np.asarray(wanted), 1e-12)


def test_softmax_stands_large_numbers() -> None:
    x = Tensor([[1000.0, 1000.0], [-1000.0, 0.0], [-np.inf, 2.0]])
    assert x.softmax().tolist() == [[0.5, 0.5], [0.0, 1.0], [0.0, 1.0]]
    np.testing.assert_allclose(x.log_softmax().numpy()[:2], [[-np.log(2)] * 2, [-1000, 0]], 1e-6)
    same(Tensor(LOGITS).softmax(0), np.exp(LOGITS) / np.exp(LOGITS).sum(0))


def test_logsumexp_of_infinities() -> None:
    x = Tensor([[-np.inf, -np.inf], [np.inf, 0.0], [1000.0, 1000.0], [np.nan, 1.0]])
    found = x.logsumexp(1).numpy()
    np.testing.assert_allclose(found, [-np.inf, np.inf, 1000 + np.log(2), np.nan], 1e-6)
    assert x.logsumexp(1, keepdim=True).shape == (4, 1)


def test_cross_entropies() -> None:
    x, labels = Tensor(LOGITS), Tensor(LABELS)
    same(x.cross_entropy(labels), CHOSEN.mean())
    same(x.cross_entropy(labels, reduction="none"), CHOSEN)
    same(x.sparse_categorical_crossentropy(labels, reduction="sum"), CHOSEN.sum())
    same(x.log_softmax().nll_loss(labels), CHOSEN.mean())
    smooth = 0.8 * CHOSEN - 0.2 * LOGP.mean(1)
    same(x.cross_entropy(labels, label_smoothing=0.2), smooth.mean())
    probabilities = np.eye(6)[LABELS]
    same(x.cross_entropy(Tensor(probabilities)), CHOSEN.mean())
    ignoring = Tensor(np.array([3, -1, 5, -1], np.int32))
    same(x.sparse_categorical_crossentropy(ignoring), CHOSEN[[0, 2]].mean())


def test_classes_may_stand_before_other_axes() -> None:
    x = Tensor(LOGITS).reshape(2, 2, 6).permute(0, 2, 1)
    same(x.cross_entropy(Tensor(LABELS).reshape(2, 2)), CHOSEN.mean())


def test_one_hot() -> None:
    found = Tensor([[2, 0]]).one_hot(3)
    dtype_is(found, dtypes.int32)
    assert found.tolist() == [[[0, 0, 1], [1, 0, 0]]]
    assert Tensor([-1, 3]).one_hot(3).tolist() == [[0, 0, 0], [0, 0, 0]]


LOSS_MISTAKES: tuple[tuple[Callable[[Tensor], Tensor], type[LoomError], str], ...] = (
    (lambda x: x.cross_entropy(Tensor([1, 2])), ShapeError, r"labels have shape \(2,\)"),
    (lambda x: x.cross_entropy(Tensor([1.0])), ShapeError, r"probabilities have shape \(1,\)"),
    (lambda x: x.nll_loss(Tensor([0.5] * 4)), DTypeError, "integer dtype, not float32"),
    (lambda x: Tensor([1.0]).one_hot(2), DTypeError, "integer dtype, not float32"),
    (
        lambda x: x.cross_entropy(Tensor(LABELS), "most"),  # type: ignore[arg-type]
        LoomError,
        "reduction 'most' is not known",
    ),
)


@pytest.mark.parametrize(("mistake", "error", "text"), LOSS_MISTAKES)
def test_mistaken_losses(
    mistake: Callable[[Tensor], Tensor], error: type[LoomError], text: str
) -> None:
    with pytest.raises(error, match=text):
        mistake(Tensor(LOGITS))
