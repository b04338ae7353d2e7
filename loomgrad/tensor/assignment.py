"""Writes: assignment, `x[...] = value` and the in-place operators.

Storage is never changed.  A write gives a Tensor another value: what was computed from the old one keeps that.  A
write into a view goes back along the steps of the view and gives every Tensor on the way, up to the root, its new
value (`views.py`).  All writes end in `_write`.
"""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Self

from loomgrad.dtype import DType, Number, can_cast_lossless, holds
from loomgrad.errors import (
    BroadcastWriteError,
    DeviceError,
    DTypeError,
    GradientError,
    LossyWriteError,
    ShapeError,
)
from loomgrad.ir.shape import Shape, broadcast
from loomgrad.ir.uop import UOp
from loomgrad.tensor.core import Core, apart, is_storage, recording, unique
from loomgrad.tensor.data import flattened, is_numpy
from loomgrad.tensor.reading import Reading
from loomgrad.tensor.selection import Mask, Selection, selection
from loomgrad.tensor.views import View


class Assignment(Reading):
    """Writing into Tensors and their views."""

    __slots__ = ()

    def assign(self, value: Self | Number | object) -> Self:
        """Take the value of another tensor, an array or a number, broadcast to this shape.

        A tensor that requires a gradient stays a leaf; its new value is a constant to gradients.

        **Raises** LossyWriteError where the conversion could lose something, BroadcastWriteError for a view whose
        elements stand at several places, GradientError for a view of a tensor that requires a gradient.
        """
        if self._view is not None:
            self._check_writable()
        new = self._assignable(value)
        self._put(new._fitted(self.shape))
        return self

    def __setitem__(self, key: object, value: object) -> None:
        """Write into `x[key]`: `x[key] = value` and `x[key] += value`, with NumPy's rules.

        Of several writes to one element the last one stands.  **Raises** as `assign`.
        """
        chosen = selection(self, key)
        if chosen is None:
            self._write_view(self[key], value)
        elif isinstance(chosen, Mask):
            self._write_masked(chosen, value)
        else:
            self._write_selected(chosen, self._assignable(value))

    def _write_view(self, view: Self, value: object) -> None:
        view._check_writable()
        if isinstance(value, Assignment) and _is_written(value, view):
            return
        view._put(view._assignable(value)._fitted(view.shape))

    def _write_masked(self, chosen: Mask[Self], value: object) -> None:
        """A choice between the value and what is there; by positions if each chosen element has its own value."""
        view = self[chosen.basic]
        view._check_writable()
        new = self._assignable(value)
        sizes = chosen.widened(_without_leading(new.shape, view.ndim - chosen.rank + 1))
        if sizes is None:
            self._write_selected(chosen.selected(), new)
        else:
            fitted = new.reshape(sizes)._fitted(view.shape)
            view._put(chosen.mask.where(fitted, view._present()))

    def _write_selected(self, chosen: Selection[Self], value: Self) -> None:
        view = self[chosen.basic]
        view = view.permute(chosen.order).reshape(chosen.count, *chosen.rest)
        view._check_writable()
        view._put(chosen.scatter(view._present(), value._fitted(chosen.slot)))

    # ---- what is written

    def _assignable(self, value: object) -> Self:
        """A value in this dtype.  Raises where it is not one without loss."""
        if isinstance(value, (bool, int, float)):
            _check_number(value, self.dtype)
            return type(self).in_memory(value, self.dtype, self.device)
        if not isinstance(value, Reading) and not is_numpy(value):
            for number in flattened(value)[0]:
                _check_number(number, self.dtype)
            return type(self)(value, dtype=self.dtype, device=self.device)
        new = value if isinstance(value, type(self)) else type(self)(value, device=self.device)
        if None not in (new.device, self.device) and new.device != self.device:
            raise DeviceError(
                f"a tensor on {new.device} cannot be written to one on {self.device}",
                fix=f'bring it there, e.g. value.to("{self.device}")',
            )
        if not can_cast_lossless(new.dtype, self.dtype):
            raise LossyWriteError(
                f"{new.dtype.name} cannot be assigned to {self.dtype.name} without loss",
                fix=f"cast the value, e.g. value.cast(dtypes.{self.dtype.name})",
            )
        return new.cast(self.dtype)

    def _fitted(self, shape: Shape) -> Self:
        """Broadcast to the shape of a slot; leading axes of size 1 that it does not have are dropped."""
        sizes = _without_leading(self.shape, len(shape))
        if broadcast((sizes, shape)) != shape:
            raise ShapeError(
                f"a value of shape {self.shape} cannot be assigned to {shape}",
                fix="sizes must be equal, aligned at the right, or 1 in the value",
            )
        return self.reshape(sizes).expand(shape)

    # ---- where it is written

    def _check_writable(self) -> None:
        """Raises where a write would reach a leaf of gradients, or elements that are not one tensor's own."""
        view = self._view
        if view is not None and view.is_broadcast and self.numel():
            raise BroadcastWriteError(
                f"this view of shape {self.shape} shows elements at several places",
                fix="write to the tensor that was expanded, or to a copy: x.contiguous()",
            )
        reached: list[Core | None] = [self]
        if view is not None and not view.is_detached:
            reached += [view.root, *(watched() for watched in view.between)]
        if recording.get() and any(x is not None and x._requires_grad for x in reached):
            raise GradientError(
                "a tensor that requires a gradient cannot be changed in place",
                fix="write x = x + y, or use `with no_grad():`",
            )

    def _put(self, value: Self) -> None:
        if value.uop is not self.uop or self._view is not None:
            self._write(value._node, value._tracked or value._requires_grad)

    def _write(self, written: UOp, tracked: bool) -> None:
        """Give this tensor, and whatever it is a view of, the new value."""
        tracked = tracked and recording.get()
        if self._view is not None:
            self._write_back(self._view, written, tracked)
            self._view = replace(self._view, seen=weakref.ref(self._view.root.uop))
        _rebind(self, written, tracked)

    def _write_back(self, view: View, written: UOp, tracked: bool) -> None:
        """Each step back starts from the present value there: another view may have written meanwhile."""
        if view.is_broadcast:  # then nothing is written, or `_check_writable` had raised
            return
        root = view.root
        values = [root._node]
        for step in view.path[:-1]:
            values.append(step.apply(values[-1]))
        holders = [root, *(watched() for watched in view.between)]
        history = tracked or (recording.get() and (root._tracked or root._requires_grad))
        new = written
        for place in reversed(range(len(values))):
            # Writing no elements, too, makes the views in between show what is there now.
            new = (
                view.path[place].undo(new, values[place], root.device)
                if self.numel()
                else values[place]
            )
            holder = holders[place]
            if holder is not None and (place or self.numel()):
                _rebind(holder, new, history and not view.is_detached)

    def _receive(self, stored: UOp) -> None:
        """Stand for a value in storage, which the root of a view gets as well."""
        if self._view is None:
            self._take(stored)
        else:
            self._check_writable()
            self._write(stored, False)

    def _present(self) -> Self:
        """This view of what its root holds now; the tensor itself shows what was there when it was made."""
        view = self._view
        if view is None:
            return self
        value = view.root._node
        for step in view.path:
            value = step.apply(value)
        return type(self)._of(value, self.device, view.root._tracked and recording.get())

    # ---- operators

    def _in_place(self, result: Self) -> Self:
        if result.dtype is not self.dtype:
            raise LossyWriteError(
                f"an in-place operation on {self.dtype.name} gives {result.dtype.name}",
                fix="write x = x + y, or cast the operand",
            )
        self._check_writable()
        return self.assign(result)

    def __iadd__(self, other: Self | Number) -> Self:
        return self._in_place(self + other)

    def __isub__(self, other: Self | Number) -> Self:
        return self._in_place(self - other)

    def __imul__(self, other: Self | Number) -> Self:
        return self._in_place(self * other)

    def __itruediv__(self, other: Self | Number) -> Self:
        return self._in_place(self / other)

    def __ifloordiv__(self, other: Self | Number) -> Self:
        return self._in_place(self // other)

    def __imod__(self, other: Self | Number) -> Self:
        return self._in_place(self % other)

    def __ipow__(self, other: Self | Number) -> Self:
        return self._in_place(self**other)

    def __imatmul__(self, other: Self | Number) -> Self:
        return self._in_place(self @ other)

    def __iand__(self, other: Self | Number) -> Self:
        return self._in_place(self & other)

    def __ior__(self, other: Self | Number) -> Self:
        return self._in_place(self | other)

    def __ixor__(self, other: Self | Number) -> Self:
        return self._in_place(self ^ other)

    def __ilshift__(self, other: Self | Number) -> Self:
        return self._in_place(self << other)

    def __irshift__(self, other: Self | Number) -> Self:
        return self._in_place(self >> other)


def _rebind(tensor: Core, uop: UOp, tracked: bool) -> None:
    """Let a Tensor stand for another value.  A leaf stays one, of a node of its own."""
    tensor._former = None
    tensor._tracked = tracked and not tensor._requires_grad
    if tensor._requires_grad:
        tensor.uop = apart(uop) if tracked or is_storage(uop) else unique(uop)
    elif is_storage(uop):  # of another Tensor: if either becomes a leaf, it is not the other
        tensor.uop = unique(uop) if tracked else apart(uop)
    else:
        tensor.uop = uop


def _without_leading(sizes: Shape, rank: int) -> Shape:
    """A shape without those of its first axes of size 1 that are more than `rank`."""
    while len(sizes) > rank and sizes[0] == 1:
        sizes = sizes[1:]
    return sizes


def _is_written(value: Core, view: Core) -> bool:
    """Whether a value is this view and shows what its root holds: what `x[key] += 1` assigns in the end."""
    one, other = value._view, view._view
    if one is None or other is None:
        return value is view
    return one.root is other.root and one.path == other.path and one.seen() is one.root.uop


def _check_number(value: Number, dtype: DType) -> None:
    """Raises OverflowError or DTypeError for a Python number that an integer dtype does not have."""
    if dtype.is_float or holds(dtype, value):
        return
    if isinstance(value, int) and dtype.is_int:
        raise OverflowError(
            f"{value} does not fit {dtype.name}, which holds {dtype.min} to {dtype.max}"
        )
    raise DTypeError(f"{value} is no {dtype.name}", fix="cast the tensor first")
