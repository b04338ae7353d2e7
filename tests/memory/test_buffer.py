"""Buffers: lazy, counted, viewed, pickled."""

from __future__ import annotations

import copy
import gc
import pickle
import threading

import numpy as np
import pytest

from loomgrad.dtype import dtypes
from loomgrad.errors import DTypeError
from loomgrad.memory import Buffer
from tests.memory.devices import FarHeap, Heap, allocator_of, is_exported


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
