"""The Tensors that an object holds, by name: collect them, load them, write them to files and read them.

Any object will do: attributes, lists, tuples and dicts are followed, and the way to a Tensor is its name, as in
`layers.0.weight`.  A class need not derive from anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import NamedTuple

from loomgrad.errors import DataError
from loomgrad.nn.parameter import is_parameter
from loomgrad.nn.safetensors import safe_load as safe_load
from loomgrad.nn.safetensors import safe_metadata as safe_metadata
from loomgrad.nn.safetensors import safe_save as safe_save
from loomgrad.tensor import Tensor

# A counter that layers of batch normalisation keep and rarely need; files may or may not have it.
COUNTER = "num_batches_tracked"


@dataclass(frozen=True, slots=True)
class Held:
    """A Tensor, its name, and whether an optimizer should change it."""

    name: str
    tensor: Tensor
    is_parameter: bool


class Keys(NamedTuple):
    """What `load_state_dict` with `strict=False` passed over."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def get_parameters(obj: object) -> list[Tensor]:
    """What an optimizer should change: each Tensor that `obj` holds, once.

    Of a `Module` these are the Tensors that require a gradient; of any other object all Tensors of floats.
    """
    return list(dict.fromkeys(held.tensor for held in held_by(obj) if held.is_parameter))


def get_state_dict(obj: object, prefix: str = "") -> dict[str, Tensor]:
    """All Tensors that `obj` holds, by the way to them, each name after `prefix`.

    Of a `Module` these are its parameters and its buffers; a Tensor with two names is there under both.
    """
    return {prefix + held.name: held.tensor for held in held_by(obj)}


def load_state_dict(obj: object, state: Mapping[str, Tensor], strict: bool = True) -> Keys:
    """Give the Tensors that `obj` holds the values in `state`, cast to their dtypes.

    Everything is checked first: after an error nothing has changed.

    **Raises** DataError with one table of all keys that are missing, unexpected or of another shape; with
    `strict=False` only shapes matter, and the result says what was passed over.
    """
    own = get_state_dict(obj)
    missing = [name for name in own if name not in state and not _is_counter(name)]
    unexpected = [name for name in state if name not in own and not _is_counter(name)]
    shared = [name for name in own if name in state]
    misshaped = [name for name in shared if not _fits(state[name], own[name])]
    if misshaped or (strict and (missing or unexpected)):
        raise _mismatch(own, state, (missing, unexpected) if strict else ([], []), misshaped)
    changed = [own[name] for name in shared]
    for name in shared:
        _load(own[name], state[name])
    if changed:
        Tensor.realize(*changed)
    return Keys(missing, unexpected)


# ---- walking


def held_by(obj: object) -> Iterator[Held]:
    """Every Tensor that `obj` holds, in order.

    A Module in two places is there under both names, as in PyTorch; other objects are looked into once.
    """
    return _walk(obj, "", False, set())


def _walk(obj: object, name: str, by_rule: bool, seen: set[int]) -> Iterator[Held]:
    """`by_rule` says that the holder declares its buffers: what else requires no gradient is a constant."""
    if isinstance(obj, Tensor):
        trainable = is_parameter(obj)
        if trainable or not by_rule:
            yield Held(name, obj, trainable if by_rule else obj.dtype.is_float)
        return
    items = _items(obj)
    if id(obj) in seen or not items:
        return
    seen.add(id(obj))
    buffers = getattr(obj, "buffer_names", None)
    inside = by_rule if isinstance(obj, (dict, list, tuple)) else buffers is not None
    for key, value in items:
        path = f"{name}.{key}" if name else key
        if buffers is not None and key in buffers and isinstance(value, Tensor):
            yield Held(path, value, False)
        else:
            yield from _walk(value, path, inside, seen)
    if buffers is not None:
        seen.discard(id(obj))


def _items(obj: object) -> list[tuple[str, object]]:
    """What can be followed from an object, by name."""
    if isinstance(obj, Mapping):
        return [(str(key), value) for key, value in obj.items()]
    if isinstance(obj, (list, tuple)):
        return [(str(place), value) for place, value in enumerate(obj)]
    if isinstance(obj, (type, ModuleType, FunctionType)):
        return []
    slots = [slot for kind in type(obj).__mro__ for slot in _slots_of(kind)]
    found = {slot: getattr(obj, slot) for slot in slots if hasattr(obj, slot)}
    found.update(getattr(obj, "__dict__", {}))
    return list(found.items())


def _slots_of(kind: type) -> Sequence[str]:
    slots: str | Sequence[str] = kind.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else slots
    return [name for name in names if not name.startswith("__")]


# ---- loading


def _is_counter(name: str) -> bool:
    return name.rpartition(".")[2] == COUNTER


def _fits(new: Tensor, own: Tensor) -> bool:
    """Whether the shapes are equal; a single element may be written with or without axes."""
    return new.shape == own.shape or (new.numel() == own.numel() == 1)


def _load(own: Tensor, new: Tensor) -> None:
    value = new.detach().to(own.device).cast(own.dtype).reshape(own.shape)
    own.assign(value)


def _mismatch(
    own: Mapping[str, Tensor],
    state: Mapping[str, Tensor],
    keys: tuple[list[str], list[str]],
    misshaped: list[str],
) -> DataError:
    """One table of everything that does not fit."""
    missing, unexpected = keys
    rows = [("key", "in the model", "in the state")]
    rows += [(name, str(own[name].shape), "missing") for name in missing]
    rows += [(name, "not there", str(state[name].shape)) for name in unexpected]
    rows += [(name, str(own[name].shape), str(state[name].shape)) for name in misshaped]
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    table = "\n".join(
        f"    {key:<{first}}  {mine:<{second}}  {theirs}" for key, mine, theirs in rows
    )
    counts = (
        f"{len(missing)} missing, {len(unexpected)} unexpected, {len(misshaped)} of another shape"
    )
    advice = "" if misshaped else "; strict=False loads what fits"
    return DataError(
        f"the state does not fit the model: {counts}\n{table}",
        fix=f"build the model as it was when its state was saved{advice}",
    )
