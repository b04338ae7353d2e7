"""Random expressions over typed values that wrap and round, and values for their leaves."""

from __future__ import annotations

import random
from typing import Any

from loomgrad.dtype import DType, dtypes, truncate
from loomgrad.ir.args import ParamArg
from loomgrad.ir.opcode import Op, Ops
from loomgrad.ir.uop import UOp

INTS = (dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.uint64)
FLOATS = (dtypes.float32, dtypes.float16)
CONSTANTS = (-128, -5, -2, -1, 0, 1, 2, 3, 4, 7, 8, 12, 127, 255, 2**31 - 1)
FLOAT_CONSTANTS = (0.0, -0.0, 1.0, -1.0, 2.0, 0.1, 65504.0, float("inf"), float("nan"))
ARITHMETIC = (Ops.ADD, Ops.SUB, Ops.MUL, Ops.MAX)
DIVISIONS = (Ops.FLOORDIV, Ops.FLOORMOD, Ops.CDIV, Ops.CMOD)
BITS = (Ops.AND, Ops.OR, Ops.XOR)
COMPARISONS = (Ops.CMPLT, Ops.CMPEQ, Ops.CMPNE)


class RandomTyped:
    """Draws expressions with one random generator."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def leaf(self, dtype: DType) -> UOp:
        """Something unknown, or a loop variable as this dtype."""
        slot = self.random.randrange(3)
        if self.random.random() < 0.3 and not dtype.is_bool:
            return UOp.range(self.random.choice((2, 5, 300)), slot).cast(dtype)
        return UOp(Ops.PARAM, (), ParamArg(slot, dtype, 1)).index(0)

    def constant(self, dtype: DType) -> UOp:
        """A constant of a dtype, typed or weak."""
        values = FLOAT_CONSTANTS if dtype.is_float else CONSTANTS
        value = truncate(dtype, self.random.choice(values))
        weak = self.random.random() < 0.5 and not dtype.is_bool
        return UOp.const(value) if weak else UOp.const(value, dtype)

    def pair(self, dtype: DType, depth: int) -> tuple[UOp, UOp]:
        """Two operands of a dtype, at most one of them a constant."""
        first = self.value(dtype, depth)
        second = self.constant(dtype) if self.random.random() < 0.5 else self.value(dtype, depth)
        return (second, first) if self.random.random() < 0.3 else (first, second)

    def value(self, dtype: DType, depth: int) -> UOp:
        """An expression of a dtype."""
        if depth == 0:
            return self.leaf(dtype)
        if dtype.is_bool:
            return self.condition(depth - 1)
        kind = self.random.randrange(9)
        if kind == 0:
            return self.value(dtype, depth - 1).alu(Ops.NEG)
        if kind == 1:
            return self.value(self.random.choice((*INTS, *FLOATS, dtypes.bool)), depth - 1).cast(
                dtype
            )
        if kind == 2:
            return UOp(Ops.WHERE, (self.condition(depth - 1), *self.pair(dtype, depth - 1)))
        return UOp(self._operation(dtype, kind), self.pair(dtype, depth - 1))

    def _operation(self, dtype: DType, kind: int) -> Op:
        if kind < 7 or dtype.is_float:
            return self.random.choice((*ARITHMETIC, Ops.FDIV) if dtype.is_float else ARITHMETIC)
        return self.random.choice(DIVISIONS if kind == 7 else BITS)

    def condition(self, depth: int) -> UOp:
        """A bool expression."""
        kind = self.random.randrange(4)
        if depth > 0 and kind == 0:
            pair = self.condition(depth - 1), self.condition(depth - 1)
            return UOp(self.random.choice((*BITS, *COMPARISONS[1:])), pair)
        if depth > 0 and kind == 1:
            return ~self.condition(depth - 1)
        dtype = self.random.choice((*INTS, *FLOATS))
        return UOp(self.random.choice(COMPARISONS), self.pair(dtype, depth))

    def environment(self, *nodes: UOp) -> dict[UOp, Any]:
        """Random values for the leaves."""
        env: dict[UOp, Any] = {}
        for node in dict.fromkeys(n for root in nodes for n in root.toposort()):
            if node.op is Ops.RANGE:
                env[node] = self.random.randrange(int(node.src[0].val))
            elif node.op is Ops.INDEX:
                values = FLOAT_CONSTANTS if node.dtype.is_float else CONSTANTS
                env[node] = truncate(node.dtype, self.random.choice(values))
        return env
