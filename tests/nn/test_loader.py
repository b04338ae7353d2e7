"""Minibatches."""

from __future__ import annotations

import pytest

from loomgrad import Tensor
from loomgrad.errors import ShapeError
from loomgrad.utils.data import DataLoader, TensorDataset


def dataset(count: int = 7) -> TensorDataset:
    return TensorDataset(Tensor.arange(count), Tensor.arange(count * 2).reshape(count, 2))


def test_batches_in_order() -> None:
    loader = DataLoader(dataset(), batch_size=3)
    found = [(x.tolist(), y.shape) for x, y in loader]
    assert found == [([0, 1, 2], (3, 2)), ([3, 4, 5], (3, 2)), ([6], (1, 2))]
    assert len(loader) == 3 and len(loader.dataset) == 7


def test_the_last_batch_may_be_left_out() -> None:
    loader = DataLoader(dataset(), batch_size=3, drop_last=True)
    assert len(loader) == len(list(loader)) == 2


def test_shuffled_batches_belong_together_and_follow_the_seed() -> None:
    def passes() -> list[list[object]]:
        Tensor.manual_seed(4)
        loader = DataLoader(dataset(20), batch_size=20, shuffle=True)
        batches = [next(iter(loader)) for _ in range(2)]
        for x, y in batches:
            assert y.tolist() == [[2 * i, 2 * i + 1] for i in x.tolist()]  # type: ignore[operator, union-attr]
        return [x.tolist() for x, _ in batches]  # type: ignore[misc]

    first, second = passes()
    assert first != second and sorted(first) == list(range(20))  # type: ignore[type-var]
    assert passes() == [first, second]


def test_items() -> None:
    x, y = dataset()[2]
    assert x.item() == 2 and y.tolist() == [4, 5]


def test_lengths_must_agree() -> None:
    with pytest.raises(ShapeError, match="equally long, not 2, 3"):
        TensorDataset(Tensor.ones(2), Tensor.ones(3))
    with pytest.raises(ShapeError, match="a batch of 0"):
        DataLoader(dataset(), batch_size=0)
