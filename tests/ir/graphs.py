"""Short ways to make the nodes that tests are about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loomgrad.dtype import DType, dtypes
from loomgrad.ir.args import AxisType, KernelInfo, ParamArg
from loomgrad.ir.opcode import Ops
from loomgrad.ir.shape import Shape, size_of
from loomgrad.ir.uop import UOp

if TYPE_CHECKING:
    from collections.abc import Sequence


def buffer(slot: int, size: int, dtype: DType = dtypes.float32) -> UOp:
    """An unbound BUFFER."""
    return UOp(Ops.BUFFER, (), ParamArg(slot, dtype, size, "CPU"))


def param(slot: int, size: int, dtype: DType = dtypes.float32) -> UOp:
    """A formal parameter."""
    return UOp(Ops.PARAM, (), ParamArg(slot, dtype, size, "CPU"))


def tensor(slot: int, shape: Shape, dtype: DType = dtypes.float32) -> UOp:
    """A BUFFER seen through a RESHAPE."""
    return buffer(slot, size_of(shape), dtype).reshape(shape)


def loop(extent: int, axis: int, kind: AxisType = AxisType.WEAK) -> UOp:
    """A RANGE."""
    return UOp.range(extent, axis, kind)


def reduction(extent: int, axis: int) -> UOp:
    """A RANGE that a REDUCE closes."""
    return UOp.range(extent, axis, AxisType.REDUCE)


def kernel(*effects: UOp) -> UOp:
    """The SINK of a kernel."""
    return UOp.sink(*effects, info=KernelInfo("test"))


def matmul_kernel(rows: int, inner: int, columns: int, kinds: Sequence[AxisType] = ()) -> UOp:
    """P0 = relu(P1 @ P2 + P3)."""
    first, second = kinds or (AxisType.WEAK, AxisType.WEAK)
    i, j, k = loop(rows, 0, first), loop(columns, 1, second), reduction(inner, 2)
    out, x, w, b = (
        param(slot, size)
        for slot, size in enumerate((rows * columns, rows * inner, inner * columns, columns))
    )
    product = x.index(i * inner + k) * w.index(k * columns + j)
    value = (product.fold_ranges(Ops.ADD, k) + b.index(j)).maximum(0)
    return kernel(out.index(i * columns + j).store(value).end(i, j))
