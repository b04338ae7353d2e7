"""Losses: values, gradients, labels that are no class, mistakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loomgrad import Tensor
from loomgrad.errors import LoomError, ShapeError
from tests.tensor.checks import check_gradient

RNG = np.random.default_rng(7)
X, TARGET = RNG.uniform(0.1, 0.9, (2, 3)), RNG.uniform(0, 1, (2, 3))
LOGITS = RNG.standard_normal((3, 4))


def entropy(p: Any, t: Any) -> Any:
    return -(t * np.log(p) + (1 - t) * np.log(1 - p))


# fmt: off
LOSSES: tuple[tuple[Callable[..., Tensor], Any], ...] = (
    (Tensor.mse_loss,                         (X - TARGET) ** 2),
    (Tensor.l1_loss,                          np.abs(X - TARGET)),
    (Tensor.binary_cross_entropy,             entropy(X, TARGET)),
    (Tensor.binary_cross_entropy_with_logits, entropy(1 / (1 + np.exp(-X)), TARGET)),
)
# fmt: on


@pytest.mark.parametrize(("loss", "each"), LOSSES)
def test_values_and_gradients(loss: Callable[..., Tensor], each: Any) -> None:
    for how, wanted in (("mean", each.mean()), ("sum", each.sum()), ("none", each)):
        found = loss(Tensor(X), Tensor(TARGET), how).numpy()
        np.testing.assert_allclose(found, wanted, 1e-12)
    np.testing.assert_allclose(loss(Tensor(X), TARGET).item(), each.mean(), 1e-12)  # an array
    check_gradient(lambda x: loss(x, Tensor(TARGET), "none"), [X])
    with pytest.raises(ShapeError, match=r"target has shape \(3,\), the tensor \(2, 3\)"):
        loss(Tensor(X), Tensor(TARGET[0]))
    with pytest.raises(LoomError, match="reduction 'most' is not known"):
        loss(Tensor(X), Tensor(TARGET), "most")


def test_certainty_costs_much_and_not_infinitely_much() -> None:
    x = Tensor([0.0, 1.0, 0.0, 1.0], requires_grad=True)
    losses = x.binary_cross_entropy(Tensor([0.0, 1.0, 1.0, 0.0]), "none")
    assert losses.tolist() == [0, 0, 100, 100]
    losses.sum().backward()
    assert x.grad is not None and np.isfinite(x.grad.numpy()).all()
    logits = Tensor([-200.0, 200.0, 200.0])
    found = logits.binary_cross_entropy_with_logits(Tensor([0.0, 1.0, 0.0]), "none")
    assert found.tolist() == [0, 0, 200]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
def test_a_label_that_is_no_class_gives_nan(dtype: Any) -> None:
    labels = np.array([1, -1, 4]).astype(dtype)  # as uint8, -1 is 255
    x = Tensor(LOGITS, requires_grad=True)
    losses = x.cross_entropy(Tensor(labels), "none")
    assert np.isnan(losses.numpy()).tolist() == [False, True, True]
    assert np.isnan(x.log_softmax().nll_loss(Tensor(labels)).item())
    losses[0].backward()
    assert x.grad is not None and np.isfinite(x.grad.numpy()).all()


def test_more_classes_than_the_dtype_of_labels_holds() -> None:
    logits = RNG.standard_normal((1, 300))
    found = Tensor(logits).cross_entropy(Tensor(np.array([255], np.uint8))).item()
    np.testing.assert_allclose(found, np.log(np.exp(logits).sum()) - logits[0, 255], 1e-12)


def test_ignored_labels_leave_no_nan_behind() -> None:
    x = Tensor(LOGITS, requires_grad=True)
    loss = x.sparse_categorical_crossentropy(Tensor([1, -1, 2]))
    loss.backward()
    assert np.isfinite(loss.item())
    assert x.grad is not None and np.isfinite(x.grad.numpy()).all() and not x.grad.numpy()[1].any()
    other = Tensor(LOGITS).sparse_categorical_crossentropy(Tensor([1, -2, 2]))
    assert np.isnan(other.item())


def test_class_numbers_of_floats() -> None:
    with pytest.raises(
        ShapeError, match=r"(?s)need \(3, 4\).*Fix: class numbers are ints, e.g. labels.int"
    ):
        Tensor(LOGITS).cross_entropy(Tensor([1.0, 2.0, 0.0]))
    assert np.isfinite(Tensor(LOGITS).cross_entropy(np.array([1, 2, 0])).item())  # type: ignore[arg-type]
