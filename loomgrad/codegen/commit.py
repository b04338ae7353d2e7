"""Commit: every weak value gets the dtype that its consumer needs.

Index arithmetic becomes int32 where all of a kernel's indices provably fit, else int64.  A weak constant beside a
strong operand takes its dtype.

Before:  ADD(LOAD(...) float32, 1)      INDEX(P0, i*4 + j)
After:   ADD(LOAD(...), CAST(1, float32))      INDEX(P0, i*4 + j) with int32 ranges and constants
"""

from __future__ import annotations

from loomgrad.dtype import DType, dtypes
from loomgrad.ir.opcode import GroupOp, Ops
from loomgrad.ir.transform import Sources, transform
from loomgrad.ir.typing_rules import common_dtype
from loomgrad.ir.uop import UOp
from loomgrad.target import Target

_LIMIT = 1 << 31


def commit(kernel: UOp, target: Target) -> UOp:
    """The kernel without weak dtypes."""
    order = kernel.toposort()
    index_dtype = dtypes.int32 if all(_fits(node) for node in order) else dtypes.int64
    shapes = {n.src[-1] for n in order if n.op in GroupOp.Movement and n.op is not Ops.PERMUTE}

    def make(node: UOp, sources: Sources) -> UOp:
        is_settled = node in shapes or (node.op is Ops.CONST and node.dtype.is_bool)
        return node if is_settled else _committed(node, sources, index_dtype)

    return transform(kernel, make)


def _fits(node: UOp) -> bool:
    if node.dtype is not dtypes.weakint:
        return True
    least, greatest = node.bounds
    return least >= -_LIMIT and greatest < _LIMIT


def _committed(node: UOp, sources: tuple[UOp, ...], index_dtype: DType) -> UOp:
    if node.op is Ops.CONST:
        return node
    if node.op in GroupOp.Movement:
        return node.replace(src=(_strong(sources[0], index_dtype), *node.src[1:]))
    if node.op is Ops.CAST and node.src[0].op is Ops.CONST:
        return node
    if node.op is Ops.CAST:
        return _strong(sources[0], index_dtype).cast(_unweak(node.dtype, index_dtype))
    dtype = common_dtype(node.src) if node.src else node.dtype
    if node.op is Ops.WHERE:
        wanted = _unweak(common_dtype(node.src[1:]), index_dtype)
        return node.replace(src=(sources[0], *(_as(s, wanted, index_dtype) for s in sources[1:])))
    if node.op in (Ops.SHL, Ops.SHR):
        wanted = _unweak(node.src[0].dtype, index_dtype)
        return node.replace(src=tuple(_as(s, wanted, index_dtype) for s in sources))
    if node.op in GroupOp.Elementwise or node.op is Ops.STACK:
        wanted = _unweak(dtype, index_dtype)
        return node.replace(src=tuple(_as(s, wanted, index_dtype) for s in sources))
    if node.op in (Ops.STORE, Ops.LOAD):
        value = tuple(_as(s, sources[0].dtype, index_dtype) for s in sources[1:2])
        return node.replace(src=(sources[0], *value, *sources[2:]))
    return node.replace(src=tuple(_strong(s, index_dtype) for s in sources))


def _unweak(dtype: DType, index_dtype: DType) -> DType:
    if dtype is dtypes.weakint:
        return index_dtype
    return dtypes.default_float if dtype is dtypes.weakfloat else dtype


def _strong(node: UOp, index_dtype: DType) -> UOp:
    return _as(node, _unweak(node.dtype, index_dtype), index_dtype)


def _as(node: UOp, dtype: DType, index_dtype: DType) -> UOp:
    """A node in a strong dtype; only weak ones change."""
    if node.op is Ops.CONST and node.dtype is not dtype:
        return UOp.const(node.arg, dtype)
    if node.dtype.is_weak or (node.dtype is index_dtype and dtype is not index_dtype):
        return node.cast(dtype)
    return node
