"""Prepare: the tensor graph as the scheduler wants it.

Values without elements become constants, and weak constants that would be stored get a dtype.
"""

from __future__ import annotations

from loomgrad.dtype import commit_dtype
from loomgrad.ir.opcode import Ops
from loomgrad.ir.ops import identity_element
from loomgrad.ir.shape import size_of
from loomgrad.ir.transform import transform, with_sources
from loomgrad.ir.uop import UOp
from loomgrad.target import Target


def prepare(sink: UOp, target: Target) -> UOp:
    """The same outputs without reductions of nothing."""
    folded = transform(sink, lambda node, sources: _folded(with_sources(node, sources)))
    return sink.replace(src=tuple(root.cast(commit_dtype(root.dtype)) for root in folded.src))


def _folded(node: UOp) -> UOp:
    """Reductions of nothing are the identity; anything else of size 0 is a constant."""
    if node.op is Ops.REDUCE and 0 in node.src[0].shape:
        value = identity_element(node.arg.op, node.dtype)
        return _filled(node, value)
    shape = node.shape_or_none
    if shape is None or size_of(shape) or node.op in (Ops.BUFFER, Ops.STACK, Ops.EXPAND):
        return node
    return _filled(node, 0)


def _filled(node: UOp, value: int | float) -> UOp:
    constant = node.const_like(value)
    return constant._move(Ops.EXPAND, None, node.shape) if node.shape else constant
