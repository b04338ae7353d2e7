"""Views: how a Tensor was made from another one without computing, and how a write goes back that way.

Each step of a view has an inverse: the value that its source has after the result was written.  Most inverses only
move elements back.  The inverse of SHRINK and of a slice with a step needs the source's present value as well, for
the elements outside.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from loomgrad.dtype import DType, dtypes, holds
from loomgrad.engine.cache import Cache
from loomgrad.engine.state import next_slot, owns
from loomgrad.ir.args import ParamArg
from loomgrad.ir.counting import counting
from loomgrad.ir.opcode import Op, Ops
from loomgrad.ir.uop import UOp
from loomgrad.memory import Buffer

if TYPE_CHECKING:
    from loomgrad.ir.shape import Shape
    from loomgrad.tensor.core import Core


MOST_POSITIONS = 4096
_positions: Cache[tuple[int, DType, str], UOp] = Cache(MOST_POSITIONS)
owns("positions of writes", _positions.clear)


class Step(Protocol):
    """One step from a value to a view of it."""

    @property
    def op(self) -> Op: ...

    def apply(self, source: UOp) -> UOp:
        """The view of `source`."""
        ...

    def undo(self, written: UOp, source: UOp, device: str | None) -> UOp:
        """What becomes of `source`, on `device`, when its view is given the value `written`."""
        ...


@dataclass(frozen=True, slots=True)
class Same:
    """The same value again, or the same as a constant to gradients (DETACH)."""

    op: Op = Ops.NOOP

    def apply(self, source: UOp) -> UOp:
        return source if self.op is Ops.NOOP else UOp(self.op, (source,))

    def undo(self, written: UOp, source: UOp, device: str | None) -> UOp:
        return written


@dataclass(frozen=True, slots=True)
class Bits:
    """The same bits as another dtype."""

    arg: object
    op: Op = Ops.BITCAST

    def apply(self, source: UOp) -> UOp:
        return UOp(Ops.BITCAST, (source,), self.arg)

    def undo(self, written: UOp, source: UOp, device: str | None) -> UOp:
        return UOp(Ops.BITCAST, (written,), source.dtype)


@dataclass(frozen=True, slots=True)
class Moved:
    """A movement that selects or reorders.  EXPAND has no inverse: its elements are not its own."""

    op: Op
    arg: tuple[int, ...] | None
    sizes: tuple[Shape, ...]

    def apply(self, source: UOp) -> UOp:
        return source._move(self.op, self.arg, *self.sizes)

    def undo(self, written: UOp, source: UOp, device: str | None) -> UOp:
        if self.op is Ops.RESHAPE:
            return written.reshape(source.shape)
        if self.op is Ops.FLIP:
            return written._move(Ops.FLIP, self.arg)
        if self.op is Ops.PERMUTE:
            assert self.arg is not None
            return written.permute(tuple(self.arg.index(axis) for axis in range(len(self.arg))))
        assert self.op is Ops.SHRINK, f"{self.op.name} has no inverse"
        offsets, sizes = self.sizes
        return _put_back(written, source, offsets, sizes, device)


def _put_back(written: UOp, source: UOp, offsets: Shape, sizes: Shape, device: str | None) -> UOp:
    """`source` with the box at `offsets` replaced.

    Where one position of an axis is chosen, which one is data: writes to x[0], x[1] ... are one program.
    """
    inside = UOp.const(True)
    around: list[tuple[int, int]] = []
    for axis, (offset, size, whole) in enumerate(zip(offsets, sizes, source.shape, strict=True)):
        if size == 1 < whole and device is not None:
            numbers = counting(whole, _index_dtype(whole))
            column = tuple(whole if a == axis else 1 for a in range(len(sizes)))
            inside = inside & numbers.reshape(column).eq(_position(offset, whole, device))
            around.append((0, 0))
        else:
            around.append((offset, whole - offset - size))
    if any(pair != (0, 0) for pair in around):
        inside = inside & UOp.const(True).expand(sizes).pad(around)
    return inside.where(written.pad(around), source)


def _index_dtype(count: int) -> DType:
    return dtypes.int32 if holds(dtypes.int32, count) else dtypes.int64


def _position(offset: int, count: int, device: str) -> UOp:
    """A number below `count` in memory."""
    dtype = _index_dtype(count)
    found = _positions.get((offset, dtype, device))
    if found is None:
        memory = Buffer(device, 1, dtype).copyin(offset.to_bytes(dtype.itemsize, "little"))
        arg = ParamArg(next_slot(), dtype, 1, device, buffer=memory)
        found = _positions.put((offset, dtype, device), UOp(Ops.BUFFER, (), arg).reshape(()))
    return found


@dataclass(frozen=True, slots=True)
class EveryNth:
    """The positions 0, step, 2 * step ... of an axis that ends with the last of them."""

    axis: int
    step: int
    op: Op = Ops.SHRINK

    def apply(self, source: UOp) -> UOp:
        before, size, after = self._split(source.shape)
        count = (size - 1) // self.step + 1
        rows = source.pad(self._padding(source.shape, self.axis, count * self.step - size))
        box: list[tuple[int, int] | None] = [None] * (len(source.shape) + 1)
        box[self.axis + 1] = (0, 1)
        columns = rows.reshape(*before, count, self.step, *after)
        return columns.shrink(box).reshape(*before, count, *after)

    def undo(self, written: UOp, source: UOp, device: str | None) -> UOp:
        chosen = UOp.const(True).expand(written.shape)
        return self._spread(chosen, source).where(self._spread(written, source), source)

    def _spread(self, written: UOp, source: UOp) -> UOp:
        """The elements at their places in the shape of the source, zeros between."""
        before, count, after = self._split(written.shape)
        rows = written.reshape(*before, count, 1, *after)
        wide = rows.pad(self._padding(rows.shape, self.axis + 1, self.step - 1))
        box: list[tuple[int, int] | None] = [None] * len(written.shape)
        box[self.axis] = (0, source.shape[self.axis])
        return wide.reshape(*before, count * self.step, *after).shrink(box)

    def _split(self, shape: Shape) -> tuple[Shape, int, Shape]:
        return shape[: self.axis], shape[self.axis], shape[self.axis + 1 :]

    @staticmethod
    def _padding(shape: Shape, axis: int, behind: int) -> list[tuple[int, int]]:
        return [(0, behind if place == axis else 0) for place in range(len(shape))]


@dataclass(frozen=True, slots=True)
class View:
    """What a Tensor is a view of: `root`, which is no view, and the steps from there.

    `between` are the Tensors after each step but the last.  They are only watched: one that is gone cannot show
    what was written.  The root is held, as its other views must see each other's writes.  `seen` is the value of
    the root that the view shows.
    """

    root: Core
    path: tuple[Step, ...]
    between: tuple[weakref.ref[Core], ...]
    seen: weakref.ref[UOp]

    @property
    def is_broadcast(self) -> bool:
        """Whether an element of the root may stand at several places."""
        return any(step.op is Ops.EXPAND for step in self.path)

    @property
    def is_detached(self) -> bool:
        """Whether gradients do not see the way to the root."""
        return any(step.op is Ops.DETACH for step in self.path)


def view_of(source: Core, step: Step) -> View:
    """What is made from a Tensor by one step: a view of it, or of what it is itself a view of."""
    seen = source._view
    if seen is None:
        return View(source, (step,), (), weakref.ref(source.uop))
    between = (*seen.between, weakref.ref(source))
    return View(seen.root, (*seen.path, step), between, seen.seen)
