"""The words of arithmetic, comparison and choice, for `UOp` and `Tensor`."""

from __future__ import annotations

from typing import Self

from loomgrad.dtype import DType, dtypes, least_upper_dtype, least_upper_float
from loomgrad.errors import ArgumentError, DTypeError
from loomgrad.ir.opcode import Op, Ops
from loomgrad.ir.operand import Number, Operand, check_broadcast, promoted


class Arithmetic(Operand):
    """Operators, comparisons, choice and functions of one operand."""

    __slots__ = ()

    # ---- arithmetic

    def __add__(self, other: Self | Number) -> Self:
        return self._logic(Ops.ADD, Ops.OR, other)

    def __radd__(self, other: Number) -> Self:
        return self._logic(Ops.ADD, Ops.OR, other, swapped=True)

    def __sub__(self, other: Self | Number) -> Self:
        return self._subtract(other, swapped=False)

    def __rsub__(self, other: Number) -> Self:
        return self._subtract(other, swapped=True)

    def _subtract(self, value: Self | Number, swapped: bool) -> Self:
        other = self._lift(value)
        if self.dtype.is_bool and other.dtype.is_bool:
            raise DTypeError(
                "bools cannot be subtracted", fix="use a ^ b, or cast one of them first"
            )
        return self._binary(Ops.SUB, other, swapped)

    def __mul__(self, other: Self | Number) -> Self:
        return self._logic(Ops.MUL, Ops.AND, other)

    def __rmul__(self, other: Number) -> Self:
        return self._logic(Ops.MUL, Ops.AND, other, swapped=True)

    def __neg__(self) -> Self:
        if self.dtype.is_bool:
            raise DTypeError("a bool has no negative", fix="use ~x")
        return self._make(Ops.NEG)

    def __truediv__(self, other: Self | Number) -> Self:
        return self._divide(other, swapped=False)

    def __rtruediv__(self, other: Number) -> Self:
        return self._divide(other, swapped=True)

    def _divide(self, value: Self | Number, swapped: bool) -> Self:
        other = self._lift(value)
        dtype = least_upper_float(least_upper_dtype(self.dtype, other.dtype))
        numerator, divisor = (other, self) if swapped else (self, other)
        return numerator._as(dtype)._binary(Ops.FDIV, divisor._as(dtype))

    def _as(self, dtype: DType) -> Self:
        """Cast, but leave a weak value beside a float as it is."""
        return self if self.dtype.is_weak and dtype.is_float else self.cast(dtype)

    def __and__(self, other: Self | Number) -> Self:
        return self._bits(Ops.AND, other)

    __rand__ = __and__

    def __or__(self, other: Self | Number) -> Self:
        return self._bits(Ops.OR, other)

    __ror__ = __or__

    def __xor__(self, other: Self | Number) -> Self:
        return self._bits(Ops.XOR, other)

    __rxor__ = __xor__

    def _bits(self, op: Op, value: Self | Number) -> Self:
        other = self._lift(value)
        if self.dtype.is_float or other.dtype.is_float:
            raise DTypeError(
                f"{op.name} needs ints or bools", a=self.dtype, b=other.dtype, fix="cast first"
            )
        return self._binary(op, other)

    def __invert__(self) -> Self:
        if self.dtype.is_bool:
            return self._make(Ops.CMPNE, (self._constant(True),))
        return self._bits(
            Ops.XOR, -1 if not self.dtype.is_unsigned else int(dtypes.max(self.dtype))
        )

    def _integers(self, op: Op, other: Self, swapped: bool) -> Self:
        """Bools count as default ints here."""
        left = self.cast(dtypes.default_int) if self.dtype.is_bool else self
        right = other.cast(dtypes.default_int) if other.dtype.is_bool else other
        return left._binary(op, right, swapped)

    def __lshift__(self, other: Self | Number) -> Self:
        return self._shift(Ops.SHL, other)

    def __rshift__(self, other: Self | Number) -> Self:
        return self._shift(Ops.SHR, other)

    def _shift(self, op: Op, places: Self | Number) -> Self:
        """Tensors of negative counts give 0; a negative number is a mistake that can be told now."""
        if isinstance(places, int) and places < 0:
            raise ArgumentError(
                f"{op.name} by a negative number of places, {places}",
                fix=f"use {'>>' if op is Ops.SHL else '<<'} {-places}",
            )
        other = self._lift(places)
        if self.dtype.is_float or other.dtype.is_float:
            raise DTypeError(f"{op.name} needs ints", a=self.dtype, b=other.dtype, fix="cast first")
        return self._integers(op, other, swapped=False)

    def __rlshift__(self, other: Number) -> Self:
        return self._lift(other)._committed(self.dtype) << self

    def __rrshift__(self, other: Number) -> Self:
        return self._lift(other)._committed(self.dtype) >> self

    def _committed(self, dtype: DType) -> Self:
        """A weak value in the dtype that it meets."""
        return self.cast(dtype) if self.dtype.is_weak else self

    # ---- comparison and choice

    def __lt__(self, other: Self | Number) -> Self:
        return self._compare(Ops.CMPLT, other)

    def __gt__(self, other: Self | Number) -> Self:
        return self._compare(Ops.CMPLT, other, swapped=True)

    def __le__(self, other: Self | Number) -> Self:
        return self._at_most(other, swapped=False)

    def __ge__(self, other: Self | Number) -> Self:
        return self._at_most(other, swapped=True)

    def _at_most(self, value: Self | Number, swapped: bool) -> Self:
        """a <= b.  For floats not the negation of b < a, which is true beside NaN."""
        other = self._lift(value)
        if self.dtype.is_float or other.dtype.is_float:
            less = self._compare(Ops.CMPLT, other, swapped)
            return less._make(Ops.OR, (self._compare(Ops.CMPEQ, other, swapped),))
        return ~self._compare(Ops.CMPLT, other, not swapped)

    def where(self, chosen: Self | Number, otherwise: Self | Number) -> Self:
        """`chosen` where this is true, `otherwise` elsewhere.  Shapes broadcast."""
        if not self.dtype.is_bool:
            return self._compare(Ops.CMPNE, 0).where(chosen, otherwise)
        like = next((v for v in (chosen, otherwise) if isinstance(v, Operand)), None)
        if like is None:
            x, y = self._constant(chosen), self._constant(otherwise)  # type: ignore[arg-type]
            dtype = least_upper_dtype(x.dtype, y.dtype)
            strong = {dtypes.weakint: dtypes.default_int, dtypes.weakfloat: dtypes.default_float}
            x, y = (value.cast(strong.get(dtype, dtype)) for value in (x, y))
        else:
            x, y = (like._lift(value) for value in (chosen, otherwise))
        check_broadcast(Ops.WHERE, self, x, y)
        x, y = promoted(Ops.WHERE, x, y)
        return self._make(Ops.WHERE, (x, y))

    def maximum(self, other: Self | Number) -> Self:
        """The larger of the two; NaN if either is."""
        return self._logic(Ops.MAX, Ops.OR, other)

    def minimum(self, value: Self | Number) -> Self:
        """The smaller of the two; NaN if either is."""
        other = self._lift(value)
        dtype = least_upper_dtype(self.dtype, other.dtype)
        if dtype.is_bool:
            return self & other
        if dtype.is_float or dtype.is_weak:
            return -((-self._as(dtype)).maximum(-other._as(dtype)))
        a, b = (~operand._as_strong(dtype) for operand in (self, other))
        return ~a.maximum(b)

    def _as_strong(self, dtype: DType) -> Self:
        return self.cast(dtype)

    # ---- functions of one operand

    def exp(self) -> Self:
        """e**x."""
        return self._float(Ops.EXP)

    def exp2(self) -> Self:
        """2**x."""
        return self._float(Ops.EXP2)

    def log(self) -> Self:
        """Natural logarithm; -inf at 0, NaN below."""
        return self._float(Ops.LOG)

    def log2(self) -> Self:
        """Logarithm to the base 2."""
        return self._float(Ops.LOG2)

    def sin(self) -> Self:
        """Sine of x in radians."""
        return self._float(Ops.SIN)

    def cos(self) -> Self:
        """Cosine of x in radians."""
        return self._float(Ops.COS)

    def tan(self) -> Self:
        """Tangent of x in radians."""
        return self.sin() / self.cos()

    def tanh(self) -> Self:
        """Hyperbolic tangent."""
        return self._float(Ops.TANH)

    def sqrt(self) -> Self:
        """Square root; NaN below 0."""
        return self._float(Ops.SQRT)

    def reciprocal(self) -> Self:
        """1 / x."""
        return self._float(Ops.RECIPROCAL)

    def trunc(self) -> Self:
        """x without its fraction."""
        return self._make(Ops.TRUNC) if self.dtype.is_float else self._unchanged()

    def floor(self) -> Self:
        """The largest integer value that is at most x."""
        whole = self.trunc()
        return (self < whole).where(whole - 1, whole) if self.dtype.is_float else whole
