"""`loomgrad.save` and `loomgrad.load`: what goes in comes out, and nothing else is accepted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import loomgrad
from loomgrad import Tensor
from loomgrad.errors import DataError
from loomgrad.nn.checkpoint import STRUCTURE
from loomgrad.nn.linear import Linear
from loomgrad.nn.safetensors import safe_load, safe_metadata, safe_save


def plain(value: object) -> object:
    """Tensors as lists."""
    if isinstance(value, Tensor):
        return ("tensor", value.tolist())
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(plain(inner) for inner in value)
    return value


def test_a_state_dict_is_a_plain_safetensors_file(tmp_path: Path) -> None:
    state = Linear(2, 3).state_dict()
    loomgrad.save(state, tmp_path / "x.pt")
    assert plain(safe_load(tmp_path / "x.pt")) == plain(state)
    assert safe_metadata(tmp_path / "x.pt") == {}
    assert plain(loomgrad.load(tmp_path / "x.pt", map_location="cpu")) == plain(state)


@pytest.mark.parametrize(
    "value",
    [
        Tensor([1.0, 2.0]),
        {"a": {"b": Tensor([1]), 3: [Tensor([2]), "text", None]}, "a.b": Tensor([3]), "e": 4},
        (1, 2.5, True, [], {}, ()),
        {"__metadata__": Tensor([1.0])},
        "text",
        None,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_around_the_tensors_comes_back(value: object, tmp_path: Path) -> None:
    loomgrad.save(value, tmp_path / "x")
    assert plain(loomgrad.load(tmp_path / "x")) == plain(value)


@pytest.mark.parametrize("value", [Linear(1, 1), {"f": print}, [{1.5: 2}], {1, 2}, b"bytes"])
def test_nothing_is_pickled(value: object, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be saved") as caught:
        loomgrad.save(value, tmp_path / "x")
    assert "model.state_dict()" in str(caught.value)


@pytest.mark.parametrize(
    "structure",
    [
        "{",
        "[1]",
        '{"tensor": "other"}',
        '{"tensor": ["x"]}',
        '{"object": 1}',
        "{}",
        '{"list": 3}',
        '{"dict": [[1]]}',
        '{"dict": [[[], 1]]}',
        '{"list": [' * 2000 + "]}" * 2000,
        "[" * 100_000,
    ],
)
def test_hostile_structures_are_refused(structure: str, tmp_path: Path) -> None:
    safe_save({"x": Tensor([1.0])}, tmp_path / "x", {STRUCTURE: structure})
    with pytest.raises(DataError, match="not in a known way"):
        loomgrad.load(tmp_path / "x")


def test_the_structure_is_what_the_module_says(tmp_path: Path) -> None:
    loomgrad.save({"a": [Tensor([1.0])]}, tmp_path / "x")
    found = json.loads(safe_metadata(tmp_path / "x")[STRUCTURE])
    assert found == {"dict": [["a", {"list": [{"tensor": "a.0"}]}]]}
