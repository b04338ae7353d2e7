"""State dicts: what is found in objects, loading with one table of what does not fit, files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from loomgrad import Tensor, dtypes
from loomgrad.errors import DataError
from loomgrad.nn.containers import ModuleList, Sequential
from loomgrad.nn.linear import Linear
from loomgrad.nn.module import Module
from loomgrad.nn.normalization import BatchNorm
from loomgrad.nn.parameter import Parameter
from loomgrad.nn.state import (
    get_parameters,
    get_state_dict,
    load_state_dict,
    safe_load,
    safe_save,
)


@dataclass(slots=True)
class Slotted:
    w: Tensor
    rate: float = 0.1


class Plain:
    """No base class, every way to hold a Tensor."""

    kind = Tensor([7.0])  # of the class, not of the object

    def __init__(self) -> None:
        self.a = Tensor([1.0])
        self.layers = [Linear(2, 3), {"b": Tensor([2.0, 3.0])}]
        self.pair = (Tensor([4]), Slotted(Tensor([5.0])))
        self.itself = self
        self.name = "text"
        self.module = np


def test_attributes_lists_tuples_dicts_and_slots_are_followed() -> None:
    found = get_state_dict(Plain(), "net.")
    assert list(found) == [
        "net.a",
        "net.layers.0.weight",
        "net.layers.0.bias",
        "net.layers.1.b",
        "net.pair.0",
        "net.pair.1.w",
    ]


def test_parameters_are_floats_of_plain_objects_each_once() -> None:
    plain = Plain()
    plain.layers.append({"tied": plain.a})
    found = get_parameters(plain)
    assert len(found) == 5 and plain.pair[0] not in set(found)
    assert get_parameters(Tensor([1.0])) != [] and get_parameters("text") == []


class Net(Module):
    def __init__(self) -> None:
        super().__init__()
        self.l1 = Linear(4, 8)
        self.norm = BatchNorm(8)
        self.rest = ModuleList([Linear(8, 8), Linear(8, 2)])
        self.scale = Parameter([2.0])
        self.constant = Tensor([3.0])
        self.register_buffer("mask", Tensor([True, False]))

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.l1(x).relu())
        for layer in self.rest:
            x = layer(x)
        return x * self.scale


NAMES = [
    *("l1.weight", "l1.bias", "norm.weight", "norm.bias"),
    *("norm.running_mean", "norm.running_var", "norm.num_batches_tracked"),
    *("rest.0.weight", "rest.0.bias", "rest.1.weight", "rest.1.bias", "scale", "mask"),
]


def test_a_module_has_the_names_that_pytorch_gives() -> None:
    net = Net()
    assert list(net.state_dict()) == NAMES
    parameters = [n for n in NAMES if "running" not in n and "tracked" not in n and n != "mask"]
    assert [name for name, _ in net.named_parameters()] == parameters
    assert len(list(net.parameters())) == 9 and len(list(net.buffers())) == 4


def test_frozen_parameters_stay_parameters() -> None:
    net = Net()
    net.l1.requires_grad_(False)
    assert list(net.state_dict()) == NAMES and len(get_parameters(net)) == 9


def test_tied_tensors_have_both_names_and_are_one_parameter() -> None:
    net = Net()
    net.l1.weight = net.scale = Parameter(np.ones((8, 4), np.float32))
    assert len(list(net.parameters())) == 8
    assert len(dict(net.named_parameters())) == 8 and list(net.state_dict()) == NAMES


def test_a_module_in_two_places_is_saved_under_both_names() -> None:
    layer = Linear(2, 2)
    model = Sequential(layer, layer)
    assert list(model.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert len(list(model.parameters())) == 2


def test_a_round_trip_through_a_file(tmp_path: Path) -> None:
    first, second, x = Net(), Net(), Tensor.randn(5, 4).realize()
    first(x).realize()
    safe_save(first.state_dict(), tmp_path / "net.safetensors")
    before = dict(second.named_parameters())
    result = second.load_state_dict(safe_load(tmp_path / "net.safetensors"))
    assert result == ([], [])
    assert all(before[name] is tensor for name, tensor in second.named_parameters())
    assert all(parameter.requires_grad for parameter in second.parameters())
    np.testing.assert_array_equal(first.eval()(x).numpy(), second.eval()(x).numpy())
    second(x).sum().backward()


def test_values_are_cast_to_what_the_model_has() -> None:
    layer = Linear(2, 2)
    weight = Tensor([[1, 2], [3, 4]], dtype=dtypes.int64)
    load_state_dict(layer, {"weight": weight, "bias": Tensor([0.5, 1.5], dtype=dtypes.float16)})
    assert layer.weight.dtype is dtypes.float32
    assert layer.weight.tolist() == [[1, 2], [3, 4]] and layer.bias is not None
    assert layer.bias.tolist() == [0.5, 1.5]


def test_one_table_of_everything_that_does_not_fit() -> None:
    layer = Linear(2, 3)
    before = layer.weight.numpy().copy()
    state = {"weight": Tensor.zeros(3, 2), "bais": Tensor.zeros(3), "scale": Tensor.zeros(1)}
    with pytest.raises(DataError) as caught:
        load_state_dict(layer, state)
    lines = str(caught.value).splitlines()
    assert "1 missing, 2 unexpected, 0 of another shape" in lines[0] + lines[-1]
    table = [line.split("  ") for line in lines]
    assert ["bias", "(3,)", "missing"] in [[c.strip() for c in row if c.strip()] for row in table]
    assert any("bais" in line and "not there" in line and "(3,)" in line for line in lines)
    np.testing.assert_array_equal(layer.weight.numpy(), before)


def test_shapes_must_fit_also_when_not_strict() -> None:
    layer = Linear(2, 3)
    state = {"weight": Tensor.zeros(2, 3), "bias": Tensor.zeros(3)}
    with pytest.raises(DataError, match="1 of another shape") as caught:
        load_state_dict(layer, state, strict=False)
    assert "weight  (3, 2)        (2, 3)" in str(caught.value)


def test_not_strict_says_what_was_passed_over() -> None:
    layer = Linear(2, 3)
    result = load_state_dict(layer, {"bias": Tensor.ones(3), "other": Tensor.ones(1)}, strict=False)
    assert result.missing_keys == ["weight"] and result.unexpected_keys == ["other"]
    assert layer.bias is not None and layer.bias.tolist() == [1, 1, 1]


@pytest.mark.parametrize("counter", [Tensor(5), Tensor([5])], ids=["0-d", "1 element"])
def test_the_counter_of_batch_normalisation_may_be_anything(counter: Tensor) -> None:
    """B173: a stray counter, with or without an axis, or none at all."""
    state = {name: Tensor.ones(1) for name in ("weight", "bias", "running_mean", "running_var")}
    layer = BatchNorm(1)
    load_state_dict(layer, {**state, "num_batches_tracked": counter})
    assert layer.num_batches_tracked.item() == 5
    load_state_dict(layer, state)
    load_state_dict(
        BatchNorm(1, track_running_stats=False),
        {"weight": Tensor.ones(1), "bias": Tensor.ones(1), "num_batches_tracked": counter},
    )
