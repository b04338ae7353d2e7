"""A recording as a plan that runs again: buffers by number, kernels in order.

Buffers that leave the capture are new in each run, so what a caller holds is never overwritten.  All others are
allocated once and used again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from loomgrad.engine.compile import CompiledKernel
from loomgrad.engine.realize import run_kernels
from loomgrad.engine.recording import Recording, Run, View
from loomgrad.engine.schedule import Call
from loomgrad.engine.state import next_slot
from loomgrad.ir.args import ParamArg
from loomgrad.ir.opcode import Ops
from loomgrad.ir.uop import UOp
from loomgrad.memory import Buffer


@dataclass(frozen=True, slots=True)
class Slice:
    """A view of a numbered buffer."""

    place: int
    base: int
    offset: int


@dataclass(frozen=True, slots=True)
class Kernels:
    """Kernels on numbered buffers."""

    calls: tuple[Call, ...]
    kernels: list[CompiledKernel]


@dataclass(slots=True)
class Plan:
    """What a replay does.  `specs` say dtype and size of every number."""

    steps: list[Slice | Kernels] = field(default_factory=list)
    number: dict[UOp, int] = field(default_factory=dict)
    specs: list[ParamArg] = field(default_factory=list)
    fixed: list[Buffer | None] = field(default_factory=list)
    fresh: list[tuple[int, Callable[[], Buffer]]] = field(default_factory=list)
    leaving: list[int] = field(default_factory=list)

    def number_of(self, node: UOp) -> int:
        """The number of a BUFFER node."""
        place = self.number.get(node)
        if place is None:
            place = self.number[node] = len(self.specs)
            self.specs.append(node.arg)
            self.fixed.append(None)
        return place

    def run(self, given: Sequence[tuple[int, Buffer]]) -> list[Buffer]:
        """Runs all steps on given buffers; all buffers by number."""
        found = list(self.fixed)
        for place, buffer in given:
            found[place] = buffer
        for place, make in self.fresh:
            found[place] = make()
        for place in self.leaving:
            spec = self.specs[place]
            assert spec.device is not None
            found[place] = Buffer(spec.device, spec.size, spec.dtype)
        buffers: list[Buffer] = found  # type: ignore[assignment]  # slices are filled in before they are used
        for step in self.steps:
            if isinstance(step, Slice):
                spec = self.specs[step.place]
                buffers[step.place] = buffers[step.base].view(spec.size, spec.dtype, step.offset)
            else:
                run_kernels(step.calls, step.kernels, buffers)
        return buffers


def plan_of(recording: Recording, given: Sequence[UOp], outputs: Sequence[UOp]) -> Plan:
    """The plan of a recording whose `given` BUFFERs come from outside and whose `outputs` leave it."""
    plan = Plan()
    outside = set(given)
    made: set[UOp] = set()
    views: dict[UOp, UOp] = {}
    for step in recording.steps:
        if isinstance(step, View):
            views[step.node] = step.base
            place = plan.number_of(step.node)
            plan.steps.append(Slice(place, plan.number_of(step.base), step.offset))
        else:
            made.update(step.nodes[step.schedule.inputs :])
            plan.steps.append(_renumbered(step, plan))
    for node in (*given, *outputs):
        plan.number_of(node)
    kept = {_base(node, views) for node in outputs}
    for node, place in plan.number.items():
        if node in recording.fresh:
            plan.fresh.append((place, recording.fresh[node]))
        elif node in made and node in kept:
            plan.leaving.append(place)
        elif node in made:
            spec = node.arg
            plan.fixed[place] = Buffer(spec.device, spec.size, spec.dtype)
        elif node not in outside and node not in views:
            plan.fixed[place] = node.arg.buffer
    return plan


def _base(node: UOp, views: dict[UOp, UOp]) -> UOp:
    while node in views:
        node = views[node]
    return node


def _renumbered(run: Run, plan: Plan) -> Kernels:
    """The calls of a run with their buffers by the plan's numbers."""
    numbers = [plan.number_of(node) for node in run.nodes]
    calls = tuple(
        Call(call.kernel, tuple(numbers[argument] for argument in call.arguments))
        for call in run.schedule.calls
    )
    return Kernels(calls, run.kernels)


def stored(buffer: Buffer) -> UOp:
    """A BUFFER node for memory that a replay has filled."""
    arg = ParamArg(next_slot(), buffer.dtype, buffer.size, buffer.device, buffer=buffer)
    return UOp(Ops.BUFFER, (), arg)
