"""Functions of each element by itself, beyond the vocabulary that nodes share."""

from __future__ import annotations

import math
from typing import Self

from loomgrad.dtype import Number, dtypes, least_upper_dtype
from loomgrad.errors import DTypeError
from loomgrad.ir.opcode import Ops
from loomgrad.tensor.casts import Casts
from loomgrad.tensor.core import Core
from loomgrad.tensor.data import is_number, is_numpy

LARGEST_UNROLLED_POWER = 64


def is_operand(value: object) -> bool:
    """Whether a tensor can be compared with this."""
    return isinstance(value, (Core, bool, int, float)) or is_numpy(value)


class Elementwise(Casts):
    """Comparisons for equality, powers."""

    __slots__ = ()

    # ---- arithmetic by name

    def add(self, other: Self | Number) -> Self:
        """x + y."""
        return self + other

    def sub(self, other: Self | Number) -> Self:
        """x - y."""
        return self - other

    def mul(self, other: Self | Number) -> Self:
        """x * y."""
        return self * other

    def div(self, other: Self | Number) -> Self:
        """x / y."""
        return self / other

    def neg(self) -> Self:
        """-x."""
        return -self

    def logical_not(self) -> Self:
        """Whether each element is 0."""
        return ~self.bool()

    # ---- comparison

    def __eq__(self, other: object) -> Self:  # type: ignore[override]  # elementwise
        if not is_operand(other):
            return NotImplemented
        return self._compare(Ops.CMPEQ, other)  # type: ignore[arg-type]

    def __ne__(self, other: object) -> Self:  # type: ignore[override]  # elementwise
        if not is_operand(other):
            return NotImplemented
        return self._compare(Ops.CMPNE, other)  # type: ignore[arg-type]

    __hash__ = object.__hash__

    def eq(self, other: Self | Number) -> Self:
        """Whether the values are equal."""
        return self._compare(Ops.CMPEQ, other)

    def ne(self, other: Self | Number) -> Self:
        """Whether the values differ."""
        return self._compare(Ops.CMPNE, other)

    def lt(self, other: Self | Number) -> Self:
        """x < y."""
        return self < other

    def le(self, other: Self | Number) -> Self:
        """x <= y."""
        return self <= other

    def gt(self, other: Self | Number) -> Self:
        """x > y."""
        return self > other

    def ge(self, other: Self | Number) -> Self:
        """x >= y."""
        return self >= other

    def isnan(self) -> Self:
        """Whether each element is NaN."""
        return self._compare(Ops.CMPNE, self)

    def isinf(self) -> Self:
        """Whether each element is infinite, of either sign."""
        if not self.dtype.is_float:
            return self.isnan()
        return self.eq(math.inf) | self.eq(-math.inf)

    def isfinite(self) -> Self:
        """Whether each element is a number that is not infinite."""
        return ~(self.isnan() | self.isinf())

    def isclose(
        self,
        other: Self | Number,
        rtol: float = 1e-5,
        atol: float = 1e-8,
        equal_nan: bool = False,
    ) -> Self:
        """Whether |x - y| <= atol + rtol * |y|; infinities are close to themselves, NaN only with `equal_nan`."""
        x, y = self.cast(dtypes.float64), self._lift(other).cast(dtypes.float64)
        near = x.isfinite() & y.isfinite() & ((x - y).abs() <= y.abs() * rtol + atol)
        close = x.eq(y) | near
        return close | (x.isnan() & y.isnan()) if equal_nan else close

    # ---- signs and limits

    def abs(self) -> Self:
        """The size of each element; its gradient at 0 is 0."""
        if self.dtype.is_unsigned or self.dtype.is_bool:
            return self._unchanged()
        positive = (self < 0).where(-self, self)
        if not self.dtype.is_float:
            return positive
        # The square is +0 for both zeros and keeps NaN; as a constant it has no slope.
        rest = self._make(Ops.DETACH)
        return (self < 0).where(-self, (self > 0).where(self, rest * rest))

    def __abs__(self) -> Self:
        return self.abs()

    def sign(self) -> Self:
        """-1, 0 or 1 by the sign of each element; NaN stays.  No gradient."""
        value = self._derived(self.uop.alu(Ops.DETACH)) if self.dtype.is_float else self
        nonzero = (value < 0).where(value._number(-1), value._number(1))
        nonzero = (value > 0).where(value._number(1), nonzero)
        return (value.eq(0) | value.ne(value)).where(value, nonzero)

    def _number(self, value: Number) -> Self:
        """A constant of this dtype; -1 wraps in an unsigned one."""
        return self._constant(value).cast(self.dtype)

    def clip(self, low: Self | Number | None = None, high: Self | Number | None = None) -> Self:
        """Each element, but at least `low` and at most `high`."""
        result = self._unchanged()
        if low is not None:
            result = result.maximum(low)
        return result if high is None else result.minimum(high)

    clamp = clip

    def ceil(self) -> Self:
        """The least integer value that is at least x."""
        return -((-self).floor()) if self.dtype.is_float else self._unchanged()

    # ---- powers

    def square(self) -> Self:
        """x * x."""
        return self * self

    def rsqrt(self) -> Self:
        """1 / sqrt(x)."""
        return self.sqrt().reciprocal()

    def pow(self, exponent: Self | Number, reverse: bool = False) -> Self:
        """x**exponent, or exponent**x if `reverse`; NaN where the result would be complex.

        **Raises** DTypeError for an int to a negative int, whose result is no int.
        """
        if reverse:
            base = self._lift(exponent)
            return base._as_strong(least_upper_dtype(base.dtype, self.dtype)).pow(self)
        if not is_number(exponent):
            return self._general_power(self._lift(exponent))
        if isinstance(exponent, int) and not self.dtype.is_float:
            return self._integer_power(exponent)
        if exponent == 0.5:
            return self.sqrt()
        if exponent in (1, 2, 3, -1) and self.dtype.is_float:
            whole = self._integer_power(abs(int(exponent)))
            return whole if exponent > 0 else whole.reciprocal()
        return self._general_power(self._lift(exponent))

    def _integer_power(self, exponent: int) -> Self:
        if exponent < 0:
            raise DTypeError(
                f"{self.dtype.name} to the power {exponent} is not an integer",
                fix="cast the base first, e.g. x.float() ** -1",
            )
        base = self.cast(dtypes.default_int) if self.dtype.is_bool else self._unchanged()
        if exponent > LARGEST_UNROLLED_POWER:
            return base._general_power(base._lift(exponent))
        result: Self | None = None
        while exponent:
            if exponent & 1:
                result = base if result is None else result * base
            exponent >>= 1
            if exponent:
                base = base * base
        return base * 0 + 1 if result is None else result

    def _general_power(self, exponent: Self) -> Self:
        base = self.cast(dtypes.default_int) if self.dtype.is_bool else self
        return base._binary(
            Ops.POW,
            exponent.cast(dtypes.default_int) if exponent.dtype.is_bool else exponent,
        )

    def __pow__(self, exponent: Self | Number) -> Self:
        return self.pow(exponent)

    def __rpow__(self, base: Number) -> Self:
        return self.pow(base, reverse=True)
