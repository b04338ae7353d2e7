"""The operators of patterns, so that a rule reads like algebra: `(x // c0) // c1`, `b.where(x, 0)`.

Unlike the vocabulary of nodes these know no dtypes and promote nothing: each word is one operation.  `~b` is
the negation of a bool, CMPNE(b, True).  There is no `<=`, because for floats and ints it is different nodes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from loomgrad.dtype import DType, Number
from loomgrad.ir.opcode import Op, Ops


class PatternAlgebra(ABC):
    """Operators for a class that can say what a pattern with this as its first source is."""

    __slots__ = ()

    @abstractmethod
    def alu(self, op: Op, *others: Self | Number) -> Self:
        """The pattern of `op` on this and others; both orders match where `op` commutes."""

    @abstractmethod
    def structure(
        self, op: Op, *others: Self, arg: object = None, allow_more: bool = False
    ) -> Self:
        """The pattern of `op` with this and others as its first sources, in this order."""

    @abstractmethod
    def literal(self, value: Number) -> Self:
        """The pattern of a constant of this value."""

    @abstractmethod
    def cast(self, dtype: DType | None = None) -> Self:
        """A CAST of this; in a rule's result, without `dtype`, to the dtype of the replaced node."""

    @abstractmethod
    def bitcast(self, dtype: DType | None = None) -> Self:
        """A BITCAST of this."""

    # ---- arithmetic

    def __add__(self, other: Self | Number) -> Self:
        return self.alu(Ops.ADD, other)

    def __radd__(self, other: Number) -> Self:
        return self.literal(other).alu(Ops.ADD, self)

    def __sub__(self, other: Self | Number) -> Self:
        return self.alu(Ops.SUB, other)

    def __rsub__(self, other: Number) -> Self:
        return self.literal(other).alu(Ops.SUB, self)

    def __mul__(self, other: Self | Number) -> Self:
        return self.alu(Ops.MUL, other)

    def __rmul__(self, other: Number) -> Self:
        return self.literal(other).alu(Ops.MUL, self)

    def __truediv__(self, other: Self | Number) -> Self:
        return self.alu(Ops.FDIV, other)

    def __rtruediv__(self, other: Number) -> Self:
        return self.literal(other).alu(Ops.FDIV, self)

    def __floordiv__(self, other: Self | Number) -> Self:
        return self.alu(Ops.FLOORDIV, other)

    def __rfloordiv__(self, other: Number) -> Self:
        return self.literal(other).alu(Ops.FLOORDIV, self)

    def __mod__(self, other: Self | Number) -> Self:
        return self.alu(Ops.FLOORMOD, other)

    def __rmod__(self, other: Number) -> Self:
        return self.literal(other).alu(Ops.FLOORMOD, self)

    def __pow__(self, other: Self | Number) -> Self:
        return self.alu(Ops.POW, other)

    def __neg__(self) -> Self:
        return self.alu(Ops.NEG)

    # ---- bits and logic

    def __and__(self, other: Self | Number) -> Self:
        return self.alu(Ops.AND, other)

    def __or__(self, other: Self | Number) -> Self:
        return self.alu(Ops.OR, other)

    def __xor__(self, other: Self | Number) -> Self:
        return self.alu(Ops.XOR, other)

    def __lshift__(self, other: Self | Number) -> Self:
        return self.alu(Ops.SHL, other)

    def __rshift__(self, other: Self | Number) -> Self:
        return self.alu(Ops.SHR, other)

    def __invert__(self) -> Self:
        return self.alu(Ops.CMPNE, True)

    # ---- comparison and choice

    def __lt__(self, other: Self | Number) -> Self:
        return self.alu(Ops.CMPLT, other)

    def __gt__(self, other: Self | Number) -> Self:
        first = self.literal(other) if isinstance(other, (bool, int, float)) else other
        return first.alu(Ops.CMPLT, self)

    def eq(self, other: Self | Number) -> Self:
        """CMPEQ; `==` compares patterns."""
        return self.alu(Ops.CMPEQ, other)

    def ne(self, other: Self | Number) -> Self:
        """CMPNE; `!=` compares patterns."""
        return self.alu(Ops.CMPNE, other)

    def where(self, chosen: Self | Number, otherwise: Self | Number) -> Self:
        """`chosen` where this is true, `otherwise` elsewhere."""
        return self.alu(Ops.WHERE, chosen, otherwise)

    def maximum(self, other: Self | Number) -> Self:
        """The larger of the two."""
        return self.alu(Ops.MAX, other)

    def mulacc(self, factor: Self | Number, summand: Self | Number) -> Self:
        """self * factor + summand with one rounding."""
        return self.alu(Ops.MULACC, factor, summand)

    def cdiv(self, other: Self | Number) -> Self:
        """Division toward zero."""
        return self.alu(Ops.CDIV, other)

    def cmod(self, other: Self | Number) -> Self:
        """The remainder of division toward zero."""
        return self.alu(Ops.CMOD, other)

    # ---- functions of one operand

    def exp(self) -> Self:
        """e**x."""
        return self.alu(Ops.EXP)

    def exp2(self) -> Self:
        """2**x."""
        return self.alu(Ops.EXP2)

    def log(self) -> Self:
        """Natural logarithm."""
        return self.alu(Ops.LOG)

    def log2(self) -> Self:
        """Logarithm to the base 2."""
        return self.alu(Ops.LOG2)

    def sin(self) -> Self:
        """Sine."""
        return self.alu(Ops.SIN)

    def cos(self) -> Self:
        """Cosine."""
        return self.alu(Ops.COS)

    def tanh(self) -> Self:
        """Hyperbolic tangent."""
        return self.alu(Ops.TANH)

    def sqrt(self) -> Self:
        """Square root."""
        return self.alu(Ops.SQRT)

    def reciprocal(self) -> Self:
        """1 / x."""
        return self.alu(Ops.RECIPROCAL)

    def trunc(self) -> Self:
        """x without its fraction."""
        return self.alu(Ops.TRUNC)

    # ---- structure

    def reduce(self, op: Op | None = None, *ranges: Self) -> Self:
        """A REDUCE of this by `op`; over exactly these ranges if any are given, else over any."""
        arg = None if op is None else {"op": op}
        return self.structure(Ops.REDUCE, *ranges, arg=arg, allow_more=not ranges)

    def index(self, *indices: Self) -> Self:
        """An INDEX of this, by exactly these indices."""
        return self.structure(Ops.INDEX, *indices)

    def load(self, *alternative_and_gate: Self) -> Self:
        """A LOAD of this; with any alternative and gate if none are given."""
        more = not alternative_and_gate
        return self.structure(Ops.LOAD, *alternative_and_gate, allow_more=more)

    def store(self, value: Self) -> Self:
        """A STORE of `value` at this, gated or not."""
        return self.structure(Ops.STORE, value, allow_more=True)

    def after(self, *effects: Self) -> Self:
        """An AFTER of this; of exactly these effects if any are given, else of any."""
        return self.structure(Ops.AFTER, *effects, allow_more=not effects)

    def end(self, *ranges: Self) -> Self:
        """An END of this; of exactly these ranges if any are given, else of any."""
        return self.structure(Ops.END, *ranges, allow_more=not ranges)
