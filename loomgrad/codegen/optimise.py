"""Optimise: the heuristic's actions applied to a kernel, which is then named after its loops."""

from __future__ import annotations

from loomgrad.codegen.opt.actions import Action, decided
from loomgrad.codegen.opt.heuristic import choose_actions, long_sums
from loomgrad.codegen.opt.loops import merged
from loomgrad.config import NOOPT
from loomgrad.ir.args import AxisType, KernelInfo
from loomgrad.ir.opcode import Ops
from loomgrad.ir.shape import extent_of
from loomgrad.ir.simplify import simplify
from loomgrad.ir.uop import UOp
from loomgrad.target import Target

_ORDER = tuple(AxisType)


def merge_loops(kernel: UOp, target: Target) -> UOp:
    """Adjacent loops as one where that needs no division."""
    return kernel.replace(src=tuple(merged(effect) for effect in kernel.src))


def optimise(kernel: UOp, target: Target) -> UOp:
    """The kernel with its loops split and typed.  NOOPT leaves them plain."""
    (effect,) = kernel.src
    actions: list[Action] = []
    for choose in () if NOOPT else (choose_actions, long_sums):
        chosen = choose(effect, target)
        for action in chosen:
            effect = action.apply(effect)
        actions.extend(chosen)
    effect = simplify(decided(effect))
    info = KernelInfo(kernel_name(effect), tuple(str(action) for action in actions))
    return UOp.sink(effect, info=info)


def kernel_name(effect: UOp) -> str:
    """r for reductions, E for others, then each loop's letter and extent, in the order of the kinds."""
    order = effect.toposort()
    loops = [node for node in order if node.op is Ops.RANGE]
    loops.sort(key=lambda loop: (_ORDER.index(loop.arg.kind), loop.arg.axis))
    head = (
        "r" if any(loop.arg.kind in (AxisType.REDUCE, AxisType.UNROLL) for loop in loops) else "E"
    )
    return "_".join([head, *(f"{loop.arg.kind.value}{extent_of(loop)}" for loop in loops)])
