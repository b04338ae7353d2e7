"""The public names: found when asked for, and the same for a type checker."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

import loomgrad

NAMES = sorted(loomgrad._HOME)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_what_its_module_defines(name: str) -> None:
    home = importlib.import_module(loomgrad._HOME[name])
    assert getattr(loomgrad, name) is getattr(home, name)
    assert name in dir(loomgrad)


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(loomgrad.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname: statement.module
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert seen == loomgrad._HOME


def test_other_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="'loomgrad' has no attribute 'Tenser'"):
        getattr(loomgrad, "Ten" + "ser")
