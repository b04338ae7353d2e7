"""The ordered passes: the one place where they are named.

A pass takes a graph at one level and a Target, and returns a graph at the next.  Order constraints (`after`) are
checked when this module is imported, levels after each pass under VERIFY=1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from loomgrad.codegen.accumulate import accumulate
from loomgrad.codegen.commit import commit
from loomgrad.codegen.decompose import decompose
from loomgrad.codegen.expand import expand
from loomgrad.codegen.linearise import linearise
from loomgrad.codegen.optimise import merge_loops, optimise
from loomgrad.config import VERIFY
from loomgrad.ir.ops import Level
from loomgrad.ir.uop import UOp
from loomgrad.ir.verify import verify
from loomgrad.schedule.collapse import collapse
from loomgrad.schedule.fuse import fuse
from loomgrad.schedule.join import join
from loomgrad.schedule.kernelize import kernelize
from loomgrad.schedule.prepare import prepare
from loomgrad.schedule.rangeify import rangeify
from loomgrad.target import Target


@dataclass(frozen=True, slots=True)
class Pass:
    """One step of lowering."""

    name: str
    run: Callable[[UOp, Target], UOp]
    takes: Level
    leaves: Level
    does: str
    after: tuple[str, ...] = ()


# fmt: off
# ruff: noqa: E501
SCHEDULE_PASSES = (
    #    name           run          takes          leaves         does                                                                      after
    Pass("prepare",     prepare,     Level.TENSOR,  Level.TENSOR,  "drops marks, folds what has no elements"),
    Pass("rangeify",    rangeify,    Level.TENSOR,  Level.RANGED,  "turns movement into index arithmetic; STAGE marks what may be stored",   ("prepare",)),
    Pass("collapse",    collapse,    Level.RANGED,  Level.RANGED,  "removes loops of reductions that pick or count",                         ("rangeify",)),
    Pass("fuse",        fuse,        Level.RANGED,  Level.RANGED,  "inlines each STAGE that is cheaper to compute than to store",            ("collapse",)),
    Pass("collapse_2",  collapse,    Level.RANGED,  Level.RANGED,  "the same for reductions whose operands fuse has inlined",                ("fuse",)),
    Pass("join",        join,        Level.RANGED,  Level.RANGED,  "makes what is read element by element one kernel with several outputs",  ("collapse_2",)),
    Pass("kernelize",   kernelize,   Level.RANGED,  Level.KERNEL,  "cuts the graph into kernels at the STAGEs that are left",                ("join",)),
)
KERNEL_PASSES = (
    Pass("merge_loops", merge_loops, Level.KERNEL,  Level.KERNEL,  "makes adjacent loops one where that needs no division"),
    Pass("optimise",    optimise,    Level.KERNEL,  Level.KERNEL,  "splits and types the loops by the actions of the heuristic",             ("merge_loops",)),
    Pass("expand",      expand,      Level.KERNEL,  Level.LANES,   "turns UPCAST and UNROLL loops into lanes",                               ("optimise",)),
    Pass("decompose",   decompose,   Level.LANES,   Level.LANES,   "writes what the target lacks in terms of what it has",                   ("expand",)),
    Pass("accumulate",  accumulate,  Level.LANES,   Level.LANES,   "makes reductions registers and reads loads",                             ("decompose",)),
    Pass("commit",      commit,      Level.LANES,   Level.LANES,   "gives every weak value a dtype",                                         ("accumulate",)),
    Pass("linearise",   linearise,   Level.LANES,   Level.PROGRAM, "puts the nodes in order with nested loops",                              ("commit",)),
)
# fmt: on


def run_passes(passes: tuple[Pass, ...], graph: UOp, target: Target) -> UOp:
    """The graph after all passes."""
    if VERIFY:
        verify(graph, passes[0].takes, "input")
    for step in passes:
        graph = step.run(graph, target)
        if VERIFY:
            verify(graph, step.leaves, step.name)
    return graph


def check_order(passes: tuple[Pass, ...]) -> None:
    """Raises ValueError where a pass stands before one that it must follow, or takes another level."""
    done: set[str] = set()
    for before, step in zip((None, *passes), passes, strict=False):
        missing = [name for name in step.after if name not in done]
        if missing:
            raise ValueError(f"pass {step.name} must come after {missing}")
        if before is not None and before.leaves is not step.takes:
            raise ValueError(
                f"pass {step.name} takes {step.takes}, {before.name} leaves {before.leaves}"
            )
        done.add(step.name)


check_order(SCHEDULE_PASSES)
check_order(KERNEL_PASSES)
