"""State of the process: slots, live Tensors, and which nodes already have their value in storage.

Everything here can be reset; nothing here keeps a node, a Tensor or a Buffer alive.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakSet

from loomgrad.engine.recording import View, active
from loomgrad.ir.args import ParamArg
from loomgrad.ir.opcode import Ops, OpSet
from loomgrad.ir.shape import size_of
from loomgrad.ir.uop import UOp

if TYPE_CHECKING:
    from loomgrad.memory import Buffer

_slots = itertools.count()
_uniques = itertools.count()
_resets: dict[str, Callable[[], None]] = {}
_values: WeakKeyDictionary[UOp, UOp] = WeakKeyDictionary()
live_tensors: WeakSet[object] = WeakSet()
# A value of its own to gradients, the same value to the scheduler.
MARKS = OpSet(Ops.NOOP, Ops.DETACH)
_FOLLOWED = OpSet(*MARKS, Ops.RESHAPE, Ops.SHRINK)


def next_slot() -> int:
    """A number that no other BUFFER of this process has."""
    return next(_slots)


def next_unique() -> int:
    """A number that makes a leaf differ from equal ones."""
    return next(_uniques)


def register(tensor: object) -> None:
    """Remembers a live Tensor, weakly."""
    live_tensors.add(tensor)


def record(node: UOp, value: UOp) -> None:
    """From now on `value`, a BUFFER seen through RESHAPEs, stands for the computed `node`."""
    recording = active.get()
    if recording is not None:
        recording.values[node] = value
    _values[node] = value


def realized_value(node: UOp) -> UOp | None:
    """The storage that holds the value of a node, seen in its shape; None if it must be computed.

    A contiguous slice of storage is storage too: a view of the same memory.
    """
    moved: list[UOp] = []
    while (value := _stored(node)) is None:
        if node.op not in _FOLLOWED:
            return None
        moved.append(node)
        node = node.src[0]
    for step in reversed(moved):
        if step.op is Ops.SHRINK:
            value = _slice(step, value)
            if value is None:
                return None
        elif step.op is Ops.RESHAPE:
            value = value.reshape(step.shape)
    return value


def _stored(node: UOp) -> UOp | None:
    if node.op is Ops.BUFFER:
        return node if node.arg.buffer is not None else None
    recording = active.get()
    # What was computed before a capture may be another value in a later call.
    return _values.get(node) if recording is None else recording.values.get(node)


def _slice(shrink: UOp, value: UOp) -> UOp | None:
    """A view of the memory of `value`, if the elements of `shrink` lie together there."""
    offset = 0
    stride = 1
    cut = False
    for begin, size, whole in zip(
        reversed(shrink.offsets), reversed(shrink.sizes), reversed(value.shape), strict=True
    ):
        if size == 0 or (cut and size != 1):
            return None
        offset += begin * stride
        stride *= whole
        cut = cut or size != whole
    storage = value.base
    arg = storage.arg
    count = size_of(shrink.sizes)
    memory = arg.buffer.view(count, arg.dtype, offset * arg.dtype.itemsize)
    view = UOp(Ops.BUFFER, (), ParamArg(next_slot(), arg.dtype, count, arg.device, buffer=memory))
    recording = active.get()
    if recording is not None:
        recording.steps.append(View(view, storage, offset * arg.dtype.itemsize))
    made = view.reshape(shrink.shape)
    record(shrink, made)
    return made


def storage_of(node: UOp) -> Buffer | None:
    """The Buffer that holds the value of a node, whole and in order."""
    below = node
    while below.op is Ops.RESHAPE or below.op in MARKS:
        below = below.src[0]
    if below.op is Ops.BUFFER:
        bound: Buffer | None = below.arg.buffer
        return bound
    value = realized_value(node)
    if value is None:
        return None
    buffer: Buffer | None = value.base.arg.buffer
    return buffer


def owns(name: str, reset: Callable[[], None]) -> None:
    """Says that a module keeps state of the process, and how to clear it."""
    _resets[name] = reset


def reset() -> list[str]:
    """Clears all state that modules own, and returns its names.  Tensors keep their values."""
    for clear in _resets.values():
        clear()
    return sorted(_resets)


owns("values of nodes", _values.clear)
