"""Building LINEAR programs by hand, compiling them and running them on NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from loomgrad.backends.cpu.compiler import compile_and_load
from loomgrad.backends.cpu.render import render
from loomgrad.dtype import DType, dtypes
from loomgrad.ir.args import AddrSpace, AxisType, ParamArg
from loomgrad.ir.opcode import Ops
from loomgrad.ir.shape import Shape, size_of
from loomgrad.ir.uop import UOp, shape_stack
from loomgrad.target import Target, host_target

INDEX = dtypes.int32
Array = npt.NDArray[np.generic]

# The machine as it is, and as one with other vectors, whose code runs here too.
TARGETS = [
    host_target(),
    replace(host_target(), vector_bits=128),
    replace(host_target(), vector_bits=8),
]


def number(value: int | float | bool, dtype: DType = INDEX) -> UOp:
    """A typed constant."""
    return UOp.const(value, dtype)


def loop(extent: int, axis: int, kind: AxisType = AxisType.LOOP) -> UOp:
    """A RANGE of the index dtype."""
    return UOp.range(number(extent), axis, kind)


def reshaped(node: UOp, shape: Shape) -> UOp:
    """A RESHAPE, where the shape differs."""
    return node if node.shape == shape else UOp(Ops.RESHAPE, (node, shape_stack(shape)))


def lane_numbers(count: int, shape: Shape | None = None, dtype: DType = INDEX) -> UOp:
    """0 .. count - 1 as lanes."""
    return reshaped(UOp.stack(number(i, dtype) for i in range(count)), shape or (count,))


def parameter(slot: int, dtype: DType = dtypes.float32, size: int = 1 << 20) -> UOp:
    """A buffer of the kernel."""
    return UOp(Ops.PARAM, (), ParamArg(slot, dtype, size))


def registers(slot: int, dtype: DType, shape: Shape) -> UOp:
    """An accumulator."""
    return UOp(Ops.BUFFER, (), ParamArg(slot, dtype, size_of(shape), None, AddrSpace.REG, shape))


def scratch(slot: int, dtype: DType, size: int) -> UOp:
    """Memory of one call of the kernel."""
    return UOp(Ops.BUFFER, (), ParamArg(slot, dtype, size, None, AddrSpace.LOCAL))


def linear(*marks: UOp) -> UOp:
    """A program: the marks in order, each after what it needs and was not listed before."""
    order: dict[UOp, None] = {}
    for mark in marks:
        for node in mark.toposort():
            order.setdefault(node)
    return UOp(Ops.LINEAR, tuple(order))


def run(
    program: UOp,
    arrays: Sequence[Array],
    *,
    interval: tuple[int, int] = (0, 1),
    target: Target | None = None,
) -> None:
    """Compile a program and call it once; array i is the buffer of slot i."""
    code = compile_and_load(render("kernel", program, target or host_target()), ["kernel"])
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(code["kernel"])
    pointers = (ctypes.c_void_p * max(1, len(arrays)))(*(array.ctypes.data for array in arrays))
    call(pointers, *interval)
