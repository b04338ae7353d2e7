"""Shape rules: one function per kind of operation, from a node to its shape, or None.

None means "has no shape" (effects, programs) or "ill-formed"; nothing raises here, because rewrites derive
shapes of nodes that are about to be replaced.  User constructors and the verifier raise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from loomgrad.ir.args import AddrSpace, ParamArg, RangeArg, ReduceArg
from loomgrad.ir.opcode import Ops

if TYPE_CHECKING:
    from loomgrad.ir.uop import UOp

Shape = tuple[int, ...]


def size_of(shape: Iterable[int]) -> int:
    """Number of elements of a shape."""
    return math.prod(shape)


def broadcast(shapes: Iterable[Shape]) -> Shape | None:
    """The right-aligned broadcast of `shapes`, or None where two sizes differ and neither is 1."""
    result: Shape = ()
    for shape in shapes:
        if shape == result or shape == ():
            continue
        longer, shorter = (shape, result) if len(shape) >= len(result) else (result, shape)
        lead = len(longer) - len(shorter)
        merged = list(longer)
        for axis, size in enumerate(shorter):
            other = longer[lead + axis]
            if other == 1:
                merged[lead + axis] = size
            elif size not in (1, other):
                return None
        result = tuple(merged)
    return result


def dims_of(stack: UOp) -> Shape:
    """The sizes in a shape argument, a STACK of constants."""
    return tuple(int(item.val) for item in stack.src)


def _source_shapes(sources: Iterable[UOp]) -> list[Shape] | None:
    shapes = []
    for source in sources:
        if source.shape_or_none is None:
            return None
        shapes.append(source.shape_or_none)
    return shapes


def no_shape(node: UOp) -> Shape | None:
    """Effects and programs have none."""
    return None


def scalar_shape(node: UOp) -> Shape | None:
    """A single value."""
    return ()


def first_shape(node: UOp) -> Shape | None:
    """The shape of the first source."""
    return node.src[0].shape_or_none


def storage_shape(node: UOp) -> Shape | None:
    """Memory is flat; registers and scratch state their shape."""
    arg = node.arg
    assert isinstance(arg, ParamArg)
    if arg.shape is not None:
        return arg.shape
    return () if arg.addrspace is AddrSpace.ALU else (arg.size,)


def stack_shape(node: UOp) -> Shape | None:
    """A new leading axis over sources of one shape."""
    if not node.src:
        return (0,)
    first = node.src[0].shape_or_none
    if first is None or any(source.shape_or_none != first for source in node.src):
        return None
    return (len(node.src), *first)


def elementwise_shape(node: UOp) -> Shape | None:
    """Right-aligned broadcasting of all sources."""
    shapes = _source_shapes(node.src)
    return None if shapes is None else broadcast(shapes)


def bitcast_shape(node: UOp) -> Shape | None:
    """Another width rescales the last axis, which must divide."""
    source = node.src[0]
    shape = source.shape_or_none
    if shape is None or source.dtype.itemsize == node.dtype.itemsize:
        return shape
    if not shape or shape[-1] * source.dtype.itemsize % node.dtype.itemsize:
        return None
    return (*shape[:-1], shape[-1] * source.dtype.itemsize // node.dtype.itemsize)


def reshape_shape(node: UOp) -> Shape | None:
    """The sizes asked for, if they hold as many elements."""
    shape, target = node.src[0].shape_or_none, dims_of(node.src[1])
    if shape is None or size_of(shape) != size_of(target) or any(size < 0 for size in target):
        return None
    return target


def permute_shape(node: UOp) -> Shape | None:
    """Axis i of the result is axis arg[i] of the source."""
    shape = node.src[0].shape_or_none
    if shape is None or sorted(node.arg) != list(range(len(shape))):
        return None
    return tuple(shape[axis] for axis in node.arg)


def flip_shape(node: UOp) -> Shape | None:
    """Unchanged; arg lists the axes that are reversed."""
    shape = node.src[0].shape_or_none
    return shape if shape is not None and all(0 <= axis < len(shape) for axis in node.arg) else None


def pad_shape(node: UOp) -> Shape | None:
    """The new sizes; the source lies inside at the offsets."""
    shape, offsets, sizes = node.src[0].shape_or_none, dims_of(node.src[1]), dims_of(node.src[2])
    if shape is None or not len(shape) == len(offsets) == len(sizes):
        return None
    inside = all(
        offset >= 0 and offset + old <= new
        for old, offset, new in zip(shape, offsets, sizes, strict=True)
    )
    return sizes if inside else None


def shrink_shape(node: UOp) -> Shape | None:
    """The new sizes; the result lies inside the source at the offsets."""
    shape, offsets, sizes = node.src[0].shape_or_none, dims_of(node.src[1]), dims_of(node.src[2])
    if shape is None or not len(shape) == len(offsets) == len(sizes):
        return None
    inside = all(
        offset >= 0 and new >= 0 and offset + new <= old
        for old, offset, new in zip(shape, offsets, sizes, strict=True)
    )
    return sizes if inside else None


def expand_shape(node: UOp) -> Shape | None:
    """New leading axes."""
    shape, lead = node.src[0].shape_or_none, dims_of(node.src[1])
    return None if shape is None or any(size < 0 for size in lead) else lead + shape


def reduce_shape(node: UOp) -> Shape | None:
    """Without the first `arg.count` axes."""
    shape = node.src[0].shape_or_none
    assert isinstance(node.arg, ReduceArg)
    return None if shape is None or node.arg.count > len(shape) else shape[node.arg.count :]


def index_shape(node: UOp) -> Shape | None:
    """The indexed axes are replaced by the shapes of the indices."""
    shapes = _source_shapes(node.src)
    if shapes is None or len(node.src) - 1 > len(shapes[0]):
        return None
    front: Shape = ()
    for shape in shapes[1:]:
        front += shape
    return front + shapes[0][len(node.src) - 1 :]


def stage_shape(node: UOp) -> Shape | None:
    """The sizes of its ranges, then the shape of the value."""
    shape = node.src[0].shape_or_none
    return None if shape is None else tuple(extent_of(item) for item in node.src[1:]) + shape


def extent_of(loop: UOp) -> int:
    """The number of values of a RANGE."""
    assert loop.op is Ops.RANGE and isinstance(loop.arg, RangeArg)
    return int(loop.src[0].val)
