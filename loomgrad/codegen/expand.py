"""Expand: UPCAST and UNROLL loops become lanes, which are axes of shapes.

Needs: a kernel whose loops have their kinds.  Guarantees: no loop of those kinds; one node per operation whatever
the tile.  The lane axes of a node are the loops of its *layout*, in order, the one that runs contiguously in memory
last.  The output's layout is that of the UPCAST loops.  The body of a reduction over lanes has a layout of its own,
since what is reduced beside no output lanes needs no axis for them: its UNROLL loops and the output lanes it uses.
A REDUCE folds leading axes, so where its own run last they are brought to the front.

Before:  REDUCE(MUL(INDEX(x, iu*K + k), INDEX(w, k*N + ju)), k)       iu, ju UPCAST loops
After:   the same with iu = RESHAPE(STACK(0..5), (6, 1)), ju = STACK(0..15)
"""

from __future__ import annotations

from loomgrad.codegen.strides import access_of, loads_below
from loomgrad.ir.args import AxisType, ReduceArg
from loomgrad.ir.opcode import Ops
from loomgrad.ir.shape import Shape, broadcast, extent_of
from loomgrad.ir.simplify import simplify
from loomgrad.ir.transform import with_sources
from loomgrad.ir.uop import UOp, shape_stack
from loomgrad.target import Target

Layout = tuple[UOp, ...]


def expand(kernel: UOp, target: Target) -> UOp:
    """The kernel with lanes in place of UPCAST and UNROLL loops."""
    return simplify(_Expander(target).expanded(kernel, _output_layout(kernel)))


def _output_layout(kernel: UOp) -> Layout:
    """The UPCAST loops, those along which most accesses are contiguous last, and the store's last of all."""
    order = kernel.toposort()
    loops = [node for node in order if node.op is Ops.RANGE and node.arg.kind is AxisType.UPCAST]
    stores = [access_of(node.src[0]) for node in order if node.op is Ops.STORE]
    accesses = [access_of(node) for node in order if node.op is Ops.INDEX] + stores
    loops.sort(key=lambda loop: (sum(a.stride(loop) == 1 for a in accesses), loop.arg.axis))
    if stores:
        loops.sort(key=lambda loop: stores[0].stride(loop) == 1)
    return tuple(loops)


class _Expander:
    """Rebuilds nodes under layouts; a node may be needed under several."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.made: dict[tuple[UOp, Layout], UOp] = {}

    def expanded(self, root: UOp, layout: Layout) -> UOp:
        """`root` with the loops of `layout` as lanes."""
        for node in root.toposort(lambda n: not _folds_lanes(n) and n not in layout):
            if (node, layout) in self.made:
                continue
            if node in layout:
                made = _lane_values(layout, node)
            elif _folds_lanes(node):
                made = self._reduced(node, layout)
            else:
                sources = tuple(self.made[source, layout] for source in node.src)
                if node.op is Ops.END:
                    pairs = zip(node.src[1:], sources[1:], strict=True)
                    made = sources[0].end(*(new for old, new in pairs if old not in layout))
                else:
                    made = with_sources(node, sources)
            self.made[node, layout] = made
        return self.made[root, layout]

    def _reduced(self, node: UOp, outer: Layout) -> UOp:
        """A reduction over lanes: its body in a layout of its own, then folded, then in that around it."""
        body = node.src[0]
        own = tuple(loop for loop in node.src[1:] if loop.arg.kind is AxisType.UNROLL)
        loops = tuple(loop for loop in node.src[1:] if loop.arg.kind is not AxisType.UNROLL)
        used = tuple(loop for loop in outer if loop in body.ranges)
        last = self._runs_last(body, own, used)
        layout = used + own if last else own + used
        whole: Shape = tuple(extent_of(loop) for loop in layout)
        value = lanes_of_shape(self.expanded(body, layout), whole)
        if last and used:
            rank = len(whole)
            value = value.permute((*range(len(used), rank), *range(len(used))))
        folded = UOp(Ops.REDUCE, (value, *loops), ReduceArg(node.arg.op, len(own)))
        aligned = tuple(extent_of(loop) if loop in used else 1 for loop in outer)
        return folded.reshape(without_leading_ones(aligned))

    def _runs_last(self, body: UOp, own: Layout, used: Layout) -> bool:
        """Whether vectors lie along the reduction's lanes: it is contiguous there, and no output loop is."""
        loads = loads_below(body)
        width = self.target.vector_width(body.dtype)

        def moves(loop: UOp) -> bool:
            return any(load.stride(loop) == 1 for load in loads)

        beside = any(moves(loop) and extent_of(loop) * 2 >= width for loop in used)
        return any(moves(loop) for loop in own) and not beside


def _folds_lanes(node: UOp) -> bool:
    """Whether a node is a reduction with UNROLL loops."""
    return node.op is Ops.REDUCE and any(s.arg.kind is AxisType.UNROLL for s in node.src[1:])


def _lane_values(layout: Layout, loop: UOp) -> UOp:
    place = layout.index(loop)
    extent = extent_of(loop)
    values = UOp.stack(UOp.const(value) for value in range(extent))
    sizes = (extent, *(1 for _ in layout[place + 1 :]))
    return values if len(sizes) == 1 else UOp(Ops.RESHAPE, (values, shape_stack(sizes)))


def without_leading_ones(shape: Shape) -> Shape:
    """A lane shape in its shortest form: broadcasting adds leading axes of size 1 anyway."""
    while shape and shape[0] == 1:
        shape = shape[1:]
    return shape


def lanes_of_shape(value: UOp, shape: Shape) -> UOp:
    """A value with exactly this lane shape."""
    wanted = broadcast((value.shape, shape))
    assert wanted == shape, f"{value.shape} does not fit lanes of shape {shape}"
    padded = (1,) * (len(shape) - len(value.shape)) + value.shape
    if padded == shape:
        return value if value.shape == shape else value.reshape(shape)
    return value.reshape(padded).expand(shape)
