"""A bounded cache: what was used last stays.  Safe from several threads."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Cache(Generic[Key, Value]):
    """At most `most` values by key."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._entries: OrderedDict[Key, Value] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Key) -> Value | None:
        """The value of a key, which then counts as used."""
        with self._lock:
            value = self._entries.get(key)
            if value is not None:
                self._entries.move_to_end(key)
            return value

    def put(self, key: Key, value: Value) -> Value:
        """Keeps a value; drops the one that was used longest ago if there are too many."""
        with self._lock:
            self._entries[key] = value
            self._entries.move_to_end(key)
            if len(self._entries) > self.most:
                self._entries.popitem(last=False)
        return value

    def clear(self) -> None:
        """Drops all."""
        with self._lock:
            self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)
