"""Gradients: one row per operation says how a cotangent passes from a node to its sources.

`gradients` walks from a scalar towards the targets and applies the rows; what comes out is more graph, so that
gradients of gradients need nothing new.  Two policies:

- What WHERE, MAX, PAD and the like did not select gets exactly 0, whatever its local derivative is there: a
  cotangent carries its mask, and derivatives that may be infinite are applied inside of it.
- Elements that tie for a maximum share its gradient evenly; a tie with a constant goes to the constant, so the
  slope of relu at 0 is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from loomgrad.dtype import dtypes, sum_dtype
from loomgrad.errors import GradientError
from loomgrad.ir.counting import counting
from loomgrad.ir.matcher import PatternMatcher
from loomgrad.ir.opcode import GroupOp, Op, Ops, OpSet
from loomgrad.ir.pattern import UPat
from loomgrad.ir.rule import FunctionRule
from loomgrad.ir.shape import Shape, size_of
from loomgrad.ir.uop import UOp

# No gradient passes these.
CUT = OpSet(Ops.DETACH, Ops.CONST, Ops.BUFFER, Ops.PARAM, Ops.BITCAST)
# The derivatives of these are not finite everywhere.
POLES = OpSet(*(Ops.RECIPROCAL, Ops.FDIV, Ops.LOG, Ops.LOG2, Ops.SQRT, Ops.POW, Ops.EXP, Ops.EXP2))


@dataclass(frozen=True, slots=True)
class Cotangent:
    """The gradient of the root with respect to a node, in the node's shape.

    Where `mask` is false the node was not selected, and the gradient is 0 although `raw` may be anything;
    `is_zeroed` says that `raw` is 0 there already.
    """

    raw: UOp
    mask: UOp | None = None
    is_zeroed: bool = False

    @property
    def value(self) -> UOp:
        """The gradient itself."""
        if self.mask is None or self.is_zeroed:
            return self.raw
        return self.mask.where(self.raw, self.raw.const_like(0))

    def settled(self) -> Cotangent:
        """Without its mask."""
        return self if self.mask is None else Cotangent(self.value)

    def scaled(self, local: Callable[[UOp], UOp], pole: bool = False) -> Cotangent:
        """The chain rule: `local` multiplies by a derivative, which may be infinite if there is a `pole`."""
        return Cotangent(local(self.raw), self.mask, self.is_zeroed and not pole)

    def selected(self, chosen: UOp) -> Cotangent:
        """Only where `chosen` is true."""
        if self.is_zeroed:
            return Cotangent(self.raw, chosen)
        return Cotangent(self.raw, chosen if self.mask is None else self.mask & chosen)

    def moved(self, move: Callable[[UOp], UOp]) -> Cotangent:
        """Through a movement."""
        if self.mask is None:
            return Cotangent(move(self.raw))
        return Cotangent(move(self.value), move(self.mask.expand(self.raw.shape)), True)

    def plus(self, other: Cotangent) -> Cotangent:
        """What two users of one node give it together."""
        total = self.value + other.value
        if self.mask is None or other.mask is None:
            return Cotangent(total)
        return Cotangent(total, self.mask | other.mask, True)

    def fitted(self, shape: Shape) -> Cotangent:
        """For a source that was broadcast: the sum over all its uses.  It counts as selected."""
        if self.raw.shape == shape:
            return self
        lead = len(self.raw.shape) - len(shape)
        padded = (1,) * lead + shape
        axes = [a for a, size in enumerate(padded) if size != self.raw.shape[a]]
        return Cotangent(summed(self.value, tuple(axes)).reshape(shape))


def summed(value: UOp, axes: tuple[int, ...]) -> UOp:
    """The sum over axes, which stay with size 1; half floats are added in float32."""
    return value.cast(sum_dtype(value.dtype)).sum(axes, keepdim=True).cast(value.dtype)


Gradients = tuple[Cotangent | None, ...]


def gradients(root: UOp, seed: UOp, targets: Sequence[UOp]) -> dict[UOp, UOp]:
    """The gradients of `root`, weighted by `seed`, with respect to those targets that it depends on."""
    order = root.toposort(lambda node: node.dtype.is_float and node.op not in CUT)
    wanted = frozenset(targets)
    active, guarded = _paths(order, wanted)
    cotangents: dict[UOp, Cotangent] = {root: Cotangent(seed.expand(root.shape))}
    for node in reversed(order):
        cotangent = cotangents.get(node)
        if cotangent is None or node not in active or node.op in CUT:
            continue
        sources = [source for source in node.src if source in active]
        if not sources:
            continue
        if node.op not in GroupOp.Elementwise and not guarded.intersection(sources):
            cotangent = cotangent.settled()
        for source, piece in zip(node.src, _rule(node, cotangent), strict=False):
            if piece is None or source not in active:
                continue
            fitted = piece.fitted(source.shape)
            before = cotangents.get(source)
            cotangents[source] = fitted if before is None else before.plus(fitted)
    return {
        target: cotangents[target].value
        if target in cotangents
        else target.const_like(0).expand(target.shape)
        for target in targets
        if target in active
    }


def _paths(order: list[UOp], targets: frozenset[UOp]) -> tuple[set[UOp], set[UOp]]:
    """The nodes on a way to a target, and those of them with a pole on that way."""
    active: set[UOp] = set()
    guarded: set[UOp] = set()
    for node in order:
        passes = node.dtype.is_float and node.op not in CUT
        below = passes and any(source in active for source in node.src)
        if below or node in targets:
            active.add(node)
        if below and (node.op in POLES or any(source in guarded for source in node.src)):
            guarded.add(node)
    return active, guarded


def _rule(node: UOp, cotangent: Cotangent) -> Gradients:
    found = GRADIENTS.rewrite(node, cotangent)
    if not isinstance(found, tuple):
        raise GradientError(f"{node.op.name.lower()} has no gradient", fix="detach its operand")
    return found


# ---- one function for each kind of row


def same(ctx: Cotangent, node: UOp) -> Gradients:
    """Sums and marks pass the cotangent on."""
    return (ctx,) * len(node.src)


def nothing(ctx: Cotangent, node: UOp) -> Gradients:
    """Flat everywhere."""
    return (None,) * len(node.src)


def subtract(ctx: Cotangent, node: UOp) -> Gradients:
    """a - b."""
    return ctx, ctx.scaled(lambda g: -g)


def negate(ctx: Cotangent, node: UOp) -> Gradients:
    """-x."""
    return (ctx.scaled(lambda g: -g),)


def multiply(ctx: Cotangent, node: UOp) -> Gradients:
    """a * b."""
    a, b = node.src
    return ctx.scaled(lambda g: g * b), ctx.scaled(lambda g: g * a)


def multiply_add(ctx: Cotangent, node: UOp) -> Gradients:
    """a * b + c."""
    a, b, _ = node.src
    return ctx.scaled(lambda g: g * b), ctx.scaled(lambda g: g * a), ctx


def divide(ctx: Cotangent, node: UOp) -> Gradients:
    """a / b: g / b, and -(g / b) * (a / b)."""
    _, b = node.src
    first = ctx.scaled(lambda g: g / b, pole=True)
    return first, first.scaled(lambda g: -(g * node), pole=True)


def maximum(ctx: Cotangent, node: UOp) -> Gradients:
    """max(a, b) selects; two values that tie share, a constant takes the tie."""
    a, b = node.src
    if b.is_const():
        return ctx.selected(b < a), None
    if a.is_const():
        return None, ctx.selected(a < b)
    half = ctx.scaled(lambda g: a.eq(b).where(g * 0.5, g))
    return half.selected(a >= b), half.selected(b >= a)


def power(ctx: Cotangent, node: UOp) -> Gradients:
    """a**b: b * a**(b - 1), and a**b * log(a).

    A power of 0 is flat in its base, and 0 to a power of at least 0 is flat in the exponent.
    """
    a, b = node.src
    below = a.alu(Ops.POW, b - 1)
    to_base = ctx.scaled(lambda g: g * b * below, pole=True).selected(b.ne(0))
    to_exponent = ctx.scaled(lambda g: g * node * a.log(), pole=True)
    return to_base, to_exponent.selected(a.ne(0) | (b < 0))


def reciprocal(ctx: Cotangent, node: UOp) -> Gradients:
    """1 / x: -(1 / x)**2."""
    return (ctx.scaled(lambda g: -(g * node * node), pole=True),)


def square_root(ctx: Cotangent, node: UOp) -> Gradients:
    """sqrt(x): 1 / (2 sqrt(x))."""
    return (ctx.scaled(lambda g: g / (node * 2), pole=True),)


def exponential(ctx: Cotangent, node: UOp) -> Gradients:
    """e**x."""
    return (ctx.scaled(lambda g: g * node, pole=True),)


def exponential_of_2(ctx: Cotangent, node: UOp) -> Gradients:
    """2**x: 2**x log(2)."""
    return (ctx.scaled(lambda g: g * node * math.log(2), pole=True),)


def logarithm(ctx: Cotangent, node: UOp) -> Gradients:
    """log(x): 1 / x."""
    return (ctx.scaled(lambda g: g / node.src[0], pole=True),)


def logarithm_of_2(ctx: Cotangent, node: UOp) -> Gradients:
    """log2(x): 1 / (x log(2))."""
    return (ctx.scaled(lambda g: g / (node.src[0] * math.log(2)), pole=True),)


def sine(ctx: Cotangent, node: UOp) -> Gradients:
    """sin(x): cos(x) = 1 - 2 sin(x / 2)**2, where half of x is exact, unlike x plus a quarter turn."""
    half = (node.src[0] * 0.5).sin()
    return (ctx.scaled(lambda g: g * (1.0 - half * half * 2)),)


def hyperbolic_tangent(ctx: Cotangent, node: UOp) -> Gradients:
    """tanh(x): 1 - tanh(x)**2."""
    return (ctx.scaled(lambda g: g * (1.0 - node * node)),)


def choose(ctx: Cotangent, node: UOp) -> Gradients:
    """WHERE selects."""
    condition = node.src[0]
    return None, ctx.selected(condition), ctx.selected(~condition)


def cast(ctx: Cotangent, node: UOp) -> Gradients:
    """Between floats the cotangent is cast back; a number that was an int has no slope."""
    source = node.src[0]
    return (ctx.scaled(lambda g: g.cast(source.dtype)) if source.dtype.is_float else None,)


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
    total = summed(ctx.value, tuple(range(lead)))
    return (Cotangent(total.reshape(node.src[0].shape)),)


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
    g = ctx.value.reshape(*places, *(1 for _ in indices), *rest)
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
    total = summed(taken.where(g, g.const_like(0)), tuple(range(len(places))))
    return (Cotangent(total.reshape(table.shape)),)


def stack(ctx: Cotangent, node: UOp) -> Gradients:
    """Each source's place along the new axis."""
    inner = node.shape[1:]

    def place(g: UOp, position: int) -> UOp:
        return g.shrink(((position, position + 1), *(None for _ in inner))).reshape(inner)

    return tuple(
        ctx.moved(lambda g, position=position: place(g, position))  # type: ignore[misc]
        for position in range(len(node.src))
    )


def _row(op: Op, function: Callable[[Cotangent, UOp], Gradients], **fields: object) -> FunctionRule:
    return FunctionRule(UPat(op, name="node", **fields), function)  # type: ignore[arg-type]


# fmt: off
GRADIENTS = PatternMatcher((
    _row(Ops.ADD,        same),
    _row(Ops.SUB,        subtract),
    _row(Ops.MUL,        multiply),
    _row(Ops.MULACC,     multiply_add),
    _row(Ops.FDIV,       divide),
    _row(Ops.MAX,        maximum),
    _row(Ops.POW,        power),
    _row(Ops.NEG,        negate),
    _row(Ops.RECIPROCAL, reciprocal),
    _row(Ops.SQRT,       square_root),
    _row(Ops.EXP,        exponential),
    _row(Ops.EXP2,       exponential_of_2),
    _row(Ops.LOG,        logarithm),
    _row(Ops.LOG2,       logarithm_of_2),
    _row(Ops.SIN,        sine),
    _row(Ops.TANH,       hyperbolic_tangent),
    _row(Ops.TRUNC,      nothing),
    _row(Ops.WHERE,      choose),
    _row(Ops.CAST,       cast),
    _row(Ops.RESHAPE,    reshape),
    _row(Ops.PERMUTE,    permute),
    _row(Ops.FLIP,       flip),
    _row(Ops.PAD,        pad),
    _row(Ops.SHRINK,     shrink),
    _row(Ops.EXPAND,     expand),
    _row(Ops.REDUCE,     reduce_sum,     arg={"op": Ops.ADD}),
    _row(Ops.REDUCE,     reduce_max,     arg={"op": Ops.MAX}),
    _row(Ops.REDUCE,     reduce_product, arg={"op": Ops.MUL}),
    _row(Ops.INDEX,      gather),
    _row(Ops.STACK,      stack),
    _row(Ops.CONTIGUOUS, same),
    _row(Ops.NOOP,       same),
))
# fmt: on
