"""Every row of docs/policies.md: what the expression gives is what stands beside it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from loomgrad import Tensor, dtypes

PAGE = (Path(__file__).parents[1] / "docs" / "policies.md").read_text()
ROWS = re.findall(r"^\| `([^|]*)` \| `([^|]*)` \| [^|]+ \|$", PAGE, re.MULTILINE)


def grad(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return function(x).sum().gradient(x)[0]


NAMES = {"Tensor": Tensor, "dtypes": dtypes, "np": np, "grad": grad} | vars(math)


def test_every_row_is_read() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert len(ROWS) == len(lines) > 50


@pytest.mark.parametrize(("expression", "shown"), ROWS)
def test_policy(expression: str, shown: str) -> None:
    if shown.endswith("Error"):
        with pytest.raises(Exception, match=r".") as raised:
            eval(expression, NAMES)
        assert shown in {kind.__name__ for kind in raised.type.__mro__}
        return
    found = eval(expression, NAMES)
    assert isinstance(found, Tensor)
    assert f"{found.tolist()} {found.dtype.name}" == shown
