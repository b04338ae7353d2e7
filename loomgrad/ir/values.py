"""Values of the evaluator: arrays with one axis per open RANGE, and what each kind of node does to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loomgrad.errors import CheckError
from loomgrad.ir.args import Invalid
from loomgrad.ir.arrays import held_dtype
from loomgrad.ir.opcode import Ops
from loomgrad.ir.shape import Shape
from loomgrad.ir.slices import Slices, loop_order
from loomgrad.ir.uop import UOp

if TYPE_CHECKING:
    from loomgrad.ir.arrays import Array

Loops = tuple[UOp, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """`array` has one axis per RANGE of `loops`, in that order, then the axes of the node's shape.

    `valid` is false where the value is Invalid, `error` bounds the rounding error that compiled code may have
    there; both broadcast to the array, and None stands for "everywhere valid" and "exact".
    """

    array: Array
    loops: Loops = ()
    valid: Array | None = None
    error: Array | None = None


def joint_loops(values: Sequence[Value], more: Sequence[UOp] = ()) -> Loops:
    """The RANGEs of all values and some more, each once, in order."""
    first = values[0].loops if values else ()
    if not more and all(value.loops == first for value in values):
        return first
    joint = set(more).union(*(value.loops for value in values))
    return tuple(sorted(joint, key=loop_order))


def spread(array: Array, own: Loops, loops: Loops, rank: int) -> Array:
    """The array with axes of size 1 for the loops it lacks and for leading axes of its shape up to `rank`."""
    tail = array.shape[len(own) :]
    if own == loops and len(tail) == rank:
        return array
    lead = tuple(array.shape[own.index(loop)] if loop in own else 1 for loop in loops)
    return array.reshape(lead + (1,) * (rank - len(tail)) + tail)


def over(value: Value, loops: Loops, rank: int) -> Value:
    """A value laid out over more loops."""
    parts = [
        None if part is None else spread(part, value.loops, loops, rank)
        for part in (value.array, value.valid, value.error)
    ]
    assert parts[0] is not None
    return Value(parts[0], loops, parts[1], parts[2])


def filled(value: Value, loops: Loops, shape: Shape, slices: Slices) -> Value:
    """A value repeated along all of `loops` and broadcast to `shape`."""
    import numpy as np

    laid = over(value, loops, len(shape))
    full = tuple(slices.extent(loop) for loop in loops) + shape
    parts = [
        None if part is None else np.broadcast_to(part, full)
        for part in (laid.array, laid.valid, laid.error)
    ]
    assert parts[0] is not None
    return Value(parts[0], loops, parts[1], parts[2])


def constant(node: UOp) -> Value:
    """CONST."""
    import numpy as np

    if node.arg is Invalid:
        return Value(np.array(False), valid=np.array(False))
    if (
        isinstance(node.arg, int)
        and not isinstance(node.arg, bool)
        and node.arg >> 63 not in (0, -1)
    ):
        return Value(np.array(node.arg & (1 << 64) - 1, np.uint64))
    return Value(np.array(node.arg, held_dtype(node.dtype)))


def counting(node: UOp, slices: Slices) -> Value:
    """RANGE: its values along an axis of its own."""
    import numpy as np

    return Value(np.arange(*slices.span(node), dtype=held_dtype(node.dtype)), (node,))


def moved(node: UOp, value: Value) -> Value:
    """The movement operations, on the axes behind the loops."""
    import numpy as np

    def part(array: Array | None, fill: object) -> Array | None:
        if array is None:
            return None
        return _moved_array(node, np.broadcast_to(array, value.array.shape), len(value.loops), fill)

    array = part(value.array, 0)
    assert array is not None
    return Value(array, value.loops, part(value.valid, True), part(value.error, 0.0))


def _moved_array(node: UOp, array: Array, count: int, fill: object) -> Array:
    import numpy as np

    lead = array.shape[:count]
    if node.op is Ops.RESHAPE:
        return array.reshape(lead + node.sizes)
    if node.op is Ops.PERMUTE:
        return array.transpose((*range(count), *(count + axis for axis in node.axes)))
    if node.op is Ops.FLIP:
        return np.flip(array, tuple(count + axis for axis in node.axes))
    if node.op is Ops.EXPAND:
        single = array.reshape(lead + (1,) * len(node.sizes) + array.shape[count:])
        return np.broadcast_to(single, lead + node.sizes + array.shape[count:])
    inner = node.src[0].shape if node.op is Ops.PAD else node.sizes
    box = tuple(slice(o, o + size) for o, size in zip(node.offsets, inner, strict=True))
    if node.op is Ops.SHRINK:
        return array[(slice(None),) * count + box]
    padded = np.full(lead + node.sizes, fill, array.dtype)
    padded[(slice(None),) * count + box] = array
    return padded


def stacked(node: UOp, values: list[Value], cast: Callable[[Array, UOp], Array]) -> Value:
    """STACK: its sources along a new leading axis; `cast` brings each into the common dtype."""
    import numpy as np

    loops = joint_loops(values)
    shape = node.shape[1:]
    laid = [over(value, loops, len(shape)) for value in values]
    arrays = [cast(value.array, source) for value, source in zip(laid, node.src, strict=True)]
    axis = len(loops)
    if not arrays:
        return Value(np.zeros((0,), np.int64))

    def join(parts: Sequence[Array | None], fill: object) -> Array | None:
        if all(part is None for part in parts):
            return None
        full = [np.array(fill) if part is None else part for part in parts]
        whole = np.broadcast_shapes(*(array.shape for array in arrays))
        return np.stack([np.broadcast_to(part, whole) for part in full], axis)

    array = join(arrays, 0)
    assert array is not None
    valid, error = join([v.valid for v in laid], True), join([v.error for v in laid], 0.0)
    return Value(array, loops, valid, error)


def both(first: Array | None, second: Array | None) -> Array | None:
    """The conjunction of two masks, None meaning everywhere."""
    if first is None or second is None:
        return second if first is None else first
    return first & second


def positions(node: UOp, values: list[Value], loops: Loops) -> tuple[list[Array], Array | None]:
    """The indices of an INDEX over `loops` and all index axes, 0 where Invalid, and where they are valid.

    Raises: CheckError where a valid index is out of bounds.
    """
    import numpy as np

    shapes = [source.shape for source in node.src[1:]]
    rank = sum(len(shape) for shape in shapes)
    behind = rank
    laid: list[Value] = []
    for value, shape in zip(values, shapes, strict=True):
        behind -= len(shape)
        own = over(value, loops, len(shape))
        trailing = (1,) * behind
        lead = (1,) * (rank - behind - len(shape))

        def place(
            part: Array | None, lead: Shape = lead, trailing: Shape = trailing
        ) -> Array | None:
            if part is None:
                return None
            cut = len(loops)
            return part.reshape(part.shape[:cut] + lead + part.shape[cut:] + trailing)

        array = place(own.array)
        assert array is not None
        laid.append(Value(array, loops, place(own.valid), None))
    valid: Array | None = None
    for value in laid:
        valid = both(valid, value.valid)
    indices = []
    for axis, value in enumerate(laid):
        size = node.src[0].shape[axis]
        outside = (value.array < 0) | (value.array >= size)
        wrong = outside if valid is None else outside & valid
        if np.any(wrong):
            _report_outside(node, axis, value.array, wrong)
        indices.append(np.where(outside, 0, value.array).astype(np.int64))
    return indices, valid


def _report_outside(node: UOp, axis: int, index: Array, wrong: Array) -> None:
    import numpy as np

    place = np.argwhere(wrong)[0]
    value = np.broadcast_to(index, wrong.shape)[tuple(place)]
    raise CheckError(
        f"index {int(value)} is outside of 0 .. {node.src[0].shape[axis] - 1} on axis {axis} of {node.src[0]!r}",
        node=repr(node),
        where="",
    )


def gathered(node: UOp, values: list[Value]) -> Value:
    """INDEX: elements of the first value; 0 where the index is Invalid."""
    import numpy as np

    base, loops = values[0], joint_loops(values)
    indices, valid = positions(node, values[1:], loops)
    rank = sum(len(source.shape) for source in node.src[1:])
    chosen: list[Array] = []
    for axis, loop in enumerate(base.loops):
        place = [1] * (len(loops) + rank)
        place[loops.index(loop)] = base.array.shape[axis]
        chosen.append(np.arange(base.array.shape[axis]).reshape(place))
    chosen.extend(indices)
    rest = len(node.src[0].shape) - len(indices)
    mask = None if valid is None else valid.reshape(valid.shape + (1,) * rest)

    def take(part: Array | None) -> Array | None:
        if part is None:
            return None
        full = np.broadcast_to(part, base.array.shape)
        if full.size == 0:
            return np.zeros(
                np.broadcast_shapes(*(c.shape for c in chosen)) + full.shape[len(chosen) :],
                full.dtype,
            )
        found = full[tuple(chosen)]
        return found if mask is None else np.where(mask, found, np.zeros((), found.dtype))

    array = take(base.array)
    assert array is not None
    error = take(base.error)
    return Value(array, loops, None, error)


def validity(node: UOp, laid: list[Value]) -> Array | None:
    """Where an elementwise value is not Invalid: where no operand is, of WHERE's arms the chosen one."""
    import numpy as np

    if node.op is Ops.WHERE and (laid[1].valid is not None or laid[2].valid is not None):
        arms = [np.array(True) if arm.valid is None else arm.valid for arm in laid[1:]]
        return both(laid[0].valid, np.where(laid[0].array, *arms))
    valid: Array | None = None
    for value in laid:
        valid = both(valid, value.valid)
    return valid
