"""`loomgrad.save` and `loomgrad.load`: Tensors in dicts and lists, with numbers and text, in a safetensors file.

The Tensors are those of the file, under the way to them as their name; what is around them is JSON in its metadata:

    tensor {"tensor": name}, dict {"dict": [[key, value], ...]}, list {"list": [...]}, tuple {"tuple": [...]},
    numbers, text and None as they are

A dict of Tensors alone needs none of that: it is a plain safetensors file, which other programs read too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from loomgrad.errors import DataError
from loomgrad.nn.safetensors import METADATA, read_file, safe_save
from loomgrad.tensor import Tensor

STRUCTURE = "loomgrad.structure"
ADVICE = "save model.state_dict(), and dicts and lists of Tensors, numbers and text"


def save(obj: object, path: str | Path) -> None:
    """Write a state dict, or Tensors in nested dicts and lists with numbers and text, to a file.

    **Raises** DataError for anything else: nothing is pickled.
    """
    tensors: dict[str, Tensor] = {}
    structure = _described(obj, "", tensors)
    if isinstance(obj, dict) and tensors.keys() == obj.keys():
        safe_save(tensors, path)
    else:
        safe_save(tensors, path, {STRUCTURE: json.dumps(structure)})


def load(path: str | Path, map_location: str | None = None, weights_only: bool = True) -> object:
    """What `save` wrote, or the Tensors by name of any safetensors file, on the device `map_location`.

    `weights_only` changes nothing: nothing that a file holds is ever executed.

    **Raises** DataError if the file is missing, damaged or of another format.
    """
    tensors, metadata = read_file(path, map_location)
    if STRUCTURE not in metadata:
        return tensors
    try:
        return _rebuilt(json.loads(metadata[STRUCTURE]), tensors)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(
            f"the file says how its tensors were arranged, but not in a known way: {error}",
            file=path,
        ) from None


def _described(obj: object, way: str, tensors: dict[str, Tensor]) -> object:
    """An object as JSON; its Tensors go into `tensors`."""
    if obj is None or type(obj) in (bool, int, float, str):
        return obj
    if isinstance(obj, Tensor):
        name = _free_name(way or "tensor", tensors)
        tensors[name] = obj
        return {"tensor": name}
    if isinstance(obj, Mapping):
        for key in obj:
            if type(key) not in (str, int):
                raise DataError(f"a key of type {type(key).__name__} cannot be saved", fix=ADVICE)
        inside = [[key, _described(value, _way(way, key), tensors)] for key, value in obj.items()]
        return {"dict": inside}
    if isinstance(obj, (list, tuple)):
        kind = "list" if isinstance(obj, list) else "tuple"
        return {kind: [_described(v, _way(way, i), tensors) for i, v in enumerate(obj)]}
    raise DataError(f"a {type(obj).__name__} cannot be saved", where_in_it=way, fix=ADVICE)


def _way(way: str, key: object) -> str:
    return f"{way}.{key}" if way else str(key)


def _free_name(name: str, tensors: Mapping[str, Tensor]) -> str:
    """`{"a": {"b": x}, "a.b": y}` has two ways of one name."""
    while name in tensors or name == METADATA:
        name += "_"
    return name


def _rebuilt(found: object, tensors: Mapping[str, Tensor]) -> object:
    """The object that JSON describes.  Raises ValueError, KeyError or TypeError where it describes none."""
    if not isinstance(found, dict):
        if isinstance(found, list):
            raise ValueError("a list that is not said to be one")
        return found
    ((kind, inside),) = found.items()
    if kind == "tensor":
        return tensors[inside]
    if kind == "dict":
        return {key: _rebuilt(value, tensors) for key, value in inside}
    if kind not in ("list", "tuple"):
        raise ValueError(f"there is no {kind!r}")
    parts = [_rebuilt(value, tensors) for value in inside]
    return parts if kind == "list" else tuple(parts)
