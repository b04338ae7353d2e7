"""The globals of generated code: a readable name for each object that the code mentions."""

from __future__ import annotations

import linecache
import re
from itertools import count
from typing import Any

from loomgrad.dtype import DType
from loomgrad.ir.opcode import Op


class Namespace:
    """Names objects; the same object, or an equal set, always gets the same name.

    A double underscore keeps these names apart from the variables of the generated code.
    """

    def __init__(self) -> None:
        self.globals: dict[str, Any] = {}
        self._names: dict[object, str] = {}

    def name_of(self, value: Any) -> str:
        """The name of `value`, given on first use."""
        key = value if isinstance(value, frozenset) else id(value)
        name = self._names.get(key)
        if name is None:
            name = f"{_hint(value)}__{len(self._names)}"
            self._names[key] = name
            self.globals[name] = value
        return name

    def run(self, source: str, function: str, title: str) -> Any:
        """The function that `source` defines.  Tracebacks show its lines."""
        filename = f"{title[:-1]} {next(_serial)}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
        exec(compile(source, filename, "exec"), self.globals)
        return self.globals[function]


_serial = count()


def _hint(value: object) -> str:
    if isinstance(value, (Op, DType)):
        return value.name
    if isinstance(value, (bool, int, float)):
        return "number"
    if isinstance(value, frozenset):
        return "set"
    name = getattr(value, "__name__", type(value).__name__)
    return re.sub(r"\W", "", name) or "value"
