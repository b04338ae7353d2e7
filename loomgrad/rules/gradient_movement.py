"""Gradients of movement, reductions and gathers: what each source gets of a node's cotangent, `ctx`."""

from __future__ import annotations

from loomgrad.dtype import dtypes, sum_dtype
from loomgrad.ir.counting import counting
from loomgrad.ir.opcode import Ops
from loomgrad.ir.shape import size_of
from loomgrad.ir.uop import UOp
from loomgrad.rules.cotangent import Cotangent, Gradients


def reshape(ctx: Cotangent, node: UOp) -> Gradients:
    """RESHAPE back."""
    return (ctx.moved(lambda g: g.reshape(node.src[0].shape)),)


def permute(ctx: Cotangent, node: UOp) -> Gradients:
    """The inverse order of axes."""
    back = tuple(node.axes.index(axis) for axis in range(len(node.axes)))
    return (ctx.moved(lambda g: g.permute(back)),)


def flip(ctx: Cotangent, node: UOp) -> Gradients:
    """The same axes reversed."""
    return (ctx.moved(lambda g: g.flip(node.axes)),)


def pad(ctx: Cotangent, node: UOp) -> Gradients:
    """The box where the source lies."""
    box = [(o, o + size) for o, size in zip(node.offsets, node.src[0].shape, strict=True)]
    return (ctx.moved(lambda g: g.shrink(box)),)


def shrink(ctx: Cotangent, node: UOp) -> Gradients:
    """Zeros around: what the box does not show was not selected."""
    whole = zip(node.offsets, node.shape, node.src[0].shape, strict=True)
    around = [(offset, size - offset - shown) for offset, shown, size in whole]
    box = UOp.const(True).expand(node.shape)
    chosen = box if ctx.mask is None else ctx.mask.expand(node.shape)
    return (Cotangent(ctx.value.pad(around), chosen.pad(around), True),)


def expand(ctx: Cotangent, node: UOp) -> Gradients:
    """The sum over the new leading axes."""
    lead = len(node.shape) - len(node.src[0].shape)
    return (ctx.gathered(tuple(range(lead))).reshaped(node.src[0].shape),)


def reduce_sum(ctx: Cotangent, node: UOp) -> Gradients:
    """Every element of a sum has slope 1."""
    return (ctx.moved(lambda g: _repeated(g, node)),)


def reduce_max(ctx: Cotangent, node: UOp) -> Gradients:
    """The elements equal to the maximum share.  They are counted as ints: a half float ends at 2048."""
    x, axes = node.src[0], tuple(range(node.arg.count))
    best = x.eq(node)
    ties = best.cast(dtypes.int32).sum(axes)
    wide = sum_dtype(node.dtype)
    share = ctx.scaled(lambda g: (g.cast(wide) / ties.cast(wide)).cast(g.dtype), pole=True)
    return (share.moved(lambda g: _repeated(g, node)).selected(best),)


def reduce_product(ctx: Cotangent, node: UOp) -> Gradients:
    """Each element's slope is the product of all others, multiplied out: dividing by it fails at 0."""
    x, count = node.src[0], node.arg.count
    folded, rest = size_of(x.shape[:count]), x.shape[count:]
    flat = x.reshape(folded, *rest)
    place = counting(folded).reshape(folded, *(1 for _ in rest))
    own = place.reshape(folded, 1, *(1 for _ in rest)).eq(place)
    others = own.where(flat.const_like(1), flat)._reduce(Ops.MUL, 1, keepdim=False)
    return (ctx.moved(lambda g: _repeated(g, node)).scaled(lambda g: g * others.reshape(x.shape)),)


def _repeated(g: UOp, node: UOp) -> UOp:
    """Along the axes that a REDUCE folded."""
    return g._move(Ops.EXPAND, None, node.src[0].shape[: node.arg.count])


def gather(ctx: Cotangent, node: UOp) -> Gradients:
    """Each element of the table gets the sum over the places that took it."""
    table, *indices = node.src
    rest = table.shape[len(indices) :]
    places = node.shape[: len(node.shape) - len(rest)]
    ctx = ctx.reshaped((*places, *(1 for _ in indices), *rest))
    taken: UOp | None = None
    first = 0
    for axis, index in enumerate(indices):
        after = len(places) - first - len(index.shape) + len(indices) + len(rest)
        shown = index.reshape(*index.shape, *(1 for _ in range(after)))
        number = counting(table.shape[axis], index.dtype)
        number = number.reshape(-1, *(1 for _ in range(len(indices) - axis - 1 + len(rest))))
        match = shown.eq(number)
        taken = match if taken is None else taken & match
        first += len(index.shape)
    assert taken is not None
    wide = Cotangent(ctx.value.expand(*places, *table.shape), ctx.mask, ctx.is_zeroed)
    return (wide.selected(taken).gathered(tuple(range(len(places)))).reshaped(table.shape),)


def stack(ctx: Cotangent, node: UOp) -> Gradients:
    """Each source's place along the new axis."""
    inner = node.shape[1:]

    def place(g: UOp, position: int) -> UOp:
        return g.shrink(((position, position + 1), *(None for _ in inner))).reshape(inner)

    return tuple(
        ctx.moved(lambda g, position=position: place(g, position))  # type: ignore[misc]
        for position in range(len(node.src))
    )
