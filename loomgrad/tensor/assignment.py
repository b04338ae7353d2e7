"""Assignment: giving a Tensor another value.

Until there are writes in place, an assignment rebinds: the Tensor stands for the new value from now on, and
whatever was computed from the old one keeps that.
"""

from __future__ import annotations

from typing import Self

from loomgrad.dtype import Number, can_cast_lossless, holds
from loomgrad.errors import DTypeError, GradientError, ShapeError, UnsupportedError
from loomgrad.ir.shape import broadcast
from loomgrad.tensor.core import recording, unique
from loomgrad.tensor.data import is_numpy
from loomgrad.tensor.values import Values


class Assignment(Values):
    """`assign` and the in-place operators."""

    __slots__ = ()

    def assign(self, value: Self | Number | object) -> Self:
        """Take the value of another tensor, an array or a number, broadcast to this shape.

        **Raises** DTypeError where the conversion could lose something, UnsupportedError for views.
        """
        new = self._assignable(value)
        if self._is_view:
            raise UnsupportedError(
                "assigning through a view does not reach the tensor behind it yet",
                fix="assign to that tensor, e.g. x.assign(mask.where(new, x))",
            )
        if broadcast((new.shape, self.shape)) != self.shape:
            raise ShapeError(f"a value of shape {new.shape} cannot be assigned to {self.shape}")
        node = new.expand(self.shape)
        self._former = None
        if self._requires_grad:
            self.uop = unique(node.detach().uop if node._tracked else node.uop)
        else:
            self.uop, self._tracked = node._node, node._tracked
        return self

    def _assignable(self, value: object) -> Self:
        if isinstance(value, (bool, int, float)):
            if not holds(self.dtype, value) and not self.dtype.is_float:
                raise DTypeError(f"{value} is no {self.dtype.name}", fix="cast the tensor first")
            return type(self).in_memory(value, self.dtype, self.device)
        new = value if isinstance(value, type(self)) else type(self)(value, device=self.device)
        if new.dtype is self.dtype:
            return new
        if not (can_cast_lossless(new.dtype, self.dtype) or not is_typed(value)):
            raise DTypeError(
                f"{new.dtype.name} cannot be assigned to {self.dtype.name} without loss",
                fix=f"cast the value, e.g. value.cast(dtypes.{self.dtype.name})",
            )
        return new.cast(self.dtype)

    def _in_place(self, result: Self) -> Self:
        if result.dtype is not self.dtype:
            raise DTypeError(
                f"an in-place operation on {self.dtype.name} gives {result.dtype.name}",
                fix="write x = x + y, or cast the operand",
            )
        if self._requires_grad and recording.get():
            raise GradientError(
                "a tensor that requires a gradient cannot be changed in place",
                fix="write x = x + y, or use `with no_grad():`",
            )
        return self.assign(result)

    def __iadd__(self, other: Self | Number) -> Self:
        return self._in_place(self + other)

    def __isub__(self, other: Self | Number) -> Self:
        return self._in_place(self - other)

    def __imul__(self, other: Self | Number) -> Self:
        return self._in_place(self * other)

    def __itruediv__(self, other: Self | Number) -> Self:
        return self._in_place(self / other)


def is_typed(value: object) -> bool:
    """Whether a value says its dtype itself, as Tensors and arrays do; nested lists of numbers do not."""
    return isinstance(value, Values) or is_numpy(value)
