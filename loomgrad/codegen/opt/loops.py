"""Surgery on the loops of a kernel's effect: split, retype, merge.

An effect is END(STORE or GROUP of STOREs, loops...), outermost loop first, or a bare effect without loops.
"""

from __future__ import annotations

from loomgrad.ir.args import AxisType, RangeArg
from loomgrad.ir.movement import both, gated, ungated
from loomgrad.ir.opcode import GroupOp, Ops
from loomgrad.ir.ops import identity_element
from loomgrad.ir.shape import extent_of
from loomgrad.ir.simplify import simplify
from loomgrad.ir.substitute import substitute
from loomgrad.ir.uop import UOp


def output_loops(effect: UOp) -> tuple[UOp, ...]:
    """The loops of the output, outermost first."""
    return effect.src[1:] if effect.op is Ops.END else ()


def reductions(effect: UOp) -> list[UOp]:
    """The REDUCEs of an effect, inner ones first."""
    return [node for node in effect.toposort() if node.op is Ops.REDUCE]


def retyped(effect: UOp, loop: UOp, kind: AxisType) -> UOp:
    """The effect with `loop` of another kind."""
    return substitute(effect, {loop: loop.replace(arg=RangeArg(loop.arg.axis, kind))})


def reordered(effect: UOp, loops: tuple[UOp, ...]) -> UOp:
    """The effect with its output loops in another order."""
    return effect.replace(src=(effect.src[0], *loops))


def split(effect: UOp, loop: UOp, amount: int, kind: AxisType) -> tuple[UOp, UOp | None, UOp]:
    """The effect with `loop` as an outer loop and an inner one of `amount` iterations of `kind`.

    Where `amount` does not divide the extent, iterations past the end load and store nothing, and add the identity
    to a reduction.  Also returns the outer loop (None where the inner one does it all) and the inner one.
    """
    extent = extent_of(loop)
    count = -(-extent // amount)
    inner = UOp.range(amount, (*loop.arg.axis, 1), kind)
    outer = UOp.range(count, (*loop.arg.axis, 0), loop.arg.kind) if count > 1 else None
    position = inner if outer is None else outer * amount + inner
    inside = position < extent if count * amount != extent else None
    new = _replaced(effect, loop, position, inside)
    return simplify(new), outer, inner


def _replaced(effect: UOp, loop: UOp, position: UOp, inside: UOp | None) -> UOp:
    """`loop` replaced by a position in its closing nodes, indices and values."""
    made: dict[UOp, UOp] = {}
    parts = tuple(sorted(position.ranges, key=lambda r: r.arg.axis))
    for node in effect.toposort():
        if node is loop:
            made[node] = position
            continue
        sources = tuple(made[source] for source in node.src)
        if node.op in (Ops.END, Ops.REDUCE) and loop in node.src[1:]:
            loops = [p for s in node.src[1:] for p in (parts if s is loop else (made[s],))]
            value = sources[0]
            if node.op is Ops.REDUCE and inside is not None:
                identity = value.const_like(identity_element(node.arg.op, value.dtype))
                value = UOp(Ops.WHERE, (inside, value, identity))
            made[node] = node.replace(src=(value, *loops))
            continue
        new = node if sources == node.src else node.replace(src=sources)
        is_access = node.op is Ops.INDEX and node.src[0].op in GroupOp.Storage
        if inside is not None and is_access and loop in node.ranges:
            index, gate = ungated(new.src[1])
            new = new.src[0].index(gated(index, both(inside, gate)))
        made[node] = new
    return made[effect]


def merged(effect: UOp) -> UOp:
    """Adjacent loops of one kind as one, where that needs no more division."""
    changed = True
    while changed:
        changed = False
        for closing in [n for n in effect.toposort() if n.op in (Ops.END, Ops.REDUCE)]:
            for first, second in zip(closing.src[1:], closing.src[2:], strict=False):
                new = _merge(effect, first, second)
                if new is not None:
                    effect, changed = new, True
                    break
            if changed:
                break
    return effect


def _merge(effect: UOp, first: UOp, second: UOp) -> UOp | None:
    if first.op is not Ops.RANGE or first.arg.kind is not second.arg.kind:
        return None
    size = extent_of(second)
    whole = UOp.range(extent_of(first) * size, first.arg.axis, first.arg.kind)
    made: dict[UOp, UOp] = {first: whole // size, second: whole % size}
    for node in effect.toposort():
        if node in made:
            continue
        sources = tuple(made[source] for source in node.src)
        if node.op in (Ops.END, Ops.REDUCE) and first in node.src[1:]:
            if second not in node.src[1:]:
                return None
            loops = [whole if s is first else made[s] for s in node.src[1:] if s is not second]
            made[node] = node.replace(src=(sources[0], *loops))
        else:
            made[node] = node if sources == node.src else node.replace(src=sources)
    new = simplify(made[effect])
    return new if _divisions(new) <= _divisions(effect) else None


def _divisions(effect: UOp) -> int:
    return sum(1 for node in effect.toposort() if node.op in GroupOp.Division)
