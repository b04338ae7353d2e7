"""What optimizers are given: parameters, learning rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from loomgrad import Tensor, dtypes, nn
from loomgrad.errors import ArgumentError, GradientError, ShapeError
from loomgrad.nn.optim import SGD, Adam

if TYPE_CHECKING:
    from loomgrad.dtype.argument import DTypeLike


def test_the_learning_rate_is_set_like_an_attribute() -> None:
    w = Tensor([1.0, 2.0])
    optimizer = SGD([w], lr=1.0)
    rate = optimizer.lr
    for value in (0.5, Tensor(0.25)):
        optimizer.lr = value
        assert optimizer.lr is rate and optimizer.state_dict()["lr"] is rate
        w.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert rate.item() == 0.25 and w.tolist() == [0.25, 1.25]
    with pytest.raises(ShapeError, match="cannot be assigned"):
        optimizer.lr = Tensor([0.1, 0.2])


def test_one_tensor_is_no_list() -> None:
    """Its rows would be taken for parameters, silently."""
    with pytest.raises(ArgumentError, match=r"a list of Tensors, not one(.|\n)*pass a list"):
        Adam(Tensor.ones(2, 2), lr=0.1)


@pytest.mark.parametrize("named", ["float16", np.float16])
def test_layers_take_dtypes_by_name(named: DTypeLike) -> None:
    layers = (
        *(nn.Linear(2, 2, dtype=named), nn.Conv2d(1, 1, 1, dtype=named)),
        *(nn.Embedding(3, 2, dtype=named), nn.LayerNorm(2, dtype=named)),
    )
    assert all(layer.weight is not None for layer in layers)
    assert all(layer.weight.dtype is dtypes.float16 for layer in layers if layer.weight is not None)


def test_no_parameters() -> None:
    with pytest.raises(GradientError, match=r"an optimizer needs parameters(.|\n)*Fix: "):
        SGD([], lr=0.1)
