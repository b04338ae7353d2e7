"""What the engine asks of a backend that compiles: programs, and devices that make them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

from loomgrad.errors import UnsupportedError
from loomgrad.ir.uop import UOp
from loomgrad.memory import Device, DeviceBackend


class Program(Protocol):
    """Machine code of one kernel."""

    source: str

    def __call__(self, addresses: Sequence[int], tasks: int | None = None) -> None:
        """Runs on the buffers at `addresses`; a kernel with a THREAD loop on `tasks` pieces, on all workers."""
        ...

    def assembly(self) -> str:
        """What the machine runs, as text."""
        ...


class CompilingDevice(DeviceBackend, Protocol):
    """A device that turns a linear program into machine code."""

    def compile(self, name: str, linear: UOp) -> Program:
        """The program.  Raises: CompileError, UnsupportedError."""
        ...


def compiling_device(name: str) -> CompilingDevice:
    """The device of a name, which must be able to compile.  Raises: UnsupportedError."""
    device = Device[name]
    if not hasattr(device, "compile"):
        raise UnsupportedError(f"{name} holds data but does not compute", fix='use x.to("CPU")')
    return cast(CompilingDevice, device)
