"""Devices that tests may use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from loomgrad.memory import Device, LRUAllocator
from tests.memory.devices import FarHeap, Heap, MadeUpDevice


@pytest.fixture
def heap() -> Iterator[Heap]:
    """The memory of the device TEST."""
    made = Heap()
    Device.register("TEST", lambda name: MadeUpDevice(name, LRUAllocator(made, cap=4096)))
    yield made
    Device.unregister("TEST")


@pytest.fixture
def far_heap() -> Iterator[FarHeap]:
    """The memory of the device FAR."""
    made = FarHeap()
    Device.register("FAR", lambda name: MadeUpDevice(name, LRUAllocator(made)))
    yield made
    Device.unregister("FAR")
