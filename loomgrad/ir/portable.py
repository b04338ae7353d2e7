"""Functions inside rules and patterns as data, so that matchers pickle.

A top-level function travels by name, a function that one of our decorators wrapped by the name of what it became,
and a short lambda by its code.  A closure would carry state that no reader of a rule table sees; it is refused.
"""

from __future__ import annotations

import importlib
import marshal
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

from loomgrad.errors import LoomError

AnyFunction = Callable[..., Any]


def refuse_closure(function: AnyFunction) -> None:
    """Raises for a function that remembers variables of the function it was made in."""
    if getattr(function, "__closure__", None):
        captured = ", ".join(function.__code__.co_freevars)
        raise LoomError(
            f"a rule's function must not be a closure; {function.__qualname__} remembers {captured}",
            fix="pass what it needs as ctx of the rewrite, or make it a top-level function",
        )


def named_object(module: str, path: str) -> Any:
    """What a module calls `path`, or None."""
    found: Any = sys.modules.get(module) or importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


def pack(function: AnyFunction | None) -> object:
    """`function` in a form that pickles."""
    if not isinstance(function, FunctionType):
        return function
    module, path = function.__module__, function.__qualname__
    found = None if "<" in path else named_object(module, path)
    if found is function:
        return function
    if getattr(found, "function", None) is function:
        return _Wrapped(module, path)
    refuse_closure(function)
    return _Code(module, marshal.dumps(function.__code__), function.__name__, function.__defaults__)


def unpack(packed: object) -> Any:
    """The function that `pack` was given."""
    return packed.restore() if isinstance(packed, (_Wrapped, _Code)) else packed


class _Wrapped:
    """The function inside of a guard or rule that a decorator made."""

    __slots__ = ("module", "path")

    def __init__(self, module: str, path: str) -> None:
        self.module, self.path = module, path

    def restore(self) -> AnyFunction:
        function: AnyFunction = named_object(self.module, self.path).function
        return function


class _Code:
    """A function without a name of its own, by its code."""

    __slots__ = ("module", "code", "name", "defaults")

    def __init__(
        self, module: str, code: bytes, name: str, defaults: tuple[object, ...] | None
    ) -> None:
        self.module, self.code, self.name, self.defaults = module, code, name, defaults

    def restore(self) -> AnyFunction:
        namespace = importlib.import_module(self.module).__dict__
        return FunctionType(marshal.loads(self.code), namespace, self.name, self.defaults)
