"""Buffers, allocators, devices and counters, on made-up devices."""

from __future__ import annotations

import copy
import ctypes
import gc
import importlib
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomgrad.config import DEVICE, Context
from loomgrad.dtype import dtypes
from loomgrad.errors import DeviceError, DTypeError, OutOfMemoryError
from loomgrad.memory import Block, Buffer, Device, GlobalCounters, HostMemory, LRUAllocator
from loomgrad.memory.device import BUILT_IN, canonical_name
from loomgrad.memory.holders import holdings, readable_size
from loomgrad.memory.lru import ALIGNMENT, PAGE, rounded_size
from loomgrad.target import Target, host_target


class Heap(HostMemory):
    """Memory of this process, at most `budget` bytes of it, which knows what is allocated."""

    def __init__(self, budget: int = 1 << 30) -> None:
        self.budget = budget
        self.live: dict[int, Block] = {}
        self.freed: list[int] = []

    @property
    def used(self) -> int:
        return sum(block.nbytes for block in self.live.values())

    def alloc(self, nbytes: int) -> Block:
        if self.used + nbytes > self.budget:
            raise MemoryError
        raw = ctypes.create_string_buffer(nbytes + ALIGNMENT)
        address = -(-ctypes.addressof(raw) // ALIGNMENT) * ALIGNMENT
        block = self.live[address] = Block(address, nbytes, raw)
        return block

    def free(self, block: Block) -> None:
        assert self.live.pop(block.address) is block, "freed twice"
        self.freed.append(block.nbytes)


class FarHeap:
    """Memory that this process cannot address."""

    is_host = False

    def __init__(self) -> None:
        self.contents: dict[int, bytearray] = {}

    def alloc(self, nbytes: int) -> Block:
        address = 4096 * (len(self.contents) + 1)
        self.contents[address] = bytearray(nbytes)
        return Block(address, nbytes)

    def free(self, block: Block) -> None:
        del self.contents[block.address]

    def copy_in(self, block: Block, offset: int, source: memoryview) -> None:
        self.contents[block.address][offset : offset + source.nbytes] = source

    def copy_out(self, block: Block, offset: int, target: memoryview) -> None:
        target[:] = self.contents[block.address][offset : offset + target.nbytes]


@dataclass
class MadeUpDevice:
    """A device with memory and nothing else."""

    name: str
    allocator: LRUAllocator
    target: Target = field(default_factory=host_target)
    waited: int = 0

    def synchronize(self) -> None:
        self.waited += 1


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


def allocator_of(name: str) -> LRUAllocator:
    return Device[name].allocator


def is_exported(buffer: Buffer) -> bool:
    """A function, because a type checker takes a property for what it was when last asserted."""
    return buffer.is_exported


# Buffers


def test_a_buffer_allocates_when_it_is_first_needed(heap: Heap) -> None:
    buffer = Buffer("test:0", 10, dtypes.float32)
    assert (buffer.device, buffer.nbytes, buffer.is_allocated) == ("TEST", 40, False)
    assert repr(buffer) == "<Buffer TEST float32[10] unallocated>"
    assert not heap.live
    address = buffer.address
    assert buffer.is_allocated
    assert repr(buffer) == "<Buffer TEST float32[10]>"
    assert list(heap.live) == [address]
    assert address % 64 == 0
    assert buffer.ensure_allocated() is buffer
    assert buffer.address == address


def test_bytes_go_in_and_come_out(heap: Heap) -> None:
    numbers = np.arange(12, dtype=np.float32).reshape(3, 4)
    buffer = Buffer("TEST", 12, dtypes.float32).copyin(numbers.data)
    assert bytes(buffer.copyout()) == numbers.tobytes()
    view = buffer.as_memoryview()
    assert (view.readonly, view.format, view.nbytes) == (True, "B", 48)
    assert view.cast("f").tolist() == list(range(12))
    buffer.as_memoryview(readonly=False).cast("f")[3] = -1.0
    assert view.cast("f")[3] == -1.0
    assert np.frombuffer(view, np.float32)[3] == -1.0
    assert buffer.copyin(bytes(48)).copyout() == bytes(48)


def test_wrong_sizes_are_refused_before_anything_is_written(heap: Heap) -> None:
    buffer = Buffer("TEST", 2, dtypes.int16)
    for data in (bytes(3), bytes(5), b""):
        with pytest.raises(
            ValueError, match=rf"{len(data)} bytes cannot fill .*int16\[2\].* 4 bytes"
        ):
            buffer.copyin(data)
    assert not heap.live
    with pytest.raises(DTypeError, match="weakint has no storage"):
        Buffer("TEST", 2, dtypes.weakint)


def test_a_buffer_of_nothing_needs_no_memory(heap: Heap) -> None:
    buffer = Buffer("TEST", 0, dtypes.int32).ensure_allocated()
    assert buffer.address == 0
    assert buffer.copyin(np.empty((0, 3), np.int32).data).copyout() == b""
    assert buffer.as_memoryview().nbytes == 0
    assert not heap.live


def test_memory_returns_when_the_last_reference_goes(heap: Heap) -> None:
    gc.disable()
    try:
        buffer = Buffer("TEST", 8, dtypes.float64)
        address = buffer.address
        assert allocator_of("TEST").held_bytes == 64
        del buffer
        assert allocator_of("TEST").held_bytes == 0
        assert Buffer("TEST", 7, dtypes.float64).address == address  # the same block again
    finally:
        gc.enable()


def test_a_host_view_keeps_the_memory(heap: Heap) -> None:
    buffer = Buffer("TEST", 4, dtypes.int32).copyin(np.array([1, 2, 3, 4], np.int32).data)
    assert not is_exported(buffer)
    array = np.frombuffer(buffer.as_memoryview(), np.int32)[1:]
    assert is_exported(buffer)
    other = buffer.as_memoryview()
    del buffer
    assert array.tolist() == [2, 3, 4]
    assert allocator_of("TEST").held_bytes == 64
    del array
    assert allocator_of("TEST").held_bytes == 64
    del other
    assert allocator_of("TEST").held_bytes == 0


def test_the_end_of_an_export_is_noticed(heap: Heap) -> None:
    buffer = Buffer("TEST", 4, dtypes.int32)
    view = buffer.as_memoryview()
    assert is_exported(buffer)
    del view
    assert not is_exported(buffer)
    assert not is_exported(Buffer("TEST", 4, dtypes.int32))


def test_views_share_storage(heap: Heap) -> None:
    base = Buffer("TEST", 8, dtypes.int32).copyin(np.arange(8, dtype=np.int32).data)
    tail = base.view(4, dtypes.int32, offset=16)
    nested = tail.view(2, dtypes.int16, offset=4)
    assert (tail.base, nested.base, nested.offset) == (base, base, 20)
    assert nested.address == base.address + 20
    assert np.frombuffer(nested.copyout(), np.int16).tolist() == [5, 0]
    assert np.frombuffer(tail.as_memoryview(), np.int32).tolist() == [4, 5, 6, 7]
    nested.copyin(np.array([7, 1], np.int16).data)
    assert np.frombuffer(base.copyout(), np.int32)[5] == (1 << 16) + 7
    assert repr(nested) == "<Buffer TEST int16[2] view+20>"
    assert len(heap.live) == 1
    exported = tail.as_memoryview()
    assert is_exported(base)
    assert is_exported(nested)
    del base, tail, nested, exported
    assert allocator_of("TEST").held_bytes == 0


def test_a_view_allocates_its_base(heap: Heap) -> None:
    base = Buffer("TEST", 100, dtypes.int8)
    view = base.view(10, dtypes.int8, offset=50)
    assert not view.is_allocated
    view.ensure_allocated()
    assert base.is_allocated
    assert view.address == base.address + 50


@pytest.mark.parametrize(("size", "offset"), [(3, 4), (1, -1), (1, 12), (4, 0)])
def test_a_view_lies_inside_its_base(size: int, offset: int) -> None:
    with pytest.raises(ValueError, match=r"is not inside <Buffer TEST int8\[12\]"):
        Buffer("TEST", 12, dtypes.int8).view(size, dtypes.int32, offset=offset)


def test_far_memory_is_copied(far_heap: FarHeap) -> None:
    buffer = Buffer("FAR", 4, dtypes.uint8).copyin(b"abcd")
    assert bytes(buffer.view(2, dtypes.uint8, 1).copyout()) == b"bc"
    view = buffer.as_memoryview()
    assert view.readonly
    buffer.copyin(b"wxyz")
    assert bytes(view) == b"abcd"
    assert not is_exported(buffer)
    with pytest.raises(ValueError, match="memory of FAR cannot be written through a view"):
        buffer.as_memoryview(readonly=False)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickling_keeps_data_sharing_and_nothing_else(heap: Heap, protocol: int) -> None:
    base = Buffer("TEST", 100_000, dtypes.uint8, label="weights").copyin(bytes(range(250)) * 400)
    group = [base, base.view(10, dtypes.uint8, 5), base, Buffer("TEST", 3, dtypes.int64)]
    dump = pickle.dumps(group, protocol)
    assert len(dump) < 160_000  # protocol 2 writes two bytes for each above 127
    first, view, again, empty = pickle.loads(dump)
    assert first is again
    assert first.label == "weights"
    assert view.base is first
    assert bytes(view.copyout()) == bytes(range(5, 15))
    assert first.copyout() == base.copyout()
    assert first.address != base.address
    assert (empty.size, empty.dtype, empty.is_allocated) == (3, dtypes.int64, False)


def test_out_of_band_pickling_copies_nothing(heap: Heap) -> None:
    buffer = Buffer("TEST", 1000, dtypes.float32).copyin(bytes(4000))
    parts: list[pickle.PickleBuffer] = []
    dump = pickle.dumps(buffer, 5, buffer_callback=parts.append)
    assert len(dump) < 400
    assert [part.raw().nbytes for part in parts] == [4000]
    loaded = pickle.loads(dump, buffers=parts)
    assert loaded.copyout() == bytes(4000)


def test_a_copy_has_its_own_memory(heap: Heap) -> None:
    buffer = Buffer("TEST", 2, dtypes.uint8).copyin(b"ab")
    twin = copy.deepcopy(buffer)
    twin.copyin(b"xy")
    assert bytes(buffer.copyout()) == b"ab"


def test_two_threads_get_the_same_storage(heap: Heap) -> None:
    buffers = [Buffer("TEST", 16, dtypes.uint8) for _ in range(300)]
    ready = threading.Barrier(4)
    found: list[list[int]] = []

    def touch() -> None:
        ready.wait()
        found.append([buffer.address for buffer in buffers])

    threads = [threading.Thread(target=touch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1] == found[2] == found[3]
    assert len(heap.live) == len(set(found[0])) == 300


# The allocator


def test_rounded_size() -> None:
    assert [rounded_size(nbytes) for nbytes in (1, 64, 65)] == [64, 64, 128]
    assert rounded_size((1 << 20) + 1) == (1 << 20) + PAGE


def test_freed_blocks_are_reused_by_size_last_in_first_out() -> None:
    heap = Heap()
    allocator = LRUAllocator(heap, cap=1 << 20)
    first, second, third = allocator.alloc(100), allocator.alloc(100), allocator.alloc(200)
    assert (allocator.hits, allocator.misses, allocator.held_bytes) == (0, 3, 512)
    for block in (first, second, third):
        allocator.free(block)
    assert (allocator.held_bytes, allocator.cached_bytes) == (0, 512)
    assert allocator.alloc(128) is second
    assert allocator.alloc(65) is first
    assert allocator.alloc(65) not in (first, second, third)
    assert (allocator.hits, allocator.misses) == (2, 4)
    assert allocator.cached_bytes == 256
    assert allocator.peak == 512


def test_the_least_recent_block_leaves_when_the_cap_is_exceeded() -> None:
    heap = Heap()
    allocator = LRUAllocator(heap, cap=300)
    blocks = [allocator.alloc(nbytes) for nbytes in (64, 128, 64, 192)]
    for block in blocks:
        allocator.free(block)
    assert heap.freed == [64, 128]
    assert allocator.cached_bytes == 256
    assert allocator.alloc(64) is blocks[2]
    allocator.free(blocks[2])
    allocator.trim()
    assert heap.freed == [64, 128, 192, 64]
    assert not heap.live


def test_the_cache_is_dropped_before_memory_is_refused() -> None:
    heap = Heap(budget=1024)
    allocator = LRUAllocator(heap)
    kept = allocator.alloc(256)
    for block in [allocator.alloc(256), allocator.alloc(512)]:
        allocator.free(block)
    assert heap.used == 1024
    large = allocator.alloc(768)
    assert heap.freed == [256, 512]
    assert heap.used == 1024
    with pytest.raises(OutOfMemoryError, match=r"wanted 64 bytes while 1\.0 KB are in use"):
        allocator.alloc(1)
    allocator.free(large)
    assert allocator.held_bytes == kept.nbytes


def test_a_limit_counts_what_is_held_and_not_what_waits() -> None:
    heap = Heap()
    allocator = LRUAllocator(heap, limit=1024)
    blocks = [allocator.alloc(256) for _ in range(4)]
    for block in blocks[:3]:
        allocator.free(block)
    allocator.alloc(512)
    assert heap.freed == [256, 256]
    allocator.alloc(256)
    with pytest.raises(OutOfMemoryError, match=r"while 1\.0 KB of 1\.0 KB are in use"):
        allocator.alloc(64)
    assert heap.used == 1024


def test_out_of_memory_names_the_largest_holders(heap: Heap) -> None:
    heap.budget = 4096
    weights = Buffer("TEST", 512, dtypes.float32, label="weights of layer 1").ensure_allocated()
    rest = [Buffer("TEST", 128, dtypes.float32).ensure_allocated() for _ in range(2)]
    before = allocator_of("TEST").held_bytes
    wanted = Buffer("TEST", 1 << 40, dtypes.uint8)
    with pytest.raises(OutOfMemoryError) as raised:
        wanted.ensure_allocated()
    text = str(raised.value)
    assert "wanted 1.0 TB while 3.0 KB are in use" in text
    assert "weights of layer 1 2.0 KB; float32[128] 1.0 KB in 2 buffers" in text
    assert allocator_of("TEST").held_bytes == before == weights.nbytes + 2 * rest[0].nbytes
    assert not wanted.is_allocated
    assert isinstance(raised.value, MemoryError)


def test_holdings_follow_the_lives_of_buffers(heap: Heap) -> None:
    buffer = Buffer("TEST", 16, dtypes.float32, label="an activation")
    assert "an activation" not in [label for label, _, _ in holdings()]
    buffer.ensure_allocated()
    assert ("an activation", 1, 64) in holdings()
    del buffer
    assert "an activation" not in [label for label, _, _ in holdings()]


def test_readable_size() -> None:
    sizes = (0, 1023, 1536, 5 << 20, 7 << 30, 3 << 40, 1 << 52)
    texts = ["0 bytes", "1023 bytes", "1.5 KB", "5.0 MB", "7.0 GB", "3.0 TB", "4096.0 TB"]
    assert [readable_size(nbytes) for nbytes in sizes] == texts


def test_a_block_may_be_freed_while_another_is_allocated() -> None:
    """Reference counting frees at any moment, also inside `alloc` of the same thread."""

    class Interrupted(Heap):
        def alloc(self, nbytes: int) -> Block:
            if pending:
                allocator.free(pending.pop())
            return super().alloc(nbytes)

    pending: list[Block] = []
    allocator = LRUAllocator(Interrupted())
    pending.append(allocator.alloc(64))
    allocator.alloc(128)
    assert (allocator.held_bytes, allocator.cached_bytes) == (128, 64)


def test_threads_may_allocate_and_free_at_once() -> None:
    heap = Heap()
    allocator = LRUAllocator(heap, cap=2048)
    blocks_of_another: list[Block] = []
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for step in range(500):
                blocks_of_another.append(allocator.alloc(64 * (1 + (seed * step) % 7)))
                allocator.free(blocks_of_another.pop())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert allocator.held_bytes == 0
    assert allocator.cached_bytes == heap.used <= 2048
    allocator.trim()
    assert not heap.live


@given(
    requests=st.lists(st.tuples(st.integers(1, 500), st.integers(0, 9)), max_size=60),
    cap=st.integers(0, 1000),
)
def test_books_balance(requests: list[tuple[int, int]], cap: int) -> None:
    """Whatever the order: what users hold and what waits is what the heap has given, no overlap."""
    heap = Heap(budget=3000)
    allocator = LRUAllocator(heap, cap=cap)
    held: list[Block] = []
    for nbytes, victim in requests:
        if victim < len(held):
            allocator.free(held.pop(victim))
        try:
            block = allocator.alloc(nbytes)
        except OutOfMemoryError:
            assert sum(block.nbytes for block in held) + rounded_size(nbytes) > 3000
            continue
        assert block.nbytes >= nbytes
        assert block not in held
        held.append(block)
        assert allocator.held_bytes == sum(block.nbytes for block in held)
        assert allocator.held_bytes + allocator.cached_bytes == heap.used
        assert allocator.cached_bytes <= cap
    assert allocator.peak <= 3000


# Counters


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


# Devices


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
from tests.test_memory import Heap, MadeUpDevice
from loomgrad.dtype import dtypes
from loomgrad.memory import Buffer, Device, LRUAllocator
Device.register("TEST", lambda name: MadeUpDevice(name, LRUAllocator(Heap())))
kept = [Buffer("TEST", 4, dtypes.int8).ensure_allocated() for _ in range(3)]
view = kept[0].as_memoryview()
cycle = [Buffer("TEST", 4, dtypes.int8).ensure_allocated()]
cycle.append(cycle)
"""
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root
    )
    assert done.stderr == done.stdout == ""


def test_importing_memory_loads_no_backend_and_nothing_heavy() -> None:
    heavy = ("numpy", "llvmlite", "loomgrad.backends", "importlib.metadata")
    code = f"import sys, loomgrad.memory; assert not set({heavy}) & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
