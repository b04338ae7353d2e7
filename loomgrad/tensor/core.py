"""What every Tensor is: a value in the graph, where it lives, and whether gradients may ask for its history."""

from __future__ import annotations

import sys
import weakref
from abc import abstractmethod
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Self, SupportsIndex, TypeVar

from loomgrad.engine.recording import touch
from loomgrad.engine.state import next_unique, register
from loomgrad.errors import DeviceError, GradientError
from loomgrad.ir.args import ReduceArg
from loomgrad.ir.opcode import GroupOp, Op, Ops
from loomgrad.ir.shape import size_of
from loomgrad.ir.uop import UOp
from loomgrad.ir.vocabulary import Number, Vocabulary
from loomgrad.tensor.views import Bits, Moved, Same, Step, View, view_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loomgrad.dtype import DType
    from loomgrad.ir.shape import Shape

T = TypeVar("T", bound="Core")
# What `sys.getrefcount(view.root)` is for a root that only this view holds: one more than that.
HELD_ONCE = 2
# False inside `no_grad`.
recording: ContextVar[bool] = ContextVar("recording", default=True)
# The Tensors that require a gradient, by identity: `==` of Tensors is elementwise.
leaves: weakref.WeakValueDictionary[int, Core] = weakref.WeakValueDictionary()
# Views with a value in memory that still hold their root.
settled_views: weakref.WeakValueDictionary[int, Core] = weakref.WeakValueDictionary()
MOST_SETTLED_VIEWS = 256
# Storage of computed values that let go of their history: an error may have to say so.
ends_of_history: weakref.WeakSet[UOp] = weakref.WeakSet()


class Core(Vocabulary):
    """A node of the graph with a device.

    `uop` is the value.  A Tensor computed from one that requires a gradient is *tracked*: realising it keeps
    its node, so that gradients can still walk from it.  All others let go of their history then.
    """

    __slots__ = (
        *("uop", "dtype", "device", "grad"),
        *("_requires_grad", "_tracked", "_view", "_former", "__weakref__"),
    )
    uop: UOp
    dtype: DType
    device: str | None
    grad: Self | None
    _requires_grad: bool
    _tracked: bool
    _view: View | None
    _former: weakref.ref[UOp] | None

    @classmethod
    def _of(cls, uop: UOp, device: str | None, tracked: bool = False) -> Self:
        """A Tensor of a node."""
        made = object.__new__(cls)
        made._fill(uop, device, tracked)
        return made

    def _fill(self, uop: UOp, device: str | None, tracked: bool = False) -> None:
        self.uop, self.dtype, self.device = uop, uop.dtype, device
        self.grad = self._former = self._view = None
        self._requires_grad = False
        self._tracked = tracked
        register(self)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[object, ...]:
        """A copy, and what is pickled, is a value of its own: no view, and a leaf if this is one."""
        return _copied, (
            type(self),
            self.uop,
            self.device,
            self._tracked,
            self._requires_grad,
            self.grad,
        )

    # ---- facts

    @property
    def shape(self) -> Shape:
        """Sizes of the axes."""
        return self.uop.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def numel(self) -> int:
        """The number of elements."""
        return size_of(self.shape)

    def nbytes(self) -> int:
        """The number of bytes of all elements."""
        return self.numel() * self.dtype.itemsize

    def element_size(self) -> int:
        """The number of bytes of one element."""
        return self.dtype.itemsize

    @property
    def requires_grad(self) -> bool:
        """Whether `backward` leaves a gradient in `grad`.

        A tensor that is made to require one becomes a leaf of its own, also beside others of the same value or
        memory.  What was computed from it before does not know of it.
        """
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        if wanted and not self.dtype.is_float:
            raise GradientError(
                f"a tensor of {self.dtype.name} cannot require a gradient",
                fix="cast it first, e.g. x.float()",
            )
        if wanted and not self._requires_grad:
            self.uop, self._former = unique(self.uop), None
        self._requires_grad = wanted
        if wanted:
            leaves[id(self)] = self
        else:
            leaves.pop(id(self), None)

    def requires_grad_(self, wanted: bool = True) -> Self:
        """Set `requires_grad` and return this tensor."""
        self.requires_grad = wanted
        return self

    def detach(self) -> Self:
        """The same value, a constant to gradients."""
        touch(self)
        made = type(self)._of(UOp(Ops.DETACH, (self.uop,)), self.device)
        made._view = view_of(self, Same(Ops.DETACH))
        return made

    # ---- what the shared vocabulary asks for

    def _make(self, op: Op, others: tuple[Self, ...] = (), arg: object = None) -> Self:
        if op is Ops.BITCAST:
            return self._seen_through(Bits(arg))
        if not others:
            return self._derived(UOp(op, (self._node,), arg))
        operands = (self, *others)
        made = type(self)._of(
            UOp(op, tuple(operand._node for operand in operands), arg), _device_of(op, operands)
        )
        made._tracked = recording.get() and any(o._tracked or o._requires_grad for o in operands)
        return made

    def _move(self, op: Op, arg: tuple[int, ...] | None, *sizes: Shape) -> Self:
        if op is Ops.PAD:  # what is around belongs to no other tensor
            return self._derived(self._node._move(op, arg, *sizes))
        return self._seen_through(Moved(op, arg, sizes))

    def _unmoved(self) -> Self:
        return self._seen_through(Same())

    def _unchanged(self) -> Self:
        """Another Tensor of this value: whichever of the two is written, the other keeps it."""
        return self._derived(self._node)

    def _let_go(self) -> bool:
        """A view of what nobody else can see stands for itself, so that the root's graph need not stay.

        What shows an element at several places stays such a view, of nothing: it must not be written.
        """
        view = self._view
        if view is not None and sys.getrefcount(view.root) != HELD_ONCE:
            return False
        if view is not None:
            nothing = type(self)._of(UOp.const(0), None)
            self._view = replace(view, root=nothing, between=()) if view.is_broadcast else None
        return True

    def _seen_through(self, step: Step) -> Self:
        """A view: what is written into it, this tensor gets."""
        made = self._derived(step.apply(self._node))
        made._view = view_of(self, step)
        return made

    def _constant(self, value: Number) -> Self:
        return type(self)._of(UOp(Ops.CONST, (), value), None)

    def _fold(self, op: Op, count: int) -> Self:
        return self._derived(UOp(Ops.REDUCE, (self._node,), ReduceArg(op, count)))

    def _reduce(self, op: Op, axis: int | Sequence[int] | None, keepdim: bool) -> Self:
        made = super()._reduce(op, axis, keepdim)
        made._view = None  # also where every axis has size 1 and nothing is to be done
        return made

    def _derived(self, uop: UOp) -> Self:
        """A Tensor of a node made of this one's alone."""
        tracked = (self._tracked or self._requires_grad) and recording.get()
        return type(self)._of(uop, self.device, tracked)

    @abstractmethod
    def _hold_apart(self) -> UOp:
        """Put the computed value under a BUFFER of its own, and return that."""

    @property
    def _node(self) -> UOp:
        """The value as an operand: without history inside `no_grad`; a capture is told of its use."""
        touch(self)
        if (self._tracked or self._requires_grad) and not recording.get():
            return UOp(Ops.DETACH, (self.uop,))
        return self.uop


def _copied(
    kind: type[T], uop: UOp, device: str | None, tracked: bool, is_leaf: bool, grad: T | None
) -> T:
    made = kind._of(apart(uop) if is_leaf else uop, device, tracked)
    made.requires_grad = is_leaf
    made.grad = grad
    return made


def release_roots() -> None:
    """Has computed views let go of roots that nobody else can see any more.

    Views of roots that stay are looked at again each time, as long as they are not too many.
    """
    views = list(settled_views.values())
    for view in views:
        if view._let_go() or len(views) > MOST_SETTLED_VIEWS:
            del settled_views[id(view)]


def unique(uop: UOp) -> UOp:
    """The value as a node of its own, so that an equal one elsewhere is another leaf of gradients."""
    return UOp(Ops.NOOP, (uop,), None, next_unique())


def apart(uop: UOp) -> UOp:
    """The value as a leaf of gradients of its own, to which those of `uop` do not reach."""
    return unique(UOp(Ops.DETACH, (uop,)))


def is_storage(uop: UOp) -> bool:
    """Whether a node is a BUFFER seen through RESHAPEs."""
    while uop.op is Ops.RESHAPE:
        uop = uop.src[0]
    return uop.op in GroupOp.Storage


def _device_of(op: Op, operands: tuple[Core, ...]) -> str | None:
    """The one device of the operands; Python numbers have none."""
    found: str | None = None
    for operand in operands:
        if operand.device is None or operand.device == found:
            continue
        if found is not None:
            raise DeviceError(
                f"{op.name} of tensors on {found} and {operand.device}",
                fix=f'bring them together, e.g. x.to("{found}")',
            )
        found = operand.device
    return found
