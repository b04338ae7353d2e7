"""Memory of this process from the C library, aligned for vectors; large blocks on large pages."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path

from loomgrad.memory import Block, HostMemory

ALIGNMENT = 64
LARGE_PAGE = 1 << 21  # of x86-64; elsewhere the system rounds as it likes
LARGE_BLOCK = 2 * LARGE_PAGE
MADV_HUGEPAGE = 14
LIMIT_FILE = Path("/sys/fs/cgroup/memory.max")


class CPUAllocator(HostMemory):
    """Blocks of the C library's heap."""

    def alloc(self, nbytes: int) -> Block:
        """A block of `nbytes` > 0 bytes.  Raises: MemoryError."""
        allocate, _, advise = _functions()
        address = ctypes.c_void_p()
        large = nbytes >= LARGE_BLOCK
        alignment = LARGE_PAGE if large else ALIGNMENT
        if allocate(ctypes.byref(address), alignment, nbytes) != 0 or address.value is None:
            raise MemoryError(f"the system has no {nbytes} bytes")
        if large and advise is not None:
            advise(address, nbytes, MADV_HUGEPAGE)  # a wish: whether it is granted does not matter
        return Block(address.value, nbytes)

    def free(self, block: Block) -> None:
        """Give a block back."""
        _, release, _ = _functions()
        release(ctypes.c_void_p(block.address))


@functools.cache
def _functions() -> tuple[Callable[..., int], Callable[..., None], Callable[..., int] | None]:
    """posix_memalign, free, and madvise where there are large pages to ask for."""
    process = ctypes.CDLL(None)
    allocate, release = process.posix_memalign, process.free
    allocate.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
    release.argtypes = [ctypes.c_void_p]
    release.restype = None
    if sys.platform != "linux":
        return allocate, release, None
    advise = process.madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return allocate, release, advise


def memory_limit(limit_file: Path = LIMIT_FILE) -> int | None:
    """How many bytes this process may use: the machine's memory or its container's share; None if unknown.

    Linux promises memory that it does not have, and kills who uses it, so the allocator refuses first.
    """
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None
    try:
        share = limit_file.read_text(encoding="ascii").strip()
    except OSError:
        return memory
    return min(memory, int(share)) if share.isdecimal() else memory
