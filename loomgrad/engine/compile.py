"""Compiled kernels: a kernel's graph through the kernel passes to machine code, once per structure."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

from loomgrad.backends.protocol import Program, compiling_device
from loomgrad.config import NOOPT
from loomgrad.engine import state
from loomgrad.engine.cache import Cache
from loomgrad.ir.args import AxisType
from loomgrad.ir.estimate import Estimate, estimate
from loomgrad.ir.opcode import Ops
from loomgrad.ir.shape import extent_of
from loomgrad.ir.uop import UOp
from loomgrad.pipeline import KERNEL_PASSES, run_passes

MOST_KERNELS = 4096


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """Machine code of a kernel.  `tasks`: how many pieces its THREAD loop has, None if it has none."""

    name: str
    actions: tuple[str, ...]
    kernel: UOp
    program: Program
    tasks: int | None
    cost: Estimate
    seconds: float


kernels: Cache[tuple[UOp, object], CompiledKernel] = Cache(MOST_KERNELS)
state.owns("kernels", kernels.clear)


def compile_kernel(kernel: UOp, device_name: str) -> CompiledKernel:
    """The code of a kernel for a device, compiled at the first call."""
    device = compiling_device(device_name)
    key = (kernel, (device.target, NOOPT.value))
    found = kernels.get(key)
    if found is not None:
        return found
    start = perf_counter()
    optimised = run_passes(KERNEL_PASSES[:2], kernel, device.target)
    linear = run_passes(KERNEL_PASSES[2:], optimised, device.target)
    info = optimised.arg
    program = device.compile(info.name, linear)
    tasks = _tasks(linear)
    seconds = perf_counter() - start
    made = CompiledKernel(
        info.name, info.actions, kernel, program, tasks, estimate(kernel), seconds
    )
    return kernels.put(key, made)


def _tasks(linear: UOp) -> int | None:
    for node in linear.src:
        if node.op is Ops.RANGE and node.arg.kind is AxisType.THREAD:
            return extent_of(node)
    return None
