"""What a pattern may ask of a node's arg, tag or dtype: one value, one of several, some fields, or a predicate."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from loomgrad.ir import portable
from loomgrad.ir.args import Interned
from loomgrad.ir.constant import same_number


def same_value(a: object, b: object) -> bool:
    """Equality that respects types: 1, 1.0 and True differ, and so do the zeros."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    return same_number(a, b) if isinstance(a, float) else a == b


def _exact(value: object) -> Hashable:
    """A hashable form that is equal only for the same values of the same types."""
    if isinstance(value, tuple):
        return (tuple, *map(_exact, value))
    return type(value), repr(value) if isinstance(value, float) else value


def _by_identity(value: object) -> bool:
    """Whether equality of a value is identity: dtypes, operations, interned args."""
    return type(value).__eq__ is object.__eq__


class ValueTest:
    """One of the four questions.  Equal questions are equal, so that compiled rules can be shared."""

    __slots__ = ("kind", "asked", "key")

    def __init__(self, asked: Any) -> None:
        self.asked = asked
        if isinstance(asked, Mapping):
            self.kind = "fields"
            self.key: Hashable = tuple((name, _exact(value)) for name, value in asked.items())
        elif isinstance(asked, (set, frozenset)):
            self.kind = "member"
            self.key = frozenset(map(_exact, asked))
        elif callable(asked) and not isinstance(asked, Interned):
            portable.refuse_closure(asked)
            self.kind, self.key = "predicate", asked
        else:
            self.kind, self.key = "value", _exact(asked)

    def accepts(self, value: object) -> bool:
        """The answer for one value."""
        if self.kind == "value":
            return same_value(value, self.asked)
        if self.kind == "member":
            return any(same_value(value, allowed) for allowed in self.asked)
        if self.kind == "predicate":
            return bool(self.asked(value))
        missing = object()
        return all(
            same_value(getattr(value, name, missing), wanted) for name, wanted in self.asked.items()
        )

    def text(self, expression: str, name_of: Callable[[object], str]) -> str:
        """The test of an expression in generated code."""
        asked = self.asked
        if self.kind == "value" and _by_identity(asked):
            return f"{expression} is {name_of(asked)}"
        if self.kind == "member" and all(map(_by_identity, asked)):
            return f"{expression} in {name_of(frozenset(asked))}"
        if self.kind == "predicate":
            return f"{name_of(asked)}({expression})"
        return f"{name_of(self)}.accepts({expression})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ValueTest) and (self.kind, self.key) == (other.kind, other.key)

    def __hash__(self) -> int:
        return hash((self.kind, self.key))

    def __repr__(self) -> str:
        if self.kind == "predicate":
            return str(getattr(self.asked, "__name__", self.asked))
        return repr(self.asked)

    def __reduce__(self) -> tuple[object, tuple[object]]:
        return _restore, (portable.pack(self.asked),)


def _restore(packed: object) -> ValueTest:
    return ValueTest(portable.unpack(packed))


def value_test(asked: object | Callable[..., bool]) -> ValueTest | None:
    """The test for what a pattern was given; None asks nothing."""
    return None if asked is None else ValueTest(asked)
