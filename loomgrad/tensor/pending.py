"""What waits for the next step of an optimizer: losses, and statistics that a layer gathers.

A training loop reads them later or never.  Computed together with the step they cost next to nothing; alone, the
whole forward pass would run a second time, and statistics that nobody reads would grow a graph without end.
"""

from __future__ import annotations

import threading
from weakref import WeakValueDictionary

from loomgrad.engine.state import owns
from loomgrad.tensor.core import Core


class _Waiting(threading.local):
    """Of each thread its own, by identity."""

    def __init__(self) -> None:
        self.tensors: WeakValueDictionary[int, Core] = WeakValueDictionary()


_waiting = _Waiting()


def await_step(*tensors: Core) -> None:
    """Have them computed with the next step of an optimizer in this thread, if they are alive then."""
    _waiting.tensors.update((id(tensor), tensor) for tensor in tensors)


def take_waiting() -> list[Core]:
    """All that wait, which then no longer do."""
    found = list(_waiting.tensors.values())
    _waiting.tensors.clear()
    return found


owns("values that wait for a step", lambda: _waiting.tensors.clear())
