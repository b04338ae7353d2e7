"""Files and functions stay small enough to be read in one go."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.meta.modules import ROOT

FILE_LINES = 400
FUNCTION_LINES = 60
# Files over the limit, each with its reason; none may reach twice the limit.
LONG_FILES: dict[str, str] = {}


def sources() -> list[Path]:
    return sorted([*(ROOT / "loomgrad").rglob("*.py"), *(ROOT / "tests").rglob("*.py")])


def test_files() -> None:
    lengths = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in sources()}
    too_long = {
        name: length
        for name, length in lengths.items()
        if length > (2 * FILE_LINES if name in LONG_FILES else FILE_LINES)
    }
    assert not too_long, f"split these files: {too_long}"


def test_reasons_for_long_files_are_needed() -> None:
    needless = [name for name in LONG_FILES if (ROOT / name).read_text().count("\n") <= FILE_LINES]
    assert not needless, f"these are short enough now: {needless}"


def test_functions() -> None:
    too_long = [
        f"{path.relative_to(ROOT)}:{function.lineno} {function.name} has {length} lines"
        for path in sources()
        for function, length in function_lengths(path)
        if length > FUNCTION_LINES
    ]
    assert not too_long, "\n".join(too_long)


def function_lengths(path: Path) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, int]]:
    """Each function and the lines of its body, the docstring not counted."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
            yield node, (node.end_lineno or node.lineno) - first.lineno + 1
