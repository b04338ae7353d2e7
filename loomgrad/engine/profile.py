"""What DEBUG prints.  1: a line per run; 2: a line per kernel; 3: also its actions; 4: also its source."""

from __future__ import annotations

import sys

from loomgrad.config import DEBUG
from loomgrad.engine import state
from loomgrad.engine.compile import CompiledKernel
from loomgrad.ir.uop import UOp

_seen: set[str] = set()
state.owns("sources printed", _seen.clear)


def report_run(
    values: list[UOp],
    kernels: list[CompiledKernel],
    scheduling: float,
    compiling: float,
    running: float,
) -> None:
    """One line for all kernels of a realize, after theirs."""
    shapes = ", ".join(str(value.shape) for value in values[:4]) + (
        ", ..." if len(values) > 4 else ""
    )
    _print(
        f"realize {_counted(len(values), 'value')} {shapes}: {_counted(len(kernels), 'kernel')}, "
        f"scheduled in {scheduling * 1e3:.2f} ms, compiled in {compiling * 1e3:.2f} ms, ran in {running * 1e3:.2f} ms"
    )


def report_kernel(kernel: CompiledKernel, seconds: float) -> None:
    """One line for a kernel: name with its axes, time, GFLOP/s and GB/s."""
    cost = kernel.cost
    _print(
        f"  {kernel.name:<36} {seconds * 1e6:10.1f} us {cost.operations / seconds * 1e-9:9.3f} GFLOP/s "
        f"{cost.moved / seconds * 1e-9:9.3f} GB/s"
    )
    if DEBUG.value < 3 or kernel.program.source in _seen:
        return
    _seen.add(kernel.program.source)
    _print(
        f"    actions: {' '.join(kernel.actions) or 'none'}; compiled in {kernel.seconds * 1e3:.1f} ms"
    )
    if DEBUG.value >= 4:
        _print(kernel.program.source)
    if DEBUG.value >= 5:
        _print(kernel.program.assembly())


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _print(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
