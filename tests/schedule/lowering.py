"""Small tensor graphs over PARAMs, and the kernels that the scheduler makes of them."""

from __future__ import annotations

import itertools

import loomgrad.rules  # noqa: F401  # fills the simplifier's slot
from loomgrad.dtype import DType, dtypes
from loomgrad.ir.args import ParamArg
from loomgrad.ir.opcode import Ops
from loomgrad.ir.shape import size_of
from loomgrad.ir.uop import UOp
from loomgrad.pipeline import SCHEDULE_PASSES, run_passes
from loomgrad.target import Target, host_target

# A machine with 16 registers of 8 floats and two cores, so that tests do not depend on where they run.
TARGET = Target(
    **{
        **{name: getattr(host_target(), name) for name in Target.__slots__},
        "vector_bits": 256,
        "vector_registers": 16,
        "cores": 2,
    }
)


class Inputs:
    """Makes PARAMs with slots in order."""

    def __init__(self) -> None:
        self._slots = itertools.count()

    def __call__(self, *shape: int, dtype: DType = dtypes.float32) -> UOp:
        arg = ParamArg(next(self._slots), dtype, size_of(shape), "CPU")
        return UOp(Ops.PARAM, (), arg).reshape(shape)


def matmul(x: UOp, w: UOp) -> UOp:
    """x: (m, k), w: (k, n) -> (m, n)."""
    (m, k), n = x.shape, w.shape[1]
    return (x.reshape(m, 1, k) * w.permute(1, 0).reshape(1, n, k)).sum(2)


def kernels_of(*outputs: UOp, target: Target = TARGET) -> list[UOp]:
    """The kernels, each a SINK, in the order in which they run."""
    sink = UOp(Ops.SINK, outputs, None, "CPU")
    scheduled = run_passes(SCHEDULE_PASSES, sink, target)
    return [call.src[0] for call in scheduled.src[0].src]


def stores_of(kernel: UOp) -> int:
    """How many outputs a kernel writes."""
    return sum(node.op is Ops.STORE for node in kernel.toposort())
