"""The functions and names that programs written for PyTorch use."""

from __future__ import annotations

import pytest

import loomgrad as torch
from loomgrad import Tensor, dtypes, functions
from loomgrad.errors import ArgumentError


def named(name: str) -> object:
    """What `torch.name` is, for names that type checkers do not know."""
    return getattr(torch, name)


def test_dtypes_and_methods_are_found() -> None:
    assert named("float32") is dtypes.float32 and named("long") is dtypes.int64
    assert named("relu") is Tensor.relu and named("float") is dtypes.float32
    assert named("cat") is functions.cat and named("zeros") == Tensor.zeros


@pytest.mark.parametrize("name", ["Linear", "shape", "device_", "_made", "T", "void_"])
def test_others_are_not(name: str) -> None:
    with pytest.raises(AttributeError, match=f"'loomgrad' has no attribute '{name}'"):
        named(name)


def test_the_package_of_tensors_is_the_function_that_makes_one() -> None:
    make = named("tensor")
    assert callable(make)
    made = make([1, 2], dtype=dtypes.float64, requires_grad=True)
    assert isinstance(made, Tensor) and made.dtype is dtypes.float64 and made.requires_grad
    assert torch.tensor.Tensor is Tensor


def test_joining_takes_a_list() -> None:
    x, y = Tensor([[1, 2]]), Tensor([[3, 4]])
    assert functions.cat([x, y]).tolist() == [[1, 2], [3, 4]]
    assert functions.cat((x, y), dim=1).tolist() == [[1, 2, 3, 4]]
    assert functions.stack([x, y], dim=2).tolist() == [[[1, 3], [2, 4]]]


def test_the_greatest_along_an_axis_says_where() -> None:
    x = Tensor([[1, 5, 5], [7, 0, 2]])
    greatest, least = functions.max(x, 1), functions.min(x, dim=0, keepdim=True)
    assert isinstance(greatest, functions.Extreme) and isinstance(least, functions.Extreme)
    values, places = greatest
    assert values.tolist() == [5, 7] and places.tolist() == [1, 0]
    assert least.values.tolist() == [[1, 0, 2]] and least.indices.tolist() == [[0, 1, 1]]
    for found, wanted in ((functions.max(x), 7), (functions.min(x), 0)):
        assert isinstance(found, Tensor) and found.item() == wanted


def test_whole_random_numbers() -> None:
    for drawn in (functions.randint(2, 5, (100,)), functions.randint(5, (100,))):
        assert drawn.shape == (100,) and drawn.dtype is dtypes.int64
        assert set(drawn.tolist()) <= {0, 1, 2, 3, 4}  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="randint needs a size"):
        functions.randint(2, 5)
    order = functions.randperm(30).tolist()
    assert order != sorted(order) and sorted(order) == list(range(30))  # type: ignore[arg-type, type-var]


def test_equality_of_whole_tensors() -> None:
    x = Tensor([1.0, 2.0])
    assert functions.equal(x, Tensor([1.0, 2.0])) and not functions.equal(x, Tensor([1.0, 3.0]))
    assert not functions.equal(x, Tensor([1.0]))


def test_devices() -> None:
    assert functions.device("cpu") == "CPU" and torch.cuda.is_available() in (True, False)
    assert torch.optim.Adam is torch.nn.optim.Adam
