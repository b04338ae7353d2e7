"""Counters, the registry of devices, and the end of a process."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from loomgrad.config import DEVICE, Context
from loomgrad.dtype import dtypes
from loomgrad.errors import DeviceError
from loomgrad.memory import Buffer, Device, GlobalCounters, LRUAllocator
from loomgrad.memory.device import BUILT_IN, canonical_name
from tests.memory.devices import Heap, MadeUpDevice, allocator_of


def test_counters_follow_memory_and_reset(heap: Heap) -> None:
    GlobalCounters.reset()
    before = GlobalCounters.mem_used
    assert GlobalCounters.mem_peak == before
    buffers = [Buffer("TEST", 64, dtypes.uint8).ensure_allocated() for _ in range(3)]
    assert GlobalCounters.mem_used == before + 192
    del buffers
    assert GlobalCounters.mem_used == before
    assert GlobalCounters.mem_peak == before + 192
    GlobalCounters.kernel_count += 2
    GlobalCounters.global_ops += 10
    GlobalCounters.global_mem += 20
    GlobalCounters.time_sum_s += 0.5
    GlobalCounters.reset()
    assert (GlobalCounters.kernel_count, GlobalCounters.global_ops) == (0, 0)
    assert (GlobalCounters.global_mem, GlobalCounters.time_sum_s) == (0, 0.0)
    assert GlobalCounters.mem_peak == before


def test_names_of_devices() -> None:
    for spelling in ("CPU", "cpu", "Cpu:0", " cpu:00 "):
        assert canonical_name(spelling) == "CPU"
    assert Device.canonicalize("cpu:01") == "CPU:1"
    for wrong in ("", "CPU:", "CPU:x", "CPU:-1", "1", "C PU", "CPU:1:2", "CPU:²"):
        with pytest.raises(DeviceError, match="is not the name of a device"):
            canonical_name(wrong)


def test_a_device_is_opened_once_per_name(heap: Heap) -> None:
    assert Device["TEST"] is Device["test:0"]
    assert Device["TEST:1"] is not Device["TEST"]
    assert (Device["TEST"].name, Device["test:1"].name) == ("TEST", "TEST:1")
    assert {"TEST", "TEST:1"} <= set(Device.opened())
    Device["TEST"].synchronize()
    device = Device["TEST"]
    assert isinstance(device, MadeUpDevice)
    assert device.waited == 1
    first, second = Buffer("TEST", 4, dtypes.int8), Buffer("TEST:1", 4, dtypes.int8)
    first.ensure_allocated()
    second.ensure_allocated()
    assert allocator_of("TEST").held_bytes == allocator_of("TEST:1").held_bytes == 64


def test_an_unregistered_device_is_forgotten_and_its_buffers_stay_valid() -> None:
    heap = Heap()
    Device.register("Brief", lambda name: MadeUpDevice(name, LRUAllocator(heap)))
    buffer = Buffer("brief", 2, dtypes.uint8).copyin(b"ab")
    assert "BRIEF" in Device.known()
    Device.unregister("brief")
    assert "BRIEF" not in Device.opened()
    assert bytes(buffer.copyout()) == b"ab"
    with pytest.raises(DeviceError):
        Device["BRIEF"]


def test_an_unknown_device_is_told_with_the_known_ones(heap: Heap) -> None:
    with pytest.raises(DeviceError) as raised:
        Device["CPUU:1"]
    text = str(raised.value)
    assert "there is no device CPUU" in text
    assert "did you mean CPU?" in text
    assert "known: CPU, " in text
    assert "TEST" in text
    with pytest.raises(DeviceError, match="there is no device CUDA") as raised:
        Device["cuda"]
    assert str(raised.value).count("known: ") == 1 and "Fix" not in str(raised.value)


def test_a_backend_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUILT_IN, "GHOST", "loomgrad_has_no_such_module")
    with pytest.raises(DeviceError, match="device GHOST cannot be used here: No module named"):
        Device["GHOST"]
    assert "GHOST" not in Device.opened()


def test_backends_of_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("someones_backend")
    module.make_device = lambda name: MadeUpDevice(name, LRUAllocator(Heap()))  # type: ignore[attr-defined]  # made by hand
    monkeypatch.setitem(sys.modules, "someones_backend", module)
    point = SimpleNamespace(name="outside", module="someones_backend")
    asked: list[str] = []

    def entry_points(group: str) -> list[SimpleNamespace]:
        asked.append(group)
        return [point]

    monkeypatch.setattr(importlib.import_module("importlib.metadata"), "entry_points", entry_points)
    assert Device["OUTSIDE:2"].name == "OUTSIDE:2"
    assert "OUTSIDE" in Device.known()
    assert set(asked) == {"loomgrad.backends"}
    Device.unregister("OUTSIDE")
    assert "OUTSIDE:2" not in Device.opened()


def test_the_default_device() -> None:
    with Context(DEVICE="test:1"):
        assert Device.DEFAULT == Device.canonicalize() == "TEST:1"
    restore = DEVICE.change(DEVICE.value)
    try:
        Device.DEFAULT = "other:0"
        assert Device.DEFAULT == "OTHER"
        assert DEVICE.value == "OTHER"
    finally:
        restore()


def test_buffers_alive_at_exit_make_no_noise() -> None:
    code = """
from tests.memory.devices import Heap, MadeUpDevice
from loomgrad.dtype import dtypes
from loomgrad.memory import Buffer, Device, LRUAllocator
Device.register("TEST", lambda name: MadeUpDevice(name, LRUAllocator(Heap())))
kept = [Buffer("TEST", 4, dtypes.int8).ensure_allocated() for _ in range(3)]
view = kept[0].as_memoryview()
cycle = [Buffer("TEST", 4, dtypes.int8).ensure_allocated()]
cycle.append(cycle)
"""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root
    )
    assert done.stderr == done.stdout == ""


def test_importing_memory_loads_no_backend_and_nothing_heavy() -> None:
    heavy = ("numpy", "llvmlite", "loomgrad.backends", "importlib.metadata")
    code = f"import sys, loomgrad.memory; assert not set({heavy}) & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
