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
    values: list[UOp], kernels: list[CompiledKernel], scheduling: float, running: float
) -> None:
    """One line for all kernels of a realize."""
    shapes = ", ".join(str(value.shape) for value in values[:4]) + (
        ", ..." if len(values) > 4 else ""
    )
    print(
        f"realize {len(values)} {'value' if len(values) == 1 else 'values'} {shapes}: "
        f"{len(kernels)} kernels, scheduled in {scheduling * 1e3:.2f} ms, ran in {running * 1e3:.2f} ms",
        file=sys.stderr,
    )


def report_kernel(kernel: CompiledKernel, seconds: float) -> None:
    """One line for a kernel: name with its axes, time, GFLOP/s and GB/s."""
    cost = kernel.cost
    print(
        f"  {kernel.name:<40} {seconds * 1e6:10.1f} us  {cost.operations / seconds * 1e-9:8.2f} GFLOP/s  "
        f"{cost.moved / seconds * 1e-9:8.2f} GB/s",
        file=sys.stderr,
    )
    if kernel.program.source in _seen:
        return
    if DEBUG.value >= 3:
        _seen.add(kernel.program.source)
        print(
            f"    actions: {' '.join(kernel.actions) or 'none'}; compiled in {kernel.seconds * 1e3:.1f} ms",
            file=sys.stderr,
        )
    if DEBUG.value >= 4:
        print(kernel.program.source, file=sys.stderr)
