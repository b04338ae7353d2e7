"""The words of arithmetic, movement and reduction, written once for `UOp` and `Tensor`.

A class gets all of them by saying how a node is made of it (`_make`), how a movement is (`_move`) and what a
Python number becomes beside it (`_constant`).  Operands are promoted here; mistakes raise here, at the user's
line, with both shapes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self, TypeVar

from loomgrad.dtype import DType, dtypes, least_upper_dtype, least_upper_float
from loomgrad.errors import DTypeError, ShapeError
from loomgrad.ir.arguments import axes_argument, axis_argument, sizes_argument
from loomgrad.ir.opcode import Op, Ops
from loomgrad.ir.shape import Shape, broadcast, size_of
from loomgrad.dtype import holds

if TYPE_CHECKING:
    from collections.abc import Sequence

Number = bool | int | float
V = TypeVar("V", bound="Vocabulary")


class Vocabulary(ABC):
    """Operators and methods shared by nodes and Tensors."""

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

    @abstractmethod
    def _constant(self, value: Number) -> Self:
        """A weak constant."""

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
        _check_broadcast(op, first, second)
        first, second = _promoted(op, first, second)
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
        return self if dtype is self.dtype else self._make(Ops.CAST, (), dtype)

    def bitcast(self, dtype: DType) -> Self:
        """The same bits as `dtype`."""
        return self if dtype is self.dtype else self._make(Ops.BITCAST, (), dtype)

    # ---- arithmetic

    def __add__(self, other: Self | Number) -> Self:
        return self._logic(Ops.ADD, Ops.OR, other)

    def __radd__(self, other: Number) -> Self:
        return self._logic(Ops.ADD, Ops.OR, other, swapped=True)

    def __sub__(self, other: Self | Number) -> Self:
        return self._subtract(other, swapped=False)

    def __rsub__(self, other: Number) -> Self:
        return self._subtract(other, swapped=True)

    def _subtract(self, value: Self | Number, swapped: bool) -> Self:
        other = self._lift(value)
        if self.dtype.is_bool and other.dtype.is_bool:
            raise DTypeError(
                "bools cannot be subtracted", fix="use a ^ b, or cast one of them first"
            )
        return self._binary(Ops.SUB, other, swapped)

    def __mul__(self, other: Self | Number) -> Self:
        return self._logic(Ops.MUL, Ops.AND, other)

    def __rmul__(self, other: Number) -> Self:
        return self._logic(Ops.MUL, Ops.AND, other, swapped=True)

    def __neg__(self) -> Self:
        if self.dtype.is_bool:
            raise DTypeError("a bool has no negative", fix="use ~x")
        return self._make(Ops.NEG)

    def __truediv__(self, other: Self | Number) -> Self:
        return self._divide(other, swapped=False)

    def __rtruediv__(self, other: Number) -> Self:
        return self._divide(other, swapped=True)

    def _divide(self, value: Self | Number, swapped: bool) -> Self:
        other = self._lift(value)
        dtype = least_upper_float(least_upper_dtype(self.dtype, other.dtype))
        numerator, divisor = (other, self) if swapped else (self, other)
        return numerator._as(dtype)._binary(Ops.FDIV, divisor._as(dtype))

    def _as(self, dtype: DType) -> Self:
        """Cast, but leave a weak value beside a float as it is."""
        return self if self.dtype.is_weak and dtype.is_float else self.cast(dtype)

    def __floordiv__(self, other: Self | Number) -> Self:
        return self._floor_divide(other, swapped=False)

    def __rfloordiv__(self, other: Number) -> Self:
        return self._floor_divide(other, swapped=True)

    def _floor_divide(self, value: Self | Number, swapped: bool) -> Self:
        other = self._lift(value)
        if least_upper_dtype(self.dtype, other.dtype).is_float:
            return self._divide(other, swapped).floor()
        return self._integers(Ops.FLOORDIV, other, swapped)

    def __mod__(self, other: Self | Number) -> Self:
        return self._modulo(other, swapped=False)

    def __rmod__(self, other: Number) -> Self:
        return self._modulo(other, swapped=True)

    def _modulo(self, value: Self | Number, swapped: bool) -> Self:
        other = self._lift(value)
        if least_upper_dtype(self.dtype, other.dtype).is_float:
            numerator, divisor = (other, self) if swapped else (self, other)
            return numerator - numerator._floor_divide(divisor, False) * divisor
        return self._integers(Ops.FLOORMOD, other, swapped)

    def _integers(self, op: Op, other: Self, swapped: bool) -> Self:
        """Bools count as default ints here."""
        left = self.cast(dtypes.default_int) if self.dtype.is_bool else self
        right = other.cast(dtypes.default_int) if other.dtype.is_bool else other
        return left._binary(op, right, swapped)

    def __and__(self, other: Self | Number) -> Self:
        return self._bits(Ops.AND, other)

    __rand__ = __and__

    def __or__(self, other: Self | Number) -> Self:
        return self._bits(Ops.OR, other)

    __ror__ = __or__

    def __xor__(self, other: Self | Number) -> Self:
        return self._bits(Ops.XOR, other)

    __rxor__ = __xor__

    def _bits(self, op: Op, value: Self | Number) -> Self:
        other = self._lift(value)
        if self.dtype.is_float or other.dtype.is_float:
            raise DTypeError(
                f"{op.name} needs ints or bools", a=self.dtype, b=other.dtype, fix="cast first"
            )
        return self._binary(op, other)

    def __invert__(self) -> Self:
        if self.dtype.is_bool:
            return self._make(Ops.CMPNE, (self._constant(True),))
        return self._bits(
            Ops.XOR, -1 if not self.dtype.is_unsigned else int(dtypes.max(self.dtype))
        )

    def __lshift__(self, other: Self | Number) -> Self:
        return self._binary(Ops.SHL, other)

    def __rshift__(self, other: Self | Number) -> Self:
        return self._binary(Ops.SHR, other)

    # ---- comparison and choice

    def __lt__(self, other: Self | Number) -> Self:
        return self._compare(Ops.CMPLT, other)

    def __gt__(self, other: Self | Number) -> Self:
        return self._compare(Ops.CMPLT, other, swapped=True)

    def __le__(self, other: Self | Number) -> Self:
        return self._at_most(other, swapped=False)

    def __ge__(self, other: Self | Number) -> Self:
        return self._at_most(other, swapped=True)

    def _at_most(self, value: Self | Number, swapped: bool) -> Self:
        """a <= b.  For floats not the negation of b < a, which is true beside NaN."""
        other = self._lift(value)
        if self.dtype.is_float or other.dtype.is_float:
            less = self._compare(Ops.CMPLT, other, swapped)
            return less._make(Ops.OR, (self._compare(Ops.CMPEQ, other, swapped),))
        return ~self._compare(Ops.CMPLT, other, not swapped)

    def where(self, chosen: Self | Number, otherwise: Self | Number) -> Self:
        """`chosen` where this is true, `otherwise` elsewhere.  Shapes broadcast."""
        if not self.dtype.is_bool:
            return self._compare(Ops.CMPNE, 0).where(chosen, otherwise)
        like = next((v for v in (chosen, otherwise) if isinstance(v, Vocabulary)), None)
        if like is None:
            x, y = self._constant(chosen), self._constant(otherwise)  # type: ignore[arg-type]
            dtype = least_upper_dtype(x.dtype, y.dtype)
            strong = {dtypes.weakint: dtypes.default_int, dtypes.weakfloat: dtypes.default_float}
            x, y = (value.cast(strong.get(dtype, dtype)) for value in (x, y))
        else:
            x, y = (like._lift(value) for value in (chosen, otherwise))
        _check_broadcast(Ops.WHERE, self, x, y)
        x, y = _promoted(Ops.WHERE, x, y)
        return self._make(Ops.WHERE, (x, y))

    def maximum(self, other: Self | Number) -> Self:
        """The larger of the two; NaN if either is."""
        return self._logic(Ops.MAX, Ops.OR, other)

    def minimum(self, value: Self | Number) -> Self:
        """The smaller of the two; NaN if either is."""
        other = self._lift(value)
        dtype = least_upper_dtype(self.dtype, other.dtype)
        if dtype.is_bool:
            return self & other
        if dtype.is_float or dtype.is_weak:
            return -((-self).maximum(-other))
        a, b = (~operand._as_strong(dtype) for operand in (self, other))
        return ~a.maximum(b)

    def _as_strong(self, dtype: DType) -> Self:
        return self.cast(dtype)

    # ---- functions of one operand

    def exp(self) -> Self:
        """e**x."""
        return self._float(Ops.EXP)

    def exp2(self) -> Self:
        """2**x."""
        return self._float(Ops.EXP2)

    def log(self) -> Self:
        """Natural logarithm; -inf at 0, NaN below."""
        return self._float(Ops.LOG)

    def log2(self) -> Self:
        """Logarithm to the base 2."""
        return self._float(Ops.LOG2)

    def sin(self) -> Self:
        """Sine of x in radians."""
        return self._float(Ops.SIN)

    def tanh(self) -> Self:
        """Hyperbolic tangent."""
        return self._float(Ops.TANH)

    def sqrt(self) -> Self:
        """Square root; NaN below 0."""
        return self._float(Ops.SQRT)

    def reciprocal(self) -> Self:
        """1 / x."""
        return self._float(Ops.RECIPROCAL)

    def trunc(self) -> Self:
        """x without its fraction."""
        return self._make(Ops.TRUNC) if self.dtype.is_float else self

    def floor(self) -> Self:
        """The largest integer value that is at most x."""
        whole = self.trunc()
        return (self < whole).where(whole - 1, whole) if self.dtype.is_float else self

    # ---- movement

    def reshape(self, *sizes: int | Sequence[int]) -> Self:
        """The same elements in row-major order with other sizes; one may be -1."""
        shape = sizes_argument(sizes)
        target = _inferred(self.shape, shape)
        return self if target == self.shape else self._move(Ops.RESHAPE, None, target)

    def permute(self, *order: int | Sequence[int]) -> Self:
        """Axis i of the result is axis order[i]."""
        axes = tuple(axis_argument(axis, self.shape) for axis in sizes_argument(order))
        if sorted(axes) != list(range(len(self.shape))):
            raise ShapeError(
                f"permute{axes} must name each axis of {self.shape} once",
                fix=f"e.g. permute{tuple(reversed(range(len(self.shape))))}",
            )
        return self if axes == tuple(range(len(axes))) else self._move(Ops.PERMUTE, axes)

    def flip(self, *axes: int | Sequence[int]) -> Self:
        """The named axes reversed."""
        named = axes_argument(axes, self.shape)
        return self._move(Ops.FLIP, named) if named else self

    def pad(self, padding: Sequence[tuple[int, int] | None]) -> Self:
        """Zeros around: (before, after) for each axis, None for neither."""
        pairs = [pair or (0, 0) for pair in padding]
        if len(pairs) != len(self.shape) or any(before < 0 or after < 0 for before, after in pairs):
            raise ShapeError(
                f"pad needs a pair of nonnegative counts for each axis of {self.shape}",
                padding=tuple(padding),
                fix="e.g. pad(((1, 1), None)); shrink cuts",
            )
        if all(pair == (0, 0) for pair in pairs):
            return self
        offsets = tuple(before for before, _ in pairs)
        sizes = tuple(b + size + a for (b, a), size in zip(pairs, self.shape, strict=True))
        return self._move(Ops.PAD, None, offsets, sizes)

    def shrink(self, bounds: Sequence[tuple[int, int] | None]) -> Self:
        """The box from begin to end: (begin, end) for each axis, None for all of it."""
        pairs = [b or (0, size) for b, size in zip(bounds, self.shape, strict=False)]
        fits = all(0 <= b <= e <= size for (b, e), size in zip(pairs, self.shape, strict=False))
        if len(bounds) != len(self.shape) or not fits:
            raise ShapeError(
                f"shrink needs (begin, end) with 0 <= begin <= end <= size on each axis of {self.shape}",
                bounds=tuple(bounds),
                fix="e.g. shrink(((0, 2), None))",
            )
        if all(pair == (0, size) for pair, size in zip(pairs, self.shape, strict=True)):
            return self
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

    # ---- reduction

    def _reduce(self, op: Op, axis: int | Sequence[int] | None, keepdim: bool) -> Self:
        axes = axes_argument(() if axis is None else (axis,), self.shape, default_all=axis is None)
        rest = tuple(a for a in range(len(self.shape)) if a not in axes)
        kept = tuple(1 if a in axes else size for a, size in enumerate(self.shape))
        counted = tuple(a for a in axes if self.shape[a] != 1)
        if counted:
            others = tuple(a for a in range(len(self.shape)) if a not in counted)
            result = self.permute(counted + others)._fold(op, len(counted))
        else:
            result = self
        return result.reshape(kept if keepdim else tuple(self.shape[a] for a in rest))

    @abstractmethod
    def _fold(self, op: Op, count: int) -> Self:
        """REDUCE of the first `count` axes."""


def _promoted(op: Op, first: V, second: V) -> tuple[V, V]:
    """Both operands in the dtype they share; weak ones stay weak."""
    if first.dtype is second.dtype:
        return first, second
    if op in (Ops.SHL, Ops.SHR):
        return first, second
    dtype = least_upper_dtype(first.dtype, second.dtype)
    a, b = (x if x.dtype.is_weak and not dtype.is_bool else x.cast(dtype) for x in (first, second))
    return a, b


def _check_broadcast(op: Op, *operands: Vocabulary) -> None:
    shapes = [operand.shape for operand in operands]
    if broadcast(shapes) is not None:
        return
    raise ShapeError(
        f"{op.name} of shapes {' and '.join(map(str, shapes))} does not broadcast",
        fix="aligned at the right, two sizes must be equal or one of them 1; use reshape to add an axis",
    )


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
