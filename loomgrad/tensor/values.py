"""From graphs to values: realize, numpy, item, tolist; how a Tensor prints."""

from __future__ import annotations

import struct
import weakref
from typing import TYPE_CHECKING, Self

from loomgrad.dtype import Number, commit_dtype, dtypes, numpy_dtype
from loomgrad.engine.realize import realize
from loomgrad.engine.recording import active, touch
from loomgrad.engine.state import next_slot, realized_value, storage_of
from loomgrad.errors import CaptureError, ShapeError
from loomgrad.ir.args import ParamArg
from loomgrad.ir.opcode import Ops
from loomgrad.ir.uop import UOp
from loomgrad.memory import Buffer, Device
from loomgrad.tensor.core import ends_of_history, is_storage, release_roots, settled_views, unique
from loomgrad.tensor.creation import storage
from loomgrad.tensor.data import Nested, nested
from loomgrad.tensor.networks import Networks

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray


PRINTED_ELEMENTS = 32


class Values(Networks):
    """What makes the machine compute."""

    __slots__ = ()

    def realize(self, *more: Self) -> Self:
        """Compute this tensor and `more` together; the result is this tensor."""
        asked = {id(tensor): tensor for tensor in (self, *more)}.values()
        for tensor in asked:
            touch(tensor)
        pending = []
        for tensor in asked:
            known = realized_value(tensor.uop)
            if known is None:
                pending.append(tensor)
            elif tensor.uop.op is not Ops.NOOP and not is_storage(tensor.uop):
                tensor._settle(known)  # an equal value was computed for another tensor
        if pending:
            results = realize([tensor.uop for tensor in pending])
            for tensor, result in zip(pending, results, strict=True):
                tensor._settle(result)
        release_roots()
        return self

    def _settle(self, result: UOp) -> None:
        """Let go of the history, unless gradients may need it."""
        if self._tracked:
            return
        self._former = weakref.ref(self.uop)
        # Equal values may have been given one storage; as leaves of gradients they stay apart.
        if self.uop.op is Ops.NOOP:
            self.uop = self.uop.replace(src=(result,))
        else:
            self.uop = result
            ends_of_history.add(result)
        if self._view is not None:
            settled_views[id(self)] = self

    def _hold_apart(self) -> UOp:
        """The value, computed, under a BUFFER of its own over the same memory; the tensor stands for that."""
        node, seen = self._apart()
        self.uop = unique(seen) if self._requires_grad else seen
        return node

    def _apart(self) -> tuple[UOp, UOp]:
        """A new BUFFER over the memory of the value, bare and in this shape."""
        memory = self._buffer()
        arg = ParamArg(next_slot(), memory.dtype, memory.size, memory.device, buffer=memory)
        node = UOp(Ops.BUFFER, (), arg)
        return node, node.reshape(self.shape)

    def _take(self, stored: UOp) -> None:
        """Stand for a value in storage."""
        self._former, self._tracked = None, False
        self.uop = unique(stored) if self._requires_grad else stored

    def _buffer(self) -> Buffer:
        """The storage of the value, computed if it is not yet.  Raises: CaptureError inside of a capture."""
        if active.get() is not None:
            raise CaptureError(
                "a value is read while its function is being captured",
                shape=self.shape,
                fix="return the tensor and read it outside, or use where() to choose",
            )
        if self.dtype.is_weak:
            return self.cast(commit_dtype(self.dtype))._buffer()
        found = storage_of(self.realize().uop)
        assert found is not None, "a realised tensor has storage"
        return found

    @property
    def is_realized(self) -> bool:
        """Whether the value is in memory."""
        return realized_value(self.uop) is not None

    def contiguous(self) -> Self:
        """The same value, stored on its own when it is computed."""
        return self._make(Ops.CONTIGUOUS)

    def to(self, device: str | None = None) -> Self:
        """This value on a device; itself if it is there.  A copy is made now, and gradients end at it."""
        place = Device.canonicalize(device)
        if place == self.device:
            return self
        return type(self)._of(storage(self.shape, self.dtype, place, self.data()), place)

    def data(self) -> memoryview:
        """The bytes of the value, read-only, row by row."""
        return self._buffer().as_memoryview()

    def numpy(self) -> NDArray[Any]:
        """The value as an array of NumPy: a read-only view of the tensor's own memory."""
        import numpy

        dtype = numpy_dtype(commit_dtype(self.dtype))
        if 0 in self.shape:
            return numpy.empty(self.shape, dtype)
        return numpy.frombuffer(self.data(), dtype).reshape(self.shape)

    def tolist(self) -> Nested:
        """The value as nested lists of Python numbers; without axes, the number."""
        if self.dtype.fmt is None:
            return self.cast(dtypes.float32).tolist()
        raw = b"" if 0 in self.shape else self.data()
        return nested(struct.unpack(f"{self.numel()}{self.dtype.fmt}", raw), self.shape)

    def item(self) -> Number:
        """The one element, as a Python number.  Raises ShapeError if there is not just one."""
        if self.numel() != 1:
            raise ShapeError(
                f"item() needs one element, shape {self.shape} has {self.numel()}",
                fix="select one, e.g. x[0], or use tolist()",
            )
        value = self.reshape(()).tolist()
        assert isinstance(value, (bool, int, float))
        return value

    def allclose(
        self,
        other: Self | Number,
        rtol: float = 1e-5,
        atol: float = 1e-8,
        equal_nan: bool = False,
    ) -> bool:
        """Whether all elements are close, as `isclose` says; computes."""
        return bool(self.isclose(other, rtol, atol, equal_nan).all().item())

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise ShapeError(
                f"the truth of a tensor of shape {self.shape} is ambiguous",
                fix="use (x != 0).any() or .all(), or compare shapes and dtypes instead of values",
            )
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __repr__(self) -> str:
        facts = f"dtype={self.dtype.name}" + (", requires_grad=True" if self.requires_grad else "")
        known = storage_of(self.uop) if active.get() is None else None
        small = self.numel() <= PRINTED_ELEMENTS and self.dtype.fmt is not None
        if small and known is not None and (known.is_allocated or known.nbytes == 0):
            return f"Tensor({self.tolist()}, {facts})"
        state = "not computed" if known is None else "realised"
        return f"<Tensor of shape {self.shape} on {self.device}, {facts}, {state}>"
