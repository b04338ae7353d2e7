"""Random index expressions over small loops."""

from __future__ import annotations

import random

from loomgrad.ir.args import Invalid
from loomgrad.ir.opcode import Ops
from loomgrad.ir.uop import UOp

CONSTANTS = (-7, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 8, 12, 24)
DIVISORS = (-4, -3, -2, 1, 2, 3, 4, 5, 6, 8, 12, 24)


class RandomIndex:
    """Draws expressions with one random generator."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        sizes = self.random.choice([(3, 4, 5), (12, 2), (24,), (6, 6), (4, 3, 2), (1, 7)])
        self.loops = [UOp.range(size, axis) for axis, size in enumerate(sizes)]

    def number(self, depth: int) -> UOp:
        """An int expression."""
        draw = self.random
        if depth == 0 or draw.random() < 0.1:
            return (
                draw.choice(self.loops)
                if draw.random() < 0.8
                else UOp.const(draw.choice(CONSTANTS))
            )
        kind = draw.randrange(14)
        if kind < 4:
            return self.number(depth - 1) + self.number(depth - 1)
        if kind == 4:
            return self.number(depth - 1) - self.number(depth - 1)
        if kind < 7:
            return self.number(depth - 1) * draw.choice(CONSTANTS)
        if kind < 9:
            return self.number(depth - 1) // draw.choice(DIVISORS)
        if kind < 11:
            return self.number(depth - 1) % draw.choice(DIVISORS)
        if kind == 11:
            return self.number(depth - 1) * self.number(depth - 1)
        if kind == 12:
            return self.condition(depth - 1).where(self.number(depth - 1), self.number(depth - 1))
        other = self.number(depth - 1)
        return self.number(depth - 1).maximum(other) if draw.random() < 0.5 else -other

    def condition(self, depth: int) -> UOp:
        """A bool expression."""
        draw = self.random
        kind = draw.randrange(8)
        if depth > 0 and kind == 0:
            return self.condition(depth - 1) & self.condition(depth - 1)
        if depth > 0 and kind == 1:
            return self.condition(depth - 1) | self.condition(depth - 1)
        if depth > 0 and kind == 2:
            return ~self.condition(depth - 1)
        a = self.number(depth)
        b = UOp.const(draw.choice(CONSTANTS)) if draw.random() < 0.7 else self.number(depth)
        if kind == 3:
            return a.eq(b)
        return a.ne(b) if kind == 4 else (a < b if kind < 7 else b < a)

    def position(self) -> UOp:
        """What reshapes make: a flat position taken apart, put together, and taken apart again."""
        draw = self.random
        flat: UOp = UOp.const(0)
        for loop in self.loops:
            flat = flat * int(loop.src[0].val) + loop
        for _ in range(draw.randrange(1, 4)):
            inner = draw.choice((2, 3, 4, 6))
            parts = [flat // inner, flat % inner]
            if draw.random() < 0.3:
                parts.reverse()
            flat = parts[0] * draw.choice((inner, inner, inner + 1)) + parts[1]
            flat = flat + draw.choice((0, 0, 1, -1, inner))
        return flat

    def gated(self, depth: int) -> UOp:
        """An index under a gate."""
        gate = self.condition(depth) & self.condition(1)
        index = self.number(depth) if self.random.random() < 0.5 else self.position() % 7
        return UOp(Ops.WHERE, (gate, index, UOp.const(Invalid))) + self.random.choice((0, 1))
