"""The CPU device: its memory, its programs, how kernels run."""

import ctypes
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from loomgrad.backends.cpu import make_device
from loomgrad.backends.cpu.allocator import LARGE_BLOCK, LARGE_PAGE, CPUAllocator, memory_limit
from loomgrad.backends.protocol import compiling_device
from loomgrad.config import Context
from loomgrad.dtype import dtypes
from loomgrad.errors import CompileError, OutOfMemoryError, UnsupportedError
from loomgrad.ir.args import AxisType
from loomgrad.ir.opcode import Ops
from loomgrad.ir.uop import UOp
from loomgrad.memory import Buffer, Device
from tests.backends.programs import lane_numbers, linear, loop, number, parameter


def doubling(pieces: int, kind: AxisType = AxisType.THREAD) -> UOp:
    """y = x + x over `pieces` times 16 elements."""
    y, x = parameter(0), parameter(1)
    piece = loop(pieces, 0, kind)
    place = piece * number(16) + lane_numbers(16)
    value = x.index(place).load()
    result = y.index(place).store(value + value)
    return linear(piece, result, result.end(piece))


def filled(size: int) -> tuple[Buffer, Buffer]:
    x, y = Buffer("CPU", size, dtypes.float32), Buffer("CPU", size, dtypes.float32)
    x.copyin(np.arange(size, dtype=np.float32).tobytes())
    y.copyin(bytes(4 * size))
    return y, x


def numbers(buffer: Buffer) -> list[float]:
    values: list[float] = np.frombuffer(buffer.as_memoryview(), np.float32).tolist()
    return values


def test_device_by_name() -> None:
    device = Device["CPU"]
    assert device.name == "CPU"
    assert Device["cpu:1"].name == "CPU:1"
    assert Device["CPU:1"].allocator is not device.allocator
    device.synchronize()
    with Context(THREADS=3):
        assert device.target.cores == 3


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("pieces", [1, 2, 37])
def test_program_on_threads(threads: int, pieces: int) -> None:
    program = compiling_device("CPU").compile("doubling", doubling(pieces))
    y, x = filled(16 * pieces)
    with Context(THREADS=threads):
        program([y.address, x.address], pieces)
    assert numbers(y) == [2.0 * i for i in range(16 * pieces)]


def test_program_without_threads() -> None:
    program = compiling_device("CPU").compile("doubling", doubling(3, AxisType.LOOP))
    y, x = filled(48)
    program([y.address, x.address])
    assert numbers(y) == [2.0 * i for i in range(48)]


def test_program_tells_about_itself() -> None:
    program = make_device("CPU").compile("doubling", doubling(3, AxisType.LOOP))
    assert "define void @doubling(ptr %args, i64 %lo, i64 %hi)" in program.source
    assert "doubling:" in program.assembly()
    assert program.object.startswith(b"\x7fELF") or sys.platform != "linux"
    y, x = filled(48)
    assert 0 < program.measure([y.address, x.address]) < 10


def test_program_from_several_threads_at_once() -> None:
    program = compiling_device("CPU").compile("doubling", doubling(40))
    pairs = [filled(640) for _ in range(4)]

    def work(y: Buffer, x: Buffer) -> None:
        for _ in range(200):
            program([y.address, x.address], 40)

    workers = [threading.Thread(target=work, args=pair) for pair in pairs]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for y, _ in pairs:
        assert numbers(y) == [2.0 * i for i in range(640)]


def test_what_cannot_be_compiled() -> None:
    device = compiling_device("CPU")
    y, x = parameter(0), parameter(1)
    value = UOp(Ops.SIN, (x.index(number(0)).load(),))
    with pytest.raises(UnsupportedError, match="SIN of float32"):
        device.compile("sine", linear(y.index(number(0)).store(value)))
    with pytest.raises(CompileError):
        device.compile("no name", doubling(1))


@pytest.mark.parametrize("nbytes", [1, 63, 64, 4096, LARGE_BLOCK - 1, LARGE_BLOCK, 10 << 20])
def test_blocks_are_aligned_and_usable(nbytes: int) -> None:
    allocator = CPUAllocator()
    block = allocator.alloc(nbytes)
    assert block.nbytes == nbytes
    assert block.address % (LARGE_PAGE if nbytes >= LARGE_BLOCK else 64) == 0
    ctypes.memset(block.address, 7, nbytes)
    assert ctypes.string_at(block.address + nbytes - 1, 1) == b"\x07"
    allocator.free(block)


def test_more_memory_than_there_is() -> None:
    with pytest.raises(MemoryError):
        CPUAllocator().alloc(1 << 62)
    with pytest.raises(OutOfMemoryError, match="wanted"):
        Buffer("CPU", 1 << 50, dtypes.float32).ensure_allocated()


def test_memory_limit_of_a_container(tmp_path: Path) -> None:
    machine = memory_limit(tmp_path / "absent")
    assert machine is not None and machine > 1 << 20
    limit = tmp_path / "memory.max"
    for text, expected in (("1048576\n", 1 << 20), ("max\n", machine), (f"{1 << 60}", machine)):
        limit.write_text(text, encoding="ascii")
        assert memory_limit(limit) == expected
