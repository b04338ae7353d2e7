"""Worker threads that run the chunks of a kernel's outermost loop, woken without Python.

The native half is `pool_ir.py`.  Here workers are started and stopped: as many threads as THREADS asks for, or as
this process may use, the caller among them; a smaller THREADS later leaves workers idle.  After `fork` the child
starts workers of its own when it first needs them.  Where there is no futex (not Linux), and on processors that
`MACHINES` lacks, every launch runs in the calling thread alone.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import platform
import signal
import sys
import threading
from collections.abc import Callable

from loomgrad.backends.cpu.compiler import compile_and_load
from loomgrad.backends.cpu.pool_ir import FIELDS, MACHINES, STATE_BYTES, pool_source
from loomgrad.config import THREADS
from loomgrad.target import available_processors

# A worker without work spins for 1000 pauses, 15 to 50 microseconds, before it sleeps: the kernels of one step
# follow each other faster than that.
SPIN = 1000
# More chunks than threads even out what the threads do besides; few enough that claiming them costs nothing.
CHUNKS_PER_THREAD = 4
# The scratch of a kernel lies on the stack.
STACK_BYTES = 8 << 20
ATTRIBUTES_BYTES = 128  # more than any C library's pthread_attr_t has

# The address of an argument block, or the block.
Arguments = int | ctypes.Array[ctypes.c_void_p]

MACHINE = MACHINES.get(platform.machine()) if sys.platform == "linux" else None


class _Native:
    """The loaded pool: its functions and its state."""

    def __init__(self) -> None:
        names = ["loom_launch"]
        imports = {}
        if MACHINE is not None:
            names += ["loom_worker", "loom_stop", "state"]
            imports["syscall"] = _address_of("syscall")
        self.code = compile_and_load(pool_source(MACHINE, SPIN), names, imports)
        self.launch_address = self.code["loom_launch"]
        prototype = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
        )
        self.launch: Callable[[int, Arguments, int, int], None] = prototype(self.launch_address)

    def clear_state(self) -> None:
        """Back to no workers and no launch; only while no worker lives."""
        if MACHINE is not None:
            ctypes.memset(self.code["state"], 0, STATE_BYTES)

    def start_workers(self, count: int) -> list[ctypes.c_ulong]:
        """Start up to `count` threads, fewer if the system has no more."""
        # Workers block all signals, so that each arrives in a thread of the interpreter, which acts on it.
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            process = ctypes.CDLL(None)
            attributes = ctypes.create_string_buffer(ATTRIBUTES_BYTES)
            process.pthread_attr_init(attributes)
            process.pthread_attr_setstacksize(attributes, ctypes.c_size_t(STACK_BYTES))
            worker = ctypes.c_void_p(self.code["loom_worker"])
            started: list[ctypes.c_ulong] = []
            for _ in range(count):
                thread = ctypes.c_ulong()
                if process.pthread_create(ctypes.byref(thread), attributes, worker, None) != 0:
                    break
                started.append(thread)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        return started

    def set_worker_count(self, count: int) -> None:
        """Tell launches how many workers there are."""
        ctypes.c_int32.from_address(self.code["state"] + FIELDS["workers"]).value = count

    def stop_workers(self, workers: list[ctypes.c_ulong]) -> None:
        """Wait for the launch that is going on, if any, then for every worker to end."""
        ctypes.CFUNCTYPE(None)(self.code["loom_stop"])()
        for worker in workers:
            ctypes.CDLL(None).pthread_join(worker, None)


class Pool:
    """The workers of this process."""

    def __init__(self) -> None:
        self._native: _Native | None = None
        self._forget_workers()

    def _forget_workers(self) -> None:
        self._lock = threading.Lock()
        self._workers: list[ctypes.c_ulong] = []
        self._threads = 0  # how many have been asked for at most
        self._available = 0  # how many THREADS=0 means, once known

    def launch(self, function: int, arguments: Arguments, extent: int) -> None:
        """Call `function(arguments, lo, hi)` for intervals that together are [0, extent).

        The calling thread takes part and returns after the last.  If the launch of another thread has the workers,
        all of it runs in the calling thread.
        """
        self.native().launch(function, arguments, extent, self.chunks())

    @property
    def launch_address(self) -> int:
        """Where native code finds `loom_launch(function, arguments, extent, chunks)`."""
        return self.native().launch_address

    def chunks(self) -> int:
        """How many chunks a launch asks for now; workers are started as THREADS and the machine allow."""
        threads = THREADS.value or self._available or self._count_processors()
        if threads > self._threads:
            self._grow(threads)
        if threads == 1 or threads < self._threads:
            return threads
        return threads * CHUNKS_PER_THREAD

    def native(self) -> _Native:
        """The loaded functions, compiled at first use."""
        if self._native is None:
            with self._lock:
                if self._native is None:
                    self._native = _Native()
        return self._native

    def stop(self) -> None:
        """End the workers; a later launch starts them again."""
        with self._lock:
            if self._native is not None and self._workers:
                self._native.stop_workers(self._workers)
                self._native.clear_state()
            self._workers = []
            self._threads = 0

    def restart_after_fork(self) -> None:
        """In a new child: the workers are the parent's, and so is whatever they were doing."""
        self._forget_workers()
        if self._native is not None:
            self._native.clear_state()

    def _count_processors(self) -> int:
        self._available = available_processors()
        return self._available

    def _grow(self, threads: int) -> None:
        native = self.native()
        with self._lock:
            if threads > self._threads:
                if MACHINE is not None:
                    self._workers += native.start_workers(threads - 1 - len(self._workers))
                    native.set_worker_count(len(self._workers))
                self._threads = threads


def _address_of(symbol: str) -> int:
    """Where a function of the C library is."""
    address = ctypes.cast(getattr(ctypes.CDLL(None), symbol), ctypes.c_void_p).value
    assert address is not None
    return address


pool = Pool()
atexit.register(pool.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.restart_after_fork)
