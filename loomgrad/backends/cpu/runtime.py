"""Running kernels: a device that compiles linear programs, and the programs it makes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from time import perf_counter

from loomgrad.backends.cpu import compiler
from loomgrad.backends.cpu.allocator import CPUAllocator, memory_limit
from loomgrad.backends.cpu.pool import pool
from loomgrad.backends.cpu.render import render
from loomgrad.ir.uop import UOp
from loomgrad.memory import LRUAllocator
from loomgrad.target import Target, host_target

_Kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class CPUProgram:
    """Machine code of one kernel; it stays loaded as long as this object lives.

    `entry` is the address of its function `void (void **arguments, int64_t lo, int64_t hi)`.
    """

    __slots__ = ("_call", "_code", "entry", "name", "object", "source")

    def __init__(self, name: str, source: str, object_file: bytes) -> None:
        self.name = name
        self.source = source
        self.object = object_file
        self._code = compiler.load_object(object_file, [name])
        self.entry = self._code[name]
        self._call = _Kernel(self.entry)

    def __call__(self, addresses: Sequence[int], tasks: int | None = None) -> None:
        """Run on the buffers at `addresses`; a kernel with a THREAD loop on `tasks` pieces, on all workers."""
        arguments = (ctypes.c_void_p * len(addresses))(*addresses)
        if tasks is None or tasks == 1:
            self._call(arguments, 0, 1)
        else:
            pool.launch(self.entry, arguments, tasks)

    def measure(self, addresses: Sequence[int], tasks: int | None = None) -> float:
        """Run once; returns the seconds that it took."""
        start = perf_counter()
        self(addresses, tasks)
        return perf_counter() - start

    def assembly(self) -> str:
        """What the machine runs, as text."""
        return compiler.assembly_of(self.source)


class CPUDevice:
    """The processor of this machine.  All CPU devices share its cores; each has memory of its own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.allocator = LRUAllocator(CPUAllocator(), limit=memory_limit())
        compiler.preload()

    @property
    def target(self) -> Target:
        """What the processor can do, with as many cores as THREADS says now."""
        return host_target()

    def compile(self, name: str, linear: UOp) -> CPUProgram:
        """The program of a kernel.  Raises: CompileError, UnsupportedError."""
        source = render(name, linear, self.target)
        return CPUProgram(name, source, compiler.compile_object(source))

    def synchronize(self) -> None:
        """Nothing to wait for: a program returns when its work is done."""
