"""The cache of freed blocks, limits, and who holds what."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomgrad.dtype import dtypes
from loomgrad.errors import OutOfMemoryError
from loomgrad.memory import Block, Buffer, LRUAllocator
from loomgrad.memory.holders import holdings, readable_size
from loomgrad.memory.lru import PAGE, rounded_size
from tests.memory.devices import Heap, allocator_of


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
