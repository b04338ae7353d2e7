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
from loomgrad.ir.transform import Sources, transform, with_sources
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
    parts = tuple(sorted(position.ranges, key=lambda r: r.arg.axis))

    def make(node: UOp, sources: Sources) -> UOp:
        if node is loop:
            return position
        if node.op in (Ops.END, Ops.REDUCE) and loop in node.src[1:]:
            value = _or_identity(node, sources[0], inside)
            loops = [
                part
                for old, new in zip(node.src[1:], sources[1:], strict=True)
                for part in (parts if old is loop else (new,))
            ]
            return node.replace(src=(value, *loops))
        new = with_sources(node, sources)
        is_access = node.op is Ops.INDEX and node.src[0].op in GroupOp.Storage
        if inside is None or not is_access or loop not in node.ranges:
            return new
        index, gate = ungated(new.src[1])
        return new.src[0].index(gated(index, both(inside, gate)))

    return transform(effect, make)


def _or_identity(closing: UOp, value: UOp, inside: UOp | None) -> UOp:
    """What a closing node takes: a reduction nothing from beyond the end of its loop."""
    if closing.op is not Ops.REDUCE or inside is None:
        return value
    identity = value.const_like(identity_element(closing.arg.op, value.dtype))
    return UOp(Ops.WHERE, (inside, value, identity))


def cascaded(effect: UOp, loop: UOp, amount: int) -> UOp:
    """Before: REDUCE(v, j, k, m).   After: REDUCE(REDUCE(v, ki, m), j, ko), k = ko * amount + ki.

    Because: a reduction may be done in any order.  Lanes stay with the outer one.
    """
    inner = UOp.range(amount, (*loop.arg.axis, 1), loop.arg.kind)
    outer = UOp.range(extent_of(loop) // amount, (*loop.arg.axis, 0), loop.arg.kind)

    def make(node: UOp, sources: Sources) -> UOp:
        if node is loop:
            return outer * amount + inner
        if node.op is not Ops.REDUCE or loop not in node.src[1:]:
            return with_sources(node, sources)
        place = node.src.index(loop)
        lanes = [s for s in sources[place + 1 :] if s.arg.kind is not AxisType.REDUCE]
        rest = [s for s in sources[place + 1 :] if s.arg.kind is AxisType.REDUCE]
        part = sources[0].fold_ranges(node.arg.op, inner, *rest)
        return part.fold_ranges(node.arg.op, *sources[1:place], outer, *lanes)

    return simplify(transform(effect, make))


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
    halves = {first: whole // size, second: whole % size}
    closings = [
        n for n in effect.toposort() if n.op in (Ops.END, Ops.REDUCE) and first in n.src[1:]
    ]
    if any(second not in closing.src[1:] for closing in closings):
        return None

    def make(node: UOp, sources: Sources) -> UOp:
        if node in halves:
            return halves[node]
        if node not in closings:
            return with_sources(node, sources)
        pairs = zip(node.src[1:], sources[1:], strict=True)
        loops = [whole if old is first else new for old, new in pairs if old is not second]
        return node.replace(src=(sources[0], *loops))

    new = simplify(transform(effect, make))
    return new if _divisions(new) <= _divisions(effect) else None


def _divisions(effect: UOp) -> int:
    return sum(1 for node in effect.toposort() if node.op in GroupOp.Division)
