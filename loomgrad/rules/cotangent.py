"""A gradient on its way from a node to its sources: a value, and where it was selected at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from loomgrad.dtype import sum_dtype
from loomgrad.ir.opcode import Ops
from loomgrad.ir.shape import Shape
from loomgrad.ir.uop import UOp


@dataclass(frozen=True, slots=True)
class Cotangent:
    """The gradient of the root with respect to a node, in the node's shape.

    Where `mask` is false the node was not selected, and the gradient is 0 although `raw` may be anything;
    `is_zeroed` says that `raw` is 0 there already.
    """

    raw: UOp
    mask: UOp | None = None
    is_zeroed: bool = False

    @property
    def value(self) -> UOp:
        """The gradient itself."""
        if self.mask is None or self.is_zeroed:
            return self.raw
        return self.mask.where(self.raw, self.raw.const_like(0))

    def settled(self) -> Cotangent:
        """Without its mask."""
        return self if self.mask is None else Cotangent(self.value)

    def scaled(self, local: Callable[[UOp], UOp], pole: bool = False) -> Cotangent:
        """The chain rule: `local` multiplies by a derivative, which may be infinite if there is a `pole`."""
        return Cotangent(local(self.raw), self.mask, self.is_zeroed and not pole)

    def selected(self, chosen: UOp) -> Cotangent:
        """Only where `chosen` is true."""
        return Cotangent(self.raw, chosen if self.mask is None else self.mask & chosen)

    def moved(self, move: Callable[[UOp], UOp]) -> Cotangent:
        """Through a movement."""
        if self.mask is None:
            return Cotangent(move(self.raw))
        return Cotangent(move(self.value), move(self.mask.expand(self.raw.shape)), True)

    def plus(self, other: Cotangent) -> Cotangent:
        """What two users of one node give it together."""
        total = self.value + other.value
        if self.mask is None or other.mask is None:
            return Cotangent(total)
        return Cotangent(total, self.mask | other.mask, True)

    def fitted(self, shape: Shape) -> Cotangent:
        """For a source that was broadcast: the sum over all its uses."""
        if self.raw.shape == shape:
            return self
        lead = len(self.raw.shape) - len(shape)
        padded = (1,) * lead + shape
        axes = [a for a, size in enumerate(padded) if size != self.raw.shape[a]]
        return self.gathered(tuple(axes)).reshaped(shape)

    def gathered(self, axes: tuple[int, ...]) -> Cotangent:
        """The sum over axes, which stay with size 1: selected where one of its terms is."""
        total = summed(self.value, axes)
        if self.mask is None:
            return Cotangent(total)
        lead = len(self.raw.shape) - len(self.mask.shape)
        mask = self.mask.reshape(*(1 for _ in range(lead)), *self.mask.shape)
        folded = tuple(axis for axis in axes if mask.shape[axis] != 1)
        return Cotangent(total, mask._reduce(Ops.MAX, folded, keepdim=True), True)

    def reshaped(self, shape: Shape) -> Cotangent:
        """In another shape."""
        return self.moved(lambda g: g.reshape(shape))


def summed(value: UOp, axes: tuple[int, ...]) -> UOp:
    """The sum over axes, which stay with size 1; half floats are added in float32."""
    return value.cast(sum_dtype(value.dtype)).sum(axes, keepdim=True).cast(value.dtype)


Gradients = tuple[Cotangent | None, ...]
