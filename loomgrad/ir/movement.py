"""Movement as index arithmetic: where an element of a moved value comes from.

Given the indices of an element of `node`, a movement node, `source_indices` gives the indices of the element of
its source, and for PAD the condition under which there is one.
"""

from __future__ import annotations

from loomgrad.ir.args import Invalid
from loomgrad.ir.opcode import Ops
from loomgrad.ir.shape import Shape, size_of
from loomgrad.ir.simplify import simplify
from loomgrad.ir.uop import UOp

Indices = tuple[UOp, ...]
ZERO = UOp.const(0)


def flatten(indices: Indices, shape: Shape) -> UOp:
    """The row-major position of an element."""
    flat = ZERO
    stride = 1
    for index, size in zip(reversed(indices), reversed(shape), strict=True):
        if size != 1:
            flat = index * stride + flat
        stride *= size
    return simplify(flat)


def unflatten(flat: UOp, shape: Shape) -> Indices:
    """The indices of the element at a row-major position."""
    indices: list[UOp] = []
    stride = size_of(shape)
    for position, size in enumerate(shape):
        stride //= max(size, 1)
        if size == 1:
            indices.append(ZERO)
            continue
        index = flat // stride if stride > 1 else flat
        outermost = all(before == 1 for before in shape[:position])
        indices.append(simplify(index if outermost else index % size))
    return tuple(indices)


def reshaped(indices: Indices, shape: Shape, source: Shape) -> Indices:
    """Indices into `source` from indices into `shape`, group by group of axes of equal product."""
    result: list[UOp] = []
    i = j = 0
    while i < len(shape) or j < len(source):
        start, source_start = i, j
        count = source_count = 1
        while (i == start and i < len(shape)) or (j == source_start and j < len(source)):
            if i < len(shape) and i == start:
                count, i = count * shape[i], i + 1
            if j < len(source) and j == source_start:
                source_count, j = source_count * source[j], j + 1
        while count != source_count:
            if count < source_count:
                count, i = count * shape[i], i + 1
            else:
                source_count, j = source_count * source[j], j + 1
        group, source_group = shape[start:i], source[source_start:j]
        if group == source_group:
            result.extend(indices[start:i])
        else:
            result.extend(unflatten(flatten(indices[start:i], group), source_group))
    return tuple(result)


def source_indices(node: UOp, indices: Indices) -> tuple[Indices, UOp | None]:
    """Indices into the source of a movement node, and PAD's condition (None where always true)."""
    source = node.src[0]
    if node.op is Ops.RESHAPE:
        if 0 in source.shape:
            return tuple(ZERO for _ in source.shape), None
        return reshaped(indices, node.shape, source.shape), None
    if node.op is Ops.PERMUTE:
        place = dict(zip(node.axes, indices, strict=True))
        return tuple(place[axis] for axis in range(len(indices))), None
    if node.op is Ops.EXPAND:
        return indices[len(indices) - len(source.shape) :], None
    if node.op is Ops.FLIP:
        return tuple(
            simplify(size - 1 - index) if axis in node.axes else index
            for axis, (index, size) in enumerate(zip(indices, node.shape, strict=True))
        ), None
    if node.op is Ops.SHRINK:
        pairs = zip(indices, node.offsets, strict=True)
        return tuple(simplify(index + offset) for index, offset in pairs), None
    assert node.op is Ops.PAD
    return _padded(node, indices)


def _padded(node: UOp, indices: Indices) -> tuple[Indices, UOp | None]:
    moved: list[UOp] = []
    gate: UOp | None = None
    for index, offset, inner, outer in zip(
        indices, node.offsets, node.src[0].shape, node.sizes, strict=True
    ):
        moved.append(simplify(index - offset) if offset else index)
        conditions = []
        if offset:
            conditions.append(~(index < offset))
        if offset + inner < outer:
            conditions.append(index < offset + inner)
        for condition in conditions:
            gate = condition if gate is None else gate & condition
    return tuple(moved), None if gate is None else simplify(gate)


def gated(index: UOp, gate: UOp | None) -> UOp:
    """An index that must not be used where `gate` is false."""
    if gate is None:
        return index
    return UOp(Ops.WHERE, (gate, index, UOp.const(Invalid)))


def ungated(index: UOp) -> tuple[UOp, UOp | None]:
    """An index and its gate.  An index that is never valid is 0 where false."""
    if index.arg is Invalid:
        return ZERO, UOp.const(False)
    if index.op is Ops.WHERE and index.src[2].arg is Invalid:
        inner, gate = ungated(index.src[1])
        return inner, both(index.src[0], gate)
    return index, None


def both(first: UOp | None, second: UOp | None) -> UOp | None:
    """The conjunction of two gates, None meaning always."""
    if first is None or second is None or first is second:
        return second if first is None else first
    return first & second
