"""An allocator that keeps freed blocks for the next request of their size.

`free` may be called at any moment, in any thread: by the reference counting of a Buffer, even while
this thread is inside `alloc`.  So it only appends the block to a queue, and whoever can get the
lock without waiting empties the queue.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict, deque
from itertools import count

from loomgrad.errors import OutOfMemoryError
from loomgrad.memory.allocator import Allocator, Block
from loomgrad.memory.holders import largest_holders, readable_size

ALIGNMENT = 64
LARGE = 1 << 20  # from here sizes are rounded to pages, so that nearly equal ones share blocks
PAGE = 4096
DEFAULT_CAP = 1 << 30

allocators: weakref.WeakSet[LRUAllocator] = weakref.WeakSet()


class LRUAllocator:
    """Blocks of `inner`, reused: at most `cap` bytes of freed blocks wait, the least recent go first.

    `limit` is how many bytes the device has, None if `inner` itself refuses what it cannot give.
    `hits`, `misses` count requests served from freed blocks and by `inner`; `peak` is the most
    bytes held by users at one time.
    """

    def __init__(
        self, inner: Allocator, *, cap: int = DEFAULT_CAP, limit: int | None = None
    ) -> None:
        self.inner = inner
        self.cap = cap
        self.limit = limit
        self.hits = self.misses = 0
        self.peak = 0
        self._held = self._cached = 0
        self._lock = threading.Lock()
        self._returned: deque[Block] = deque()
        self._waiting: OrderedDict[int, Block] = OrderedDict()  # by order of return, oldest first
        self._by_size: dict[int, deque[int]] = {}
        self._order = count()
        allocators.add(self)

    @property
    def held_bytes(self) -> int:
        """How many bytes users hold."""
        self._settle()
        return self._held

    @property
    def cached_bytes(self) -> int:
        """How many bytes of freed blocks wait to be used again."""
        self._settle()
        return self._cached

    def alloc(self, nbytes: int) -> Block:
        """A block of at least `nbytes` bytes.

        Raises: OutOfMemoryError, after all waiting blocks have been given back to the device.
        """
        size = rounded_size(nbytes)
        try:
            with self._lock:
                self._take_back()
                block = self._reuse(size) or self._from_device(size)
                self._held += block.nbytes
                self.peak = max(self.peak, self._held)
        finally:
            self._settle()
        return block

    def free(self, block: Block) -> None:
        """Take back a block; it stays allocated until it is reused or the cap is exceeded."""
        self._returned.append(block)
        self._settle()

    def trim(self, keep: int = 0) -> None:
        """Give waiting blocks back to the device until at most `keep` bytes wait."""
        with self._lock:
            self._take_back()
            self._evict(keep)
        self._settle()

    def reset_peak(self) -> None:
        """Count the peak from what is held now."""
        self.peak = self.held_bytes

    def _settle(self) -> None:
        """Empty the queue of returned blocks, unless somebody has the lock, who then does it."""
        while self._returned and self._lock.acquire(blocking=False):
            try:
                self._take_back()
            finally:
                self._lock.release()

    def _take_back(self) -> None:
        while self._returned:
            block = self._returned.popleft()
            self._held -= block.nbytes
            self._cached += block.nbytes
            ticket = next(self._order)
            self._waiting[ticket] = block
            self._by_size.setdefault(block.nbytes, deque()).append(ticket)
        self._evict(self.cap)

    def _reuse(self, size: int) -> Block | None:
        """The most recently freed block of this size: it may still be in a cache of the processor."""
        tickets = self._by_size.get(size)
        if not tickets:
            return None
        self.hits += 1
        self._cached -= size
        block = self._waiting.pop(tickets.pop())
        if not tickets:
            del self._by_size[size]
        return block

    def _evict(self, keep: int) -> None:
        while self._cached > keep:
            _, block = self._waiting.popitem(last=False)
            tickets = self._by_size[block.nbytes]
            tickets.popleft()
            if not tickets:
                del self._by_size[block.nbytes]
            self._cached -= block.nbytes
            self.inner.free(block)

    def _from_device(self, size: int) -> Block:
        self.misses += 1
        if self.limit is not None and self._held + self._cached + size > self.limit:
            self._evict(max(0, self.limit - self._held - size))
        if self.limit is None or self._held + size <= self.limit:
            for _ in range(2):
                try:
                    return self.inner.alloc(size)
                except MemoryError:
                    self._evict(0)
        raise self._out_of_memory(size)

    def _out_of_memory(self, size: int) -> OutOfMemoryError:
        of_limit = "" if self.limit is None else f" of {readable_size(self.limit)}"
        return OutOfMemoryError(
            f"wanted {readable_size(size)} while {readable_size(self._held)}{of_limit} are in use",
            fix="use smaller batches, or drop references to what is no longer needed",
            largest=largest_holders(self) or "nothing is held",
        )


def rounded_size(nbytes: int) -> int:
    """The size of the block that serves a request."""
    step = PAGE if nbytes >= LARGE else ALIGNMENT
    return max(1, -(-nbytes // step)) * step
