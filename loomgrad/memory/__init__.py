"""Memory: Buffers, the allocators that serve them, the registry of devices, the counters of a run."""

from loomgrad.memory.allocator import Allocator as Allocator
from loomgrad.memory.allocator import Block as Block
from loomgrad.memory.allocator import HostMemory as HostMemory
from loomgrad.memory.buffer import Buffer as Buffer
from loomgrad.memory.counters import GlobalCounters as GlobalCounters
from loomgrad.memory.device import Device as Device
from loomgrad.memory.device import DeviceBackend as DeviceBackend
from loomgrad.memory.lru import LRUAllocator as LRUAllocator
