"""Schedules: which kernels compute some values, on which buffers.  Found by structure where one was made before."""

from __future__ import annotations

from dataclasses import dataclass

from loomgrad.config import NOOPT
from loomgrad.engine import state
from loomgrad.engine.cache import Cache
from loomgrad.ir.opcode import Ops
from loomgrad.ir.uop import UOp
from loomgrad.memory import Device
from loomgrad.pipeline import SCHEDULE_PASSES, run_passes

MOST_SCHEDULES = 512


@dataclass(frozen=True, slots=True)
class Call:
    """One kernel and the numbers of the buffers it works on, those it writes first."""

    kernel: UOp
    arguments: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Schedule:
    """Kernels in order.  Buffers are numbered: the inputs, then `made`, BUFFERs that a run allocates."""

    calls: tuple[Call, ...]
    inputs: int
    made: tuple[UOp, ...]
    outputs: tuple[int, ...]
    device: str


schedules: Cache[tuple[UOp, object], Schedule] = Cache(MOST_SCHEDULES)
state.owns("schedules", schedules.clear)


def schedule_of(sink: UOp, inputs: int) -> Schedule:
    """The schedule of a parametrised graph with so many PARAMs."""
    device: str = sink.tag
    target = Device[device].target
    key = (sink, (target, NOOPT.value))
    found = schedules.get(key)
    if found is not None:
        return found
    return schedules.put(key, _make(run_passes(SCHEDULE_PASSES, sink, target), inputs, device))


def _make(sink: UOp, inputs: int, device: str) -> Schedule:
    linear, outputs = sink.src[0], sink.src[1:]
    buffers = list(
        dict.fromkeys(b for call in linear.src for b in call.src[1:] if b.op is Ops.BUFFER)
    )
    number = {buffer: inputs + index for index, buffer in enumerate(buffers)}
    calls = tuple(
        Call(
            call.src[0],
            tuple(b.arg.slot if b.op is Ops.PARAM else number[b] for b in call.src[1:]),
        )
        for call in linear.src
    )
    return Schedule(calls, inputs, tuple(buffers), tuple(number[b] for b in outputs), device)
