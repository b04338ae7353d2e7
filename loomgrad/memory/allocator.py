"""What a backend's allocator must do, and how memory of this process is copied."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from typing import Protocol

HostArray = ctypes.Array[ctypes.c_ubyte]


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Memory of a device: `nbytes` bytes, 64-byte aligned, at `address` as its kernels see it.

    `handle` is what the allocator needs to free it, beyond the address.
    """

    address: int
    nbytes: int
    handle: object = None


class Allocator(Protocol):
    """Gives and takes back memory of one device; `alloc` and `free` are never called concurrently.

    `is_host` says that a block is plain memory of this process, which others may read in place.
    """

    @property
    def is_host(self) -> bool: ...

    def alloc(self, nbytes: int) -> Block:
        """A block of `nbytes` bytes, a multiple of 64.  Raises: MemoryError if there is none."""
        ...

    def free(self, block: Block) -> None:
        """Take back a block that `alloc` gave; nobody uses it any more."""
        ...

    def copy_in(self, block: Block, offset: int, source: memoryview) -> None:
        """Copy the bytes of `source` to `offset` of the block, after all work that uses it."""
        ...

    def copy_out(self, block: Block, offset: int, target: memoryview) -> None:
        """Fill `target` with the bytes from `offset` of the block, after all work that writes it."""
        ...


class HostMemory:
    """The copies of an allocator whose blocks are memory of this process; `alloc`, `free` to add."""

    @property
    def is_host(self) -> bool:
        """Others may read a block in place."""
        return True

    def copy_in(self, block: Block, offset: int, source: memoryview) -> None:
        """Copy the bytes of `source` to `offset` of the block."""
        host_bytes(block.address + offset, source.nbytes)[:] = source

    def copy_out(self, block: Block, offset: int, target: memoryview) -> None:
        """Fill `target` with the bytes from `offset` of the block."""
        target[:] = host_bytes(block.address + offset, target.nbytes)


def host_bytes(address: int, nbytes: int) -> memoryview:
    """Memory of this process as bytes; whoever asks keeps it allocated."""
    return memoryview(host_array(address, nbytes)).cast("B")


def host_array(address: int, nbytes: int) -> HostArray:
    """Memory of this process as an array of ctypes, which exports it and can hold its owner."""
    return _array_type(nbytes).from_address(address)


@functools.lru_cache(maxsize=256)  # ctypes makes a class per length, which takes longer than a copy
def _array_type(nbytes: int) -> type[HostArray]:
    return ctypes.c_ubyte * nbytes
