"""REDUCE in the evaluator, in parts where the loops that close are evaluated in slices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loomgrad.ir import roundoff
from loomgrad.ir.arrays import stored
from loomgrad.ir.opcode import Op, Ops
from loomgrad.ir.ops import identity_element
from loomgrad.ir.ranges import ended_ranges
from loomgrad.ir.slices import Slices
from loomgrad.ir.uop import UOp
from loomgrad.ir.values import Loops, Value, filled, joint_loops

if TYPE_CHECKING:
    from loomgrad.ir.arrays import Array


@dataclass(frozen=True, slots=True)
class Partial:
    """The fold of `count` terms, not rounded yet.

    In a wide run `inherited` is the error that the terms bring (of a product: relative to it), and
    `magnitude` the sum of their absolute values, which their own additions round by.
    """

    total: Array
    loops: Loops
    count: int
    inherited: Array | None
    magnitude: Array


def partial(node: UOp, value: Value, slices: Slices) -> Partial:
    """The fold of what one slice of the loops holds."""
    import numpy as np

    closing = ended_ranges(node)
    loops = joint_loops([value], tuple(closing))
    full = filled(value, loops, node.src[0].shape, slices)
    axes = tuple(axis for axis, loop in enumerate(loops) if loop in closing)
    axes += tuple(range(len(loops), len(loops) + node.arg.count))
    with np.errstate(all="ignore"):
        total = _fold(node.arg.op, node, full.array, axes)
        inherited = _inherited(node.arg.op, full.array, full.error, axes)
        size = np.sum(np.abs(full.array), axis=axes) if node.dtype.is_float else np.zeros(())
    left = tuple(loop for loop in loops if loop not in closing)
    count = math.prod(full.array.shape[axis] for axis in axes)
    return Partial(total, left, count, inherited, size)


def _fold(op: Op, node: UOp, array: Array, axes: tuple[int, ...]) -> Array:
    import numpy as np

    if node.dtype.is_bool:
        logical = np.logical_and if op is Ops.MUL else np.logical_or
        return np.asarray(logical.reduce(array, axis=axes))
    ufunc = {Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.MAX: np.maximum}[op]
    start = identity_element(op, node.dtype)
    if op is Ops.MAX:
        return np.asarray(ufunc.reduce(array, axis=axes, initial=start))
    return np.asarray(ufunc.reduce(array, axis=axes, dtype=array.dtype))


def _inherited(op: Op, array: Array, error: Array | None, axes: tuple[int, ...]) -> Array | None:
    import numpy as np

    if error is None:
        return None
    if op is Ops.ADD:
        return np.asarray(np.sum(error, axis=axes))
    if op is Ops.MAX:
        return np.asarray(np.max(error, axis=axes, initial=0.0))
    room = np.abs(array.astype(np.float64)) - error
    relative = np.where((error > 0) & (room <= 0), np.inf, error / np.where(room == 0, 1, room))
    return np.asarray(np.sum(relative, axis=axes))


def combined(op: Op, first: Partial, second: Partial) -> Partial:
    """Two slices as one."""
    import numpy as np

    joint = {Ops.ADD: np.add, Ops.MUL: np.multiply, Ops.MAX: np.maximum}[op]
    known = [part.inherited for part in (first, second) if part.inherited is not None]
    if len(known) == 2:
        inherited: Array | None = np.maximum(*known) if op is Ops.MAX else known[0] + known[1]
    else:
        inherited = known[0] if known else None
    with np.errstate(all="ignore"):
        total = joint(first.total, second.total)
    magnitude = first.magnitude + second.magnitude
    return Partial(total, first.loops, first.count + second.count, inherited, magnitude)


def finished(node: UOp, part: Partial, wide: bool) -> Value:
    """The value of a REDUCE: rounded once, or with its error bound in a wide run."""
    import numpy as np

    if not wide:
        with np.errstate(all="ignore"):
            return Value(stored(part.total, node.dtype), part.loops)
    if not node.dtype.is_float:
        return Value(stored(part.total, node.dtype), part.loops, None, part.inherited)
    with np.errstate(all="ignore"):
        total = roundoff.overflowed(node.dtype, part.total)
        return Value(total, part.loops, None, _error(node, part, total))


def _error(node: UOp, part: Partial, total: Array) -> Array | None:
    """n * eps * sum of |terms|, and what the terms bring."""
    import numpy as np

    dtype, op = node.dtype, node.arg.op
    assert dtype.format is not None
    inherited = np.zeros(total.shape) if part.inherited is None else part.inherited
    if op is Ops.MAX:
        return part.inherited
    unit = part.count * roundoff.epsilon(dtype)
    if op is Ops.MUL:
        error = np.abs(total) * (np.expm1(inherited) + unit) + roundoff.smallest(dtype)
    else:
        error = inherited + unit * part.magnitude + roundoff.smallest(dtype)
        error = np.where(part.magnitude > dtype.format.largest, np.inf, error)
    undecided = np.isinf(inherited) | np.isnan(error)
    certain = np.where(np.isfinite(total), error, 0.0)
    return np.where(undecided, np.inf, certain)
