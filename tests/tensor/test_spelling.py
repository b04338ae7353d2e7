"""`dim` for `axis`, `keepdims` for `keepdim`: in every method that has them."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
import pytest

from loomgrad import Tensor
from loomgrad.errors import ArgumentError

ARRAY = np.array([[1.0, -2.0, 3.0], [4.0, 0.5, -1.0]], np.float32)
# What a method needs besides an axis.
INDEX = Tensor([[0, 1, 0], [1, 0, 0]])
ROW = Tensor([1.0, 2.0, 3.0])
OTHER_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "batchnorm": (ROW, ROW, ROW, ROW),
    "take_along_axis": (INDEX,),
    "gather": (INDEX,),
    "cat": (Tensor(ARRAY),),
    "stack": (Tensor(ARRAY),),
    "split": (2,),
    "chunk": (2,),
    "repeat_interleave": (2,),
    "roll": (1,),
}


def methods_with(argument: str) -> list[str]:
    """The public methods of Tensor that take an argument of this name."""
    public = [name for name in dir(Tensor) if not name.startswith("_")]
    named = [name for name in public if callable(getattr(Tensor, name)) and name != "train"]
    return [name for name in named if argument in signature(getattr(Tensor, name)).parameters]


def test_both_lists_are_filled() -> None:
    assert {"sum", "argmax", "softmax", "flip", "squeeze"} <= set(methods_with("axis"))
    assert {"sum", "argmax", "logsumexp", "var"} <= set(methods_with("keepdim"))


def parts(result: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize(
    ("usual", "other", "name"),
    [
        (usual, other, name)
        for usual, other in (("axis", "dim"), ("dim", "axis"), ("dims", "axis"))
        for name in methods_with(usual)
        if name != "size"
    ],
)
def test_axes(usual: str, other: str, name: str) -> None:
    method, arguments = getattr(Tensor(ARRAY), name), list(OTHER_ARGUMENTS.get(name, ()))
    named = {"index": arguments.pop()} if name == "gather" else {}
    found = parts(method(*arguments, **{other: 1}, **named))
    for one, same in zip(found, parts(method(*arguments, **{usual: 1}, **named)), strict=True):
        np.testing.assert_array_equal(one.numpy(), same.numpy())
    with pytest.raises(TypeError, match=f"{name}.. got both {usual} and {other}"):
        method(*arguments, **{usual: 1, other: 1}, **named)


@pytest.mark.parametrize("name", methods_with("keepdim"))
def test_keepdims(name: str) -> None:
    method = getattr(Tensor(ARRAY), name)
    assert method(axis=1, keepdims=True).shape == method(axis=1, keepdim=True).shape
    with pytest.raises(TypeError, match=f"{name}.. got both keepdim and keepdims"):
        method(axis=1, keepdim=True, keepdims=False)


def test_a_name_beside_a_place() -> None:
    x: Any = Tensor(ARRAY)
    mistakes: tuple[Callable[[], object], ...] = (
        lambda: x.sum(1, dim=1),
        lambda: x.softmax(0, dim=0),
        lambda: x.sum(1, True, keepdims=True),
    )
    for mistake in mistakes:
        with pytest.raises(TypeError, match="got both"):
            mistake()


def test_flip_by_name() -> None:
    x: Any = Tensor(ARRAY)
    for flipped in (x.flip(dims=(0, 1)), x.flip(axis=(0, 1)), x.flip(0, 1), x.flip((0, 1))):
        np.testing.assert_array_equal(flipped.numpy(), np.flip(ARRAY))
    with pytest.raises(ArgumentError, match="axes by place and by name"):
        x.flip(0, axis=1)


def test_unknown_arguments_are_still_refused() -> None:
    x: Any = Tensor(ARRAY)
    with pytest.raises(
        ArgumentError, match=r"sum\(\) takes no argument keepdm(.|\n)*did you mean keepdim"
    ):
        x.sum(keepdm=True)
    with pytest.raises(ArgumentError, match=r"softmax\(\) takes no argument keepdims"):
        x.softmax(keepdims=True)
