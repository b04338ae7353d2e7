"""Mistakes that newcomers make, and what the text tells them."""

from __future__ import annotations

import copy
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loomgrad import Tensor
from loomgrad.errors import MissingNameError

X: Any = Tensor([[1.0, 2.0], [3.0, 4.0]])


def test_a_misspelt_name() -> None:
    with pytest.raises(
        AttributeError, match=r"a tensor has no rleu(.|\n)*did you mean relu\?"
    ) as raised:
        X.rleu()
    printed = "".join(traceback.format_exception(raised.value))
    assert printed.casefold().count("did you mean") == 1, "Python would suggest names of its own"
    with pytest.raises(MissingNameError, match=r"dir\(Tensor\) lists all names"):
        X.zzzzzzzz  # noqa: B018


def test_names_that_libraries_try() -> None:
    assert not hasattr(X, "__array_interface__") and not hasattr(X, "_repr_html_")
    assert getattr(X, "no_such_name", 7) == 7
    assert copy.copy(X).tolist() == X.tolist()


# fmt: off
MISTAKES: tuple[tuple[Callable[[], object], type[Exception], str], ...] = (
    (lambda: X + [1, 2],                    TypeError,      "a list is no operand(.|\n)*Fix: make a tensor of it"),
    (lambda: X - "1",                       TypeError,      "a str is no operand of a tensor"),
    (lambda: X @ 1,                         ValueError,     r"a matrix product needs axes(.|\n)*use x \* y"),
    (lambda: X.where(None, 0),              TypeError,      "a NoneType is no operand"),
    (lambda: X.sum(axs=1),                  TypeError,      r"sum\(\) takes no argument axs(.|\n)*did you mean axis"),
    (lambda: X.sum(axis=1, dim=1),          TypeError,      r"sum\(\) got both axis and dim(.|\n)*give one of them"),
    (lambda: X.cast("flaot16"),             TypeError,      "no dtype named 'flaot16'(.|\n)*did you mean float16"),
    (lambda: Tensor.zeros(2, dtype="real"), TypeError,      "no dtype named 'real'"),
    (lambda: float(X),                      ValueError,     r"needs one element, shape \(2, 2\) has 4"),
    (lambda: f"{X:.3f}",                    ValueError,     "the format '.3f' needs one element"),
    (lambda: np.sin(X),                     TypeError,      "does not support ufuncs"),
    (lambda: X.cross_entropy(np.ones(2)),   ValueError,     "class numbers are ints, e.g. labels.int"),
    (lambda: X.mse_loss(Tensor([1.0, 2.0])), ValueError,    r"target has shape \(2,\), the tensor \(2, 2\)"),
    (lambda: Tensor([1], device="cuda"),    ValueError,     "there is no device CUDA(.|\n)*known: "),
)
# fmt: on


@pytest.mark.parametrize(("mistake", "kind", "text"), MISTAKES)
def test_mistakes(mistake: Callable[[], object], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        mistake()
