"""The order in which operands of commutative index arithmetic stand: loops by axis, the rest by structure.

It depends on no slot and no address, so that two kernels which differ only in their buffers are written alike.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from loomgrad.ir.args import ParamArg
from loomgrad.ir.key import encode
from loomgrad.ir.opcode import Ops

if TYPE_CHECKING:
    from loomgrad.ir.uop import UOp

OrderKey = tuple[int, tuple[int, ...]]


def node_order(node: UOp) -> OrderKey:
    """The rule for `UOp.order`: compares as loops by axis numbers first, then operations, constants last."""
    if node.op is Ops.RANGE:
        axis: tuple[int, ...] = node.arg.axis
        return 0, axis
    arg = node.arg
    if isinstance(arg, ParamArg):
        arg = (arg.dtype, arg.size, arg.addrspace, arg.shape)
    digest = hashlib.blake2b(encode((node.op, node.dtype, arg)), digest_size=8)
    for source in node.src:
        digest.update(repr(source.order).encode())
    rank = len(Ops) if node.op is Ops.CONST else 1 + node.op.index
    return rank, (int.from_bytes(digest.digest(), "big"),)
