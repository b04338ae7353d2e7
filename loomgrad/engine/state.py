"""State of the process: slots, live Tensors, and which nodes already have their value in storage.

Everything here can be reset; nothing here keeps a node, a Tensor or a Buffer alive.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakSet

from loomgrad.ir.opcode import Ops, OpSet
from loomgrad.ir.uop import UOp

if TYPE_CHECKING:
    from loomgrad.memory import Buffer

_slots = itertools.count()
_uniques = itertools.count()
_values: WeakKeyDictionary[UOp, UOp] = WeakKeyDictionary()
live_tensors: WeakSet[object] = WeakSet()
MARKS = OpSet(
    Ops.NOOP, Ops.DETACH
)  # a value of its own to gradients, the same value to the scheduler


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
    _values[node] = value


def realized_value(node: UOp) -> UOp | None:
    """The storage that holds the value of a node, seen in its shape; None if it must be computed."""
    reshaped = node.shape_or_none
    while True:
        if node.op is Ops.BUFFER:
            value: UOp | None = node if node.arg.buffer is not None else None
            break
        value = _values.get(node)
        if value is not None:
            break
        if node.op not in MARKS and node.op is not Ops.RESHAPE:
            return None
        node = node.src[0]
    if value is None or value.shape_or_none == reshaped or reshaped is None:
        return value
    return value.reshape(reshaped)


def storage_of(node: UOp) -> Buffer | None:
    """The Buffer that holds the value of a node, whole and in order."""
    value = realized_value(node)
    if value is None:
        return None
    while value.op is not Ops.BUFFER:
        value = value.src[0]
    buffer: Buffer | None = value.arg.buffer
    return buffer


def reset() -> None:
    """Forgets which nodes have been computed."""
    _values.clear()
