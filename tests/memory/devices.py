"""Made-up memories and devices."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

from loomgrad.memory import Block, Buffer, Device, HostMemory, LRUAllocator
from loomgrad.memory.lru import ALIGNMENT
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


def allocator_of(name: str) -> LRUAllocator:
    return Device[name].allocator


def is_exported(buffer: Buffer) -> bool:
    """A function, because a type checker takes a property for what it was when last asserted."""
    return buffer.is_exported
