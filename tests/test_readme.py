"""What the README shows is what happens."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize(("source", "printed"), EXAMPLES)
def test_an_example_prints_what_it_says(source: str, printed: str) -> None:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(source, "README.md", "exec"), {})
    assert output.getvalue() == printed


def test_there_is_an_example() -> None:
    assert EXAMPLES and all(source.count("\n") <= 14 for source, _ in EXAMPLES)
