"""What a class must say to get the shared vocabulary, and how two operands meet.

Operands are promoted here: strong dtypes to their least upper bound, while a Python number stays weak.  Mistakes
raise here, at the user's line, with both shapes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self, TypeVar

from loomgrad.dtype import DType, dtypes, holds, least_upper_dtype, least_upper_float
from loomgrad.errors import ShapeError
from loomgrad.ir.opcode import Op, Ops
from loomgrad.ir.shape import Shape, broadcast

Number = bool | int | float
V = TypeVar("V", bound="Operand")


class Operand(ABC):
    """Something that elementwise operations take: a node or a Tensor."""

    __slots__ = ()

    @property
    @abstractmethod
    def shape(self) -> Shape:
        """Sizes of the axes."""

    dtype: DType

    @abstractmethod
    def _make(self, op: Op, others: tuple[Self, ...] = (), arg: object = None) -> Self:
        """The node `op` of this and others, as they are."""

    @abstractmethod
    def _move(self, op: Op, arg: tuple[int, ...] | None, *sizes: Shape) -> Self:
        """The movement `op` of this, with its axes or sizes."""

    def _unmoved(self) -> Self:
        """What a movement that moves nothing gives; a node is itself."""
        return self

    def _unchanged(self) -> Self:
        """What a function that changes nothing gives; a node is itself."""
        return self

    @abstractmethod
    def _constant(self, value: Number) -> Self:
        """A weak constant."""

    @abstractmethod
    def _fold(self, op: Op, count: int) -> Self:
        """REDUCE of the first `count` axes."""

    # ---- elementwise: how operands meet

    def _lift(self, value: Self | Number) -> Self:
        """A Python number as a weak constant; it must fit the dtype it meets."""
        if not isinstance(value, (bool, int, float)):
            return value
        integer = isinstance(value, int) and not isinstance(value, bool)
        if (
            integer
            and self.dtype.is_int
            and not self.dtype.is_weak
            and not holds(self.dtype, value)
        ):
            raise OverflowError(
                f"{value} does not fit {self.dtype}, which holds {dtypes.min(self.dtype)} to "
                f"{dtypes.max(self.dtype)}; cast the tensor first, e.g. x.cast(dtypes.int64)"
            )
        return self._constant(value)

    def _binary(self, op: Op, value: Self | Number, swapped: bool = False) -> Self:
        other = self._lift(value)
        first, second = (other, self) if swapped else (self, other)
        check_broadcast(op, first, second)
        first, second = promoted(op, first, second)
        return first._make(op, (second,))

    def _compare(self, op: Op, value: Self | Number, swapped: bool = False) -> Self:
        return self._binary(op, value, swapped)

    def _logic(self, op: Op, boolean: Op, value: Self | Number, swapped: bool = False) -> Self:
        """`op` on numbers, `boolean` on bools."""
        other = self._lift(value)
        both = self.dtype.is_bool and other.dtype.is_bool
        return self._binary(boolean if both else op, other, swapped)

    def _float(self, op: Op) -> Self:
        """`op` of floats; integers become the least float first."""
        operand = self if self.dtype.is_float else self.cast(least_upper_float(self.dtype))
        return operand._make(op)

    def cast(self, dtype: DType) -> Self:
        """The same values as `dtype`: ints wrap, floats round, floats saturate into ints."""
        return self._unchanged() if dtype is self.dtype else self._make(Ops.CAST, (), dtype)

    def bitcast(self, dtype: DType) -> Self:
        """The same bits as `dtype`."""
        return self._unmoved() if dtype is self.dtype else self._make(Ops.BITCAST, (), dtype)


def promoted(op: Op, first: V, second: V) -> tuple[V, V]:
    """Both operands in the dtype they share; weak ones stay weak."""
    if first.dtype is second.dtype:
        return first, second
    if op in (Ops.SHL, Ops.SHR):
        return first, second
    dtype = least_upper_dtype(first.dtype, second.dtype)
    a, b = (x if x.dtype.is_weak and not dtype.is_bool else x.cast(dtype) for x in (first, second))
    return a, b


def check_broadcast(op: Op, *operands: Operand) -> None:
    shapes = [operand.shape for operand in operands]
    if broadcast(shapes) is not None:
        return
    raise ShapeError(
        f"{op.name} of shapes {' and '.join(map(str, shapes))} does not broadcast",
        fix="aligned at the right, two sizes must be equal or one of them 1; use reshape to add an axis",
    )
