"""The whole vocabulary, written once for `UOp` and `Tensor`: arithmetic, movement and reduction.

A class gets all of it by saying how a node is made of it (`_make`), how a movement is (`_move`), a reduction
(`_fold`), and what a Python number becomes beside it (`_constant`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from loomgrad.ir.arguments import axes_argument
from loomgrad.ir.division import Division
from loomgrad.ir.moves import Moves
from loomgrad.ir.opcode import Op
from loomgrad.ir.operand import Number as Number


class Vocabulary(Division, Moves):
    """Operators and methods shared by nodes and Tensors."""

    __slots__ = ()

    # ---- reduction

    def _reduce(self, op: Op, axis: int | Sequence[int] | None, keepdim: bool) -> Self:
        axes = axes_argument(() if axis is None else (axis,), self.shape, default_all=axis is None)
        rest = tuple(a for a in range(len(self.shape)) if a not in axes)
        kept = tuple(1 if a in axes else size for a, size in enumerate(self.shape))
        counted = tuple(a for a in axes if self.shape[a] != 1)
        if counted:
            others = tuple(a for a in range(len(self.shape)) if a not in counted)
            result = self.permute(counted + others)._fold(op, len(counted))
        else:
            result = self
        return result.reshape(kept if keepdim else tuple(self.shape[a] for a in rest))
