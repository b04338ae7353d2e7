"""The words of movement, for `UOp` and `Tensor`: other views of the same elements."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Self

from loomgrad.errors import ShapeError
from loomgrad.ir.arguments import axes_argument, axis_argument, sizes_argument
from loomgrad.ir.opcode import Ops
from loomgrad.ir.operand import Operand
from loomgrad.ir.shape import Shape, size_of


class Moves(Operand):
    """Reshape, permute, flip, pad, shrink, expand."""

    __slots__ = ()

    # ---- movement

    def reshape(self, *sizes: int | Sequence[int]) -> Self:
        """The same elements in row-major order with other sizes; one may be -1."""
        shape = sizes_argument(sizes)
        target = _inferred(self.shape, shape)
        return self._unmoved() if target == self.shape else self._move(Ops.RESHAPE, None, target)

    def permute(self, *order: int | Sequence[int]) -> Self:
        """Axis i of the result is axis order[i]."""
        axes = tuple(axis_argument(axis, self.shape) for axis in sizes_argument(order))
        if sorted(axes) != list(range(len(self.shape))):
            raise ShapeError(
                f"permute{axes} must name each axis of {self.shape} once",
                fix=f"e.g. permute{tuple(reversed(range(len(self.shape))))}",
            )
        if axes == tuple(range(len(axes))):
            return self._unmoved()
        return self._move(Ops.PERMUTE, axes)

    def flip(self, *axes: int | Sequence[int]) -> Self:
        """The named axes reversed."""
        named = axes_argument(axes, self.shape)
        return self._move(Ops.FLIP, named) if named else self._unmoved()

    def pad(self, padding: Sequence[tuple[int, int] | None]) -> Self:
        """Zeros around: (before, after) for each axis, None for neither."""
        pairs = _pairs(padding, [(0, 0)] * len(self.shape))
        if pairs is None or any(before < 0 or after < 0 for before, after in pairs):
            raise ShapeError(
                f"pad needs a pair of nonnegative counts for each axis of {self.shape}",
                padding=padding,
                fix="e.g. pad(((1, 1), None)); shrink cuts",
            )
        if all(pair == (0, 0) for pair in pairs):
            return self
        offsets = tuple(before for before, _ in pairs)
        sizes = tuple(b + size + a for (b, a), size in zip(pairs, self.shape, strict=True))
        return self._move(Ops.PAD, None, offsets, sizes)

    def shrink(self, bounds: Sequence[tuple[int, int] | None]) -> Self:
        """The box from begin to end: (begin, end) for each axis, None for all of it."""
        pairs = _pairs(bounds, [(0, size) for size in self.shape])
        if pairs is None or not all(
            0 <= begin <= end <= size for (begin, end), size in zip(pairs, self.shape, strict=True)
        ):
            raise ShapeError(
                f"shrink needs (begin, end) with 0 <= begin <= end <= size on each axis of {self.shape}",
                bounds=bounds,
                fix="e.g. shrink(((0, 2), None))",
            )
        if all(pair == (0, size) for pair, size in zip(pairs, self.shape, strict=True)):
            return self._unmoved()
        offsets = tuple(begin for begin, _ in pairs)
        return self._move(Ops.SHRINK, None, offsets, tuple(end - begin for begin, end in pairs))

    def expand(self, *sizes: int | Sequence[int]) -> Self:
        """Axes of size 1, and new leading ones, repeated to the sizes; -1 keeps a size."""
        target = sizes_argument(sizes)
        lead = len(target) - len(self.shape)
        padded = (1,) * max(lead, 0) + self.shape
        kept = tuple(p if t == -1 else t for p, t in zip(padded, target, strict=False))
        fits = all(p == t or p == 1 for p, t in zip(padded, kept, strict=False))
        if lead < 0 or not fits:
            raise ShapeError(
                f"cannot expand {self.shape} to {target}",
                fix="only axes of size 1 and new leading axes grow; reshape first",
            )
        return self._repeat(padded, kept)

    def _repeat(self, padded: Shape, target: Shape) -> Self:
        """Drops the size-1 axes that grow, repeats along new leading axes, and puts those in place."""
        grown = [axis for axis, size in enumerate(target) if padded[axis] != size]
        if not grown:
            return self.reshape(target)
        kept = [axis for axis in range(len(target)) if axis not in grown]
        dropped = self.reshape(tuple(padded[axis] for axis in kept))
        wide = dropped._move(Ops.EXPAND, None, tuple(target[axis] for axis in grown))
        place = grown + kept
        return wide.permute(tuple(place.index(axis) for axis in range(len(target))))

    def transpose(self, first: int = -2, second: int = -1) -> Self:
        """Two axes exchanged."""
        order = list(range(len(self.shape)))
        a, b = axis_argument(first, self.shape), axis_argument(second, self.shape)
        order[a], order[b] = order[b], order[a]
        return self.permute(tuple(order))


def _pairs(given: object, usual: Sequence[tuple[int, int]]) -> list[tuple[int, int]] | None:
    """A pair of ints for each axis, the usual one for None; nothing if it is not that."""
    if not isinstance(given, (list, tuple)) or len(given) != len(usual):
        return None
    pairs: list[tuple[int, int]] = []
    for pair, own in zip(given, usual, strict=True):
        if pair is None:
            pairs.append(own)
        elif isinstance(pair, (list, tuple)) and len(pair) == 2:
            pairs.append((index(pair[0]), index(pair[1])))
        else:
            return None
    return pairs


def _inferred(shape: Shape, target: Shape) -> Shape:
    """`target` with its -1 replaced, checked against `shape`."""
    known = size_of(size for size in target if size != -1)
    total = size_of(shape)
    if target.count(-1) == 1 and known and total % known == 0:
        return tuple(total // known if size == -1 else size for size in target)
    if -1 in target or known != total or any(size < 0 for size in target):
        raise ShapeError(
            f"cannot reshape {shape} ({total} elements) to {target}",
            fix=f"sizes must multiply to {total}; one may be -1, e.g. reshape{(*target[:-1], -1)}"
            if target and size_of(target[:-1]) and total % size_of(target[:-1]) == 0
            else f"sizes must multiply to {total}; one may be -1, e.g. reshape(-1)",
        )
    return target
