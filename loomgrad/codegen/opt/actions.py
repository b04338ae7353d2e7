"""Actions: small changes to the loops of a kernel, each with its precondition and a clear refusal.

A kernel's actions print in its name and reproduce it.  `axis` names a loop by its axis numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from loomgrad.codegen.opt.loops import cascaded, output_loops, reordered, retyped, split
from loomgrad.errors import UnsupportedError
from loomgrad.ir.args import AxisType
from loomgrad.ir.opcode import Ops
from loomgrad.ir.shape import extent_of
from loomgrad.ir.uop import UOp

Axis = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Action:
    """A change to one loop."""

    axis: Axis = ()
    amount: int = 0

    def apply(self, effect: UOp) -> UOp:
        """The changed effect.  Raises: UnsupportedError where the loop does not allow it."""
        raise UnsupportedError(f"{type(self).__name__} is not an action by itself")

    def __str__(self) -> str:
        axis = ".".join(map(str, self.axis))
        return (
            f"{type(self).__name__}({axis}, {self.amount})"
            if self.amount
            else f"{type(self).__name__}()"
        )

    def _loop(self, effect: UOp) -> UOp:
        for node in effect.toposort():
            if node.op is Ops.RANGE and node.arg.axis == self.axis:
                return node
        raise UnsupportedError(f"{self}: the kernel has no loop {self.axis}")


@dataclass(frozen=True, slots=True)
class Upcast(Action):
    """`amount` iterations of an output loop become lanes."""

    def apply(self, effect: UOp) -> UOp:
        loop = self._loop(effect)
        if loop not in output_loops(effect):
            raise UnsupportedError(f"{self}: the loop is not one of the output's", fix="use Unroll")
        return split(effect, loop, self.amount, AxisType.UPCAST)[0]


@dataclass(frozen=True, slots=True)
class Unroll(Action):
    """`amount` iterations of a reduction become lanes, which are combined at the end."""

    def apply(self, effect: UOp) -> UOp:
        loop = self._loop(effect)
        if loop.arg.kind is not AxisType.REDUCE:
            raise UnsupportedError(f"{self}: the loop is not a reduction's", fix="use Upcast")
        return split(effect, loop, self.amount, AxisType.UNROLL)[0]


@dataclass(frozen=True, slots=True)
class Thread(Action):
    """The outermost output loop is spread over the workers."""

    def apply(self, effect: UOp) -> UOp:
        loops = [loop for loop in output_loops(effect) if loop.arg.kind is not AxisType.UPCAST]
        if not loops:
            return effect
        return retyped(effect, loops[0], AxisType.THREAD)


@dataclass(frozen=True, slots=True)
class Swap(Action):
    """The loop takes the place of the loop `other` in the order of the output's loops, and that one its."""

    other: Axis = ()

    def apply(self, effect: UOp) -> UOp:
        first = self._loop(effect)
        loops = list(output_loops(effect))
        second = next((loop for loop in loops if loop.arg.axis == self.other), None)
        if first not in loops or second is None:
            raise UnsupportedError(f"{self}: both loops must be the output's")
        a, b = loops.index(first), loops.index(second)
        loops[a], loops[b] = loops[b], loops[a]
        return reordered(effect, tuple(loops))

    def __str__(self) -> str:
        return f"Swap({'.'.join(map(str, self.axis))}, {'.'.join(map(str, self.other))})"


@dataclass(frozen=True, slots=True)
class Cascade(Action):
    """A reduction in two levels: `amount` iterations of the loop are reduced, then these results."""

    def apply(self, effect: UOp) -> UOp:
        loop = self._loop(effect)
        if loop.arg.kind is not AxisType.REDUCE or extent_of(loop) % self.amount:
            raise UnsupportedError(
                f"{self}: the loop is not a reduction's that {self.amount} divides"
            )
        return cascaded(effect, loop, self.amount)


def decided(effect: UOp) -> UOp:
    """The effect with undecided output loops as plain ones, lanes innermost."""
    for loop in output_loops(effect):
        if loop.arg.kind is AxisType.WEAK:
            effect = retyped(effect, loop, AxisType.LOOP)
    loops = output_loops(effect)
    if not loops:
        return effect
    lanes = tuple(loop for loop in loops if loop.arg.kind is AxisType.UPCAST)
    return reordered(effect, tuple(loop for loop in loops if loop not in lanes) + lanes)
