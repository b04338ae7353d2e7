"""Expand: UPCAST and UNROLL loops become lanes, which are axes of shapes.

Needs: a kernel whose loops have their kinds.  Guarantees: no loop of those kinds; one node per operation whatever
the tile.  Lane axes are ordered: those of reductions first, an inner reduction's before an outer's, then the
output's, the one that runs contiguously in memory last.

Before:  REDUCE(MUL(INDEX(x, iu*K + k), INDEX(w, k*N + ju)), k)       iu, ju UPCAST loops
After:   the same with iu = RESHAPE(STACK(0..5), (6, 1)), ju = RESHAPE(STACK(0..15), (1, 16))
"""

from __future__ import annotations

from loomgrad.codegen.strides import access_of
from loomgrad.ir.args import AxisType, ReduceArg
from loomgrad.ir.opcode import Ops
from loomgrad.ir.shape import Shape, broadcast, extent_of
from loomgrad.ir.simplify import simplify
from loomgrad.ir.transform import Sources, transform, with_sources
from loomgrad.ir.uop import UOp, shape_stack
from loomgrad.target import Target

LANE_KINDS = (AxisType.UPCAST, AxisType.UNROLL)


def expand(kernel: UOp, target: Target) -> UOp:
    """The kernel with lanes in place of UPCAST and UNROLL loops."""
    lanes = _lane_loops(kernel)
    values = {loop: _lane_values(lanes, loop) for loop in lanes}

    def make(node: UOp, sources: Sources) -> UOp:
        if node in values:
            return values[node]
        if node.op is Ops.REDUCE:
            return _reduce(node, sources[0], lanes)
        if node.op is Ops.END:
            return sources[0].end(*(loop for loop in node.src[1:] if loop not in values))
        return with_sources(node, sources)

    return simplify(transform(kernel, make))


def _lane_loops(kernel: UOp) -> list[UOp]:
    """The loops that become lane axes, in their order."""
    order = kernel.toposort()
    unrolled = [
        loop
        for node in order
        if node.op is Ops.REDUCE
        for loop in node.src[1:]
        if loop.arg.kind is AxisType.UNROLL
    ]
    upcast = [node for node in order if node.op is Ops.RANGE and node.arg.kind is AxisType.UPCAST]
    accesses = [access_of(node.src[0]) for node in order if node.op is Ops.STORE]
    accesses += [access_of(node) for node in order if node.op is Ops.INDEX]
    upcast.sort(key=lambda loop: (sum(a.stride(loop) == 1 for a in accesses), loop.arg.axis))
    if accesses:
        first = accesses[0]
        upcast.sort(key=lambda loop: first.stride(loop) == 1)
    return unrolled + upcast


def _lane_values(lanes: list[UOp], loop: UOp) -> UOp:
    place = lanes.index(loop)
    extent = extent_of(loop)
    values = UOp.stack(UOp.const(value) for value in range(extent))
    sizes = (extent, *(1 for _ in lanes[place + 1 :]))
    return values if len(sizes) == 1 else UOp(Ops.RESHAPE, (values, shape_stack(sizes)))


def _reduce(node: UOp, value: UOp, lanes: list[UOp]) -> UOp:
    """A reduction over lanes folds leading axes; its other loops stay sources."""
    unrolled = [loop for loop in node.src[1:] if loop.arg.kind is AxisType.UNROLL]
    loops = tuple(loop for loop in node.src[1:] if loop.arg.kind is not AxisType.UNROLL)
    if not unrolled:
        return UOp(Ops.REDUCE, (value, *loops), ReduceArg(node.arg.op, 0))
    first = min(lanes.index(loop) for loop in unrolled)
    last = max(lanes.index(loop) for loop in unrolled)
    rank = len(lanes) - first
    shape: Shape = tuple(extent_of(loop) if loop in unrolled else 1 for loop in lanes[first:])
    whole = broadcast((value.shape, shape))
    assert whole is not None and len(whole) == rank
    wide = lanes_of_shape(value, whole)
    folded = UOp(Ops.REDUCE, (wide, *loops), ReduceArg(node.arg.op, last - first + 1))
    return folded.reshape(without_leading_ones(folded.shape))


def without_leading_ones(shape: Shape) -> Shape:
    """A lane shape in its shortest form: broadcasting adds leading axes of size 1 anyway."""
    while shape and shape[0] == 1:
        shape = shape[1:]
    return shape


def lanes_of_shape(value: UOp, shape: Shape) -> UOp:
    """A value with exactly this lane shape."""
    padded = (1,) * (len(shape) - len(value.shape)) + value.shape
    if padded == shape:
        return value if value.shape == shape else value.reshape(shape)
    return value.reshape(padded).expand(shape) if value.shape != padded else value.expand(shape)
