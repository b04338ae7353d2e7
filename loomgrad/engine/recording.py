"""What a capture records: the runs of schedules while a function is called once, and where their buffers come from.

While a recording is active every Tensor from outside that is used gets a BUFFER node of its own over the same
memory.  So each buffer of the recorded runs is known to be an argument, a captured Tensor, a constant, or the result
of an earlier run; two Tensors that happen to share memory now may differ in a later call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from loomgrad.ir.uop import UOp

if TYPE_CHECKING:
    from loomgrad.engine.compile import CompiledKernel
    from loomgrad.engine.schedule import Schedule
    from loomgrad.memory import Buffer


class Holder(Protocol):
    """A Tensor, as a recording sees it."""

    uop: UOp

    def _hold_apart(self) -> UOp:
        """Realise the value, put it under a BUFFER node of its own, and return that node."""
        ...


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a schedule; `nodes` are the BUFFERs by their numbers in it."""

    schedule: Schedule
    kernels: list[CompiledKernel]
    nodes: list[UOp]


@dataclass(frozen=True, slots=True)
class View:
    """A BUFFER node over part of the memory of another."""

    node: UOp
    base: UOp
    offset: int


@dataclass(eq=False, slots=True)
class Recording:
    """The runs in order, and the sources of buffers that are not their results."""

    steps: list[Run | View] = field(default_factory=list)
    captured: dict[UOp, Holder] = field(default_factory=dict)
    fresh: dict[UOp, Callable[[], Buffer]] = field(default_factory=dict)
    values: dict[UOp, UOp] = field(default_factory=dict)
    outside: dict[int, tuple[Holder, UOp]] = field(default_factory=dict)
    apart: set[int] = field(default_factory=set)
    conditions: list[Callable[[], bool]] = field(default_factory=list)

    def touch(self, tensor: Holder) -> None:
        """A Tensor is about to be used; one from outside of the capture becomes a captured one."""
        known = self.outside.get(id(tensor))
        if known is None or id(tensor) in self.apart or tensor.uop is not known[1]:
            return
        self.apart.add(id(tensor))
        with paused():
            node = tensor._hold_apart()
        self.captured[node] = tensor
        self.outside[id(tensor)] = (tensor, tensor.uop)


active: ContextVar[Recording | None] = ContextVar("recording", default=None)


@contextmanager
def paused() -> Iterator[None]:
    """Nothing is recorded inside."""
    token = active.set(None)
    try:
        yield
    finally:
        active.reset(token)


def touch(tensor: Holder) -> None:
    """Tells an active recording that a Tensor is used."""
    recording = active.get()
    if recording is not None:
        recording.touch(tensor)


def note_fresh(node: UOp, make: Callable[[], Buffer]) -> None:
    """Tells an active recording that a BUFFER holds something else in every call, and how to make it."""
    recording = active.get()
    if recording is not None:
        recording.fresh[node] = make


def note_condition(holds: Callable[[], bool]) -> None:
    """Tells an active recording what must hold for it to be replayed, such as the mode of a layer."""
    recording = active.get()
    if recording is not None:
        recording.conditions.append(holds)
