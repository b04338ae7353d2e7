"""What a run has done: kernels, operations, bytes, time, memory."""

from __future__ import annotations

from loomgrad.memory.lru import allocators


class Counters:
    """Counts since the last `reset`; `mem_used` is what is held now, `mem_peak` the most since then.

    `global_ops` and `global_mem` are estimates: arithmetic operations, and bytes moved between the
    kernels and memory.
    """

    __slots__ = ("global_mem", "global_ops", "kernel_count", "time_sum_s")

    def __init__(self) -> None:
        self.kernel_count = 0
        self.global_ops = 0
        self.global_mem = 0
        self.time_sum_s = 0.0

    @property
    def mem_used(self) -> int:
        """Bytes that Buffers hold on all devices."""
        return sum(allocator.held_bytes for allocator in list(allocators))

    @property
    def mem_peak(self) -> int:
        """The most bytes held at one time since the last reset, added up over devices."""
        return sum(allocator.peak for allocator in list(allocators))

    def reset(self) -> None:
        """Start counting anew."""
        self.kernel_count = self.global_ops = self.global_mem = 0
        self.time_sum_s = 0.0
        for allocator in list(allocators):
            allocator.reset_peak()


GlobalCounters = Counters()
