"""Realize: from values in a tensor graph to values in storage.

Everything is allocated before the first kernel runs, so running out of memory changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from loomgrad.config import CHECK, DEBUG
from loomgrad.dtype import commit_dtype
from loomgrad.engine import check, profile, state
from loomgrad.engine.compile import CompiledKernel, compile_kernel
from loomgrad.engine.recording import Run, active
from loomgrad.engine.schedule import Call, Schedule, schedule_of
from loomgrad.ir.args import ParamArg
from loomgrad.ir.opcode import Ops
from loomgrad.ir.shape import size_of
from loomgrad.ir.uop import UOp
from loomgrad.memory import Buffer, Device, GlobalCounters
from loomgrad.schedule.parametrise import Parametrised, parametrise


def realize(values: Sequence[UOp]) -> list[UOp]:
    """Computes values; each result is a bound BUFFER, seen through a RESHAPE where the value is not flat.

    The storage is recorded for the value's node: a graph that still mentions it does not compute it again.
    """
    wanted = []
    for value in dict.fromkeys(values):
        if state.realized_value(value) is None:
            if size_of(value.shape) == 0:
                _record_empty(value)
            else:
                wanted.append(value)
    if wanted:
        _compute(wanted)
    results = []
    for value in values:
        result = state.realized_value(value)
        assert result is not None
        results.append(result)
    return results


def _record_empty(value: UOp) -> None:
    """A value without elements needs a place, and no kernel."""
    device = value.device or Device.DEFAULT
    memory = Buffer(device, 0, commit_dtype(value.dtype))
    arg = ParamArg(state.next_slot(), memory.dtype, 0, device, buffer=memory)
    state.record(value, UOp(Ops.BUFFER, (), arg).reshape(value.shape))


def _compute(values: list[UOp]) -> None:
    start = perf_counter()
    graph = parametrise(values, state.realized_value, Device.DEFAULT)
    schedule = schedule_of(graph.sink, len(graph.buffers))
    scheduled = perf_counter()
    kernels = [compile_kernel(call.kernel, schedule.device) for call in schedule.calls]
    compiled = perf_counter()
    made = [_bound(buffer, schedule.device) for buffer in schedule.made]
    nodes = [*graph.buffers, *made]
    run_kernels(schedule.calls, kernels, [node.arg.buffer for node in nodes])
    recording = active.get()
    if recording is not None:
        recording.steps.append(Run(schedule, kernels, nodes))
    for value, number in zip(values, schedule.outputs, strict=True):
        state.record(value, nodes[number].reshape(value.shape))
    _record_kept(schedule, graph, nodes)
    if DEBUG:
        seconds = (scheduled - start, compiled - scheduled, perf_counter() - compiled)
        profile.report_run(values, kernels, *seconds)


def _record_kept(schedule: Schedule, graph: Parametrised, nodes: list[UOp]) -> None:
    """Values that got storage on the way need not be computed again either, while their nodes live."""
    kept = {buffer.tag: nodes[schedule.inputs + i] for i, buffer in enumerate(schedule.made)}
    for node, parametrised in graph.made.items():
        stored = kept.get(parametrised)
        if stored is None or node.dtype is not stored.dtype or node.op in state.MARKS:
            continue
        if node.is_const():  # other programs hold the same node, and need no memory for it
            continue
        if state.realized_value(node) is None:
            state.record(node, stored.reshape(node.shape))


def _bound(buffer: UOp, device: str) -> UOp:
    """A BUFFER with memory of its own."""
    arg = buffer.arg
    memory = Buffer(device, arg.size, arg.dtype).ensure_allocated()
    return UOp(
        Ops.BUFFER, (), ParamArg(state.next_slot(), arg.dtype, arg.size, device, buffer=memory)
    )


def run_kernels(
    calls: Sequence[Call], kernels: Sequence[CompiledKernel], buffers: Sequence[Buffer]
) -> None:
    """Runs kernels in order on buffers, by number.  All memory is there before the first runs."""
    used = dict.fromkeys(number for call in calls for number in call.arguments)
    addresses = {number: buffers[number].ensure_allocated().address for number in used}
    timed = DEBUG.value >= 2
    for call, kernel in zip(calls, kernels, strict=True):
        checked = check.before(kernel, call, buffers) if CHECK else None
        start = perf_counter() if timed else 0.0
        kernel.program([addresses[number] for number in call.arguments], kernel.tasks)
        seconds = perf_counter() - start if timed else 0.0
        GlobalCounters.kernel_count += 1
        GlobalCounters.global_ops += kernel.cost.operations
        GlobalCounters.global_mem += kernel.cost.moved
        if timed:
            GlobalCounters.time_sum_s += seconds
            profile.report_kernel(kernel, seconds)
        if checked is not None:
            check.after(checked, call, buffers)
