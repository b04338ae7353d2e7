"""A table of weak references in which equal keys give one object, safely from several threads.

Entries go away with their objects.  Insertion is one atomic dict operation, and a dead entry is removed
only if it is still the dead one, by the helper that the interpreter itself uses for weak dictionaries.
"""

from __future__ import annotations

from _weakref import _remove_dead_weakref  # type: ignore[attr-defined]  # not in typeshed
from collections.abc import Hashable
from typing import Any, Generic, TypeVar
from weakref import ref

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class _Entry(ref):  # type: ignore[type-arg]  # subclassing the generic would cost a dict per entry
    __slots__ = ("key",)
    key: Any


class WeakTable(Generic[Key, Value]):
    """Maps keys to live objects; holds none of them alive."""

    __slots__ = ("entries", "_forget")

    def __init__(self) -> None:
        self.entries: dict[Key, _Entry] = {}
        entries, remove = self.entries, _remove_dead_weakref  # globals are gone at interpreter exit

        def forget(entry: _Entry) -> None:
            remove(entries, entry.key)

        self._forget = forget

    def get(self, key: Key) -> Value | None:
        """The live object under `key`, or None."""
        entry = self.entries.get(key)
        return None if entry is None else entry()

    def intern(self, key: Key, candidate: Value) -> Value:
        """The object under `key`; `candidate` becomes it if there is none."""
        entry = _Entry(candidate, self._forget)
        entry.key = key
        while True:
            present = self.entries.setdefault(key, entry)
            if present is entry:
                return candidate
            alive: Value | None = present()
            if alive is not None:
                return alive
            _remove_dead_weakref(self.entries, key)

    def __len__(self) -> int:
        return len(self.entries)
