"""One elementwise operation as machine code, by the passes that lower it, and how far off its results are."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loomgrad.backends.cpu.compiler import compile_and_load
from loomgrad.backends.cpu.render import render
from loomgrad.codegen.commit import commit
from loomgrad.codegen.decompose import decompose
from loomgrad.codegen.linearise import linearise
from loomgrad.dtype import DType, numpy_dtype
from loomgrad.ir.args import ParamArg
from loomgrad.ir.opcode import Op, Ops
from loomgrad.ir.uop import UOp, shape_stack
from loomgrad.target import host_target

Array = NDArray[Any]
LANES, BLOCK = 16, 1 << 16


def leaf(slot: int, dtype: DType, size: int = BLOCK) -> UOp:
    """A value to compute with: storage of a kernel."""
    return UOp(Ops.PARAM, (), ParamArg(slot, dtype, size))


@functools.cache
def compiled(op: Op, *dtypes: DType) -> Callable[..., Array]:
    """A function of arrays of any one size, which computes `op` natively, `BLOCK` elements at a time."""
    i = UOp.range(BLOCK // LANES, 0)
    lanes = UOp(Ops.RESHAPE, (UOp.stack(map(UOp.const, range(LANES))), shape_stack((LANES,))))
    place = i * LANES + lanes
    inputs = [leaf(slot, dtype) for slot, dtype in enumerate(dtypes, 1)]
    value = UOp(op, tuple(x.index(place).load() for x in inputs))
    result = leaf(0, value.dtype)
    target = host_target()
    kernel: UOp = UOp.sink(result.index(place).store(value).end(i))
    for step in (decompose, commit, linearise):
        kernel = step(kernel, target)
    code = compile_and_load(render("kernel", kernel, target), ["kernel"])
    native = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(code["kernel"])

    def call(*arrays: Array) -> Array:
        assert code["kernel"]  # the code lives as long as this function
        size = len(arrays[0])
        padded = [np.concatenate((a, np.ones(-size % BLOCK, a.dtype))) for a in arrays]
        padded.insert(0, np.empty(len(padded[0]), numpy_dtype(value.dtype)))
        for start in range(0, len(padded[0]), BLOCK):
            blocks = [array[start:].ctypes.data for array in padded]
            native((ctypes.c_void_p * len(blocks))(*blocks), 0, 1)
        return padded[0][:size]

    return call


def floats_by_bits(step: int, first: int = 0, last: int = 1 << 32) -> NDArray[np.float32]:
    """Every `step`-th float32 in the order of their bits: all exponents, both signs, NaNs and infinities."""
    return np.arange(first, last, step, dtype=np.uint64).astype(np.uint32).view(np.float32)


def last_places_off(result: Array, truth: Array) -> Array:
    """The error in last places of the result's dtype; infinite for a wrong infinity or NaN.

    `truth` is of a wider dtype.  What rounds to an infinity counts as the next power of two.
    """
    limits = np.finfo(result.dtype)
    with np.errstate(all="ignore"):
        nearest = truth.astype(result.dtype)
        _, exponent = np.frexp(np.abs(truth))
        place = np.ldexp(
            truth.dtype.type(1),
            np.maximum(exponent - limits.nmant - 1, limits.minexp - limits.nmant),
        )
        error = np.abs(_finite(result, truth.dtype) - truth) / place
        same = (nearest == result) | (np.isnan(nearest) & np.isnan(result))
        unbounded = ~np.isfinite(nearest) | np.isnan(result)
        return np.where(unbounded, np.where(same, 0.0, np.inf), error)


def _finite(result: Array, dtype: np.dtype[Any]) -> Array:
    """The values in a wider dtype, an infinity as the power of two at which it begins."""
    begin = np.ldexp(dtype.type(1), np.finfo(result.dtype).maxexp)
    return np.where(np.isinf(result), np.copysign(begin, result), result.astype(dtype))
