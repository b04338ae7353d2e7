"""The names that users know for movement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, Unpack

from loomgrad.errors import ArgumentError, ShapeError
from loomgrad.ir.arguments import axis_argument
from loomgrad.ir.shape import Shape, broadcast
from loomgrad.tensor.activations import Activations
from loomgrad.tensor.spelling import Axes, OneAxis, OnlyAxes, other_names


class Movement(Activations):
    """Views: the same elements, seen through other shapes.  Nothing is copied."""

    __slots__ = ()

    def view(self, *sizes: int | Sequence[int]) -> Self:
        """`reshape`."""
        return self.reshape(*sizes)

    @property
    def T(self) -> Self:
        """The last two axes exchanged; of fewer axes, all as it is."""
        return self.transpose() if self.ndim > 1 else self._unmoved()

    def flatten(self, first: int = 0, last: int = -1) -> Self:
        """The axes from `first` to `last` as one."""
        if not self.shape:
            return self.reshape(1)
        begin, end = axis_argument(first, self.shape), axis_argument(last, self.shape)
        return self.reshape(*self.shape[:begin], -1, *self.shape[end + 1 :])

    @other_names
    def unsqueeze(self, axis: int, **other: Unpack[OneAxis]) -> Self:
        """A new axis of size 1 in front of `axis`."""
        place = axis_argument(axis, (*self.shape, 1))
        return self.reshape(*self.shape[:place], 1, *self.shape[place:])

    @other_names
    def squeeze(self, axis: int | None = None, **other: Unpack[OneAxis]) -> Self:
        """Without its axes of size 1, or without this one if its size is 1."""
        if axis is None:
            return self.reshape(tuple(size for size in self.shape if size != 1))
        place = axis_argument(axis, self.shape)
        if self.shape[place] != 1:
            return self._unmoved()
        return self.reshape(self.shape[:place] + self.shape[place + 1 :])

    @other_names
    def flip(
        self, *axes: int | Sequence[int], axis: Axes = None, **other: Unpack[OnlyAxes]
    ) -> Self:
        """The named axes reversed: `x.flip(0, 1)`, `x.flip(axis=(0, 1))`."""
        if axis is not None and axes:
            raise ArgumentError("flip() got axes by place and by name", fix="give one of them")
        return super().flip(*axes if axis is None else (axis,))

    def broadcast_to(self, *sizes: int | Sequence[int]) -> Self:
        """`expand`."""
        return self.expand(*sizes)

    def expand_as(self, other: Self) -> Self:
        """Repeated to the shape of another tensor."""
        return self.expand(other.shape)

    def broadcasted(self, other: Self) -> tuple[Self, Self]:
        """Both tensors at the shape that they broadcast to."""
        shape = broadcast_shape(self.shape, other.shape)
        return self.expand(shape), other.expand(shape)


def broadcast_shape(*shapes: Shape) -> Shape:
    """What shapes broadcast to.  Raises ShapeError where they do not."""
    found = broadcast(shapes)
    if found is None:
        raise ShapeError(
            f"shapes {' and '.join(map(str, shapes))} do not broadcast",
            fix="aligned at the right, two sizes must be equal or one of them 1",
        )
    return found
