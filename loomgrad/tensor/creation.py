"""Making Tensors: of Python data, NumPy arrays, constants, counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from loomgrad.dtype import (
    DType,
    Number,
    commit_dtype,
    dtype_argument,
    dtype_of,
    dtypes,
    from_numpy_dtype,
    holds,
)
from loomgrad.engine.state import next_slot
from loomgrad.errors import ShapeError
from loomgrad.ir.args import ParamArg
from loomgrad.ir.arguments import sizes_argument
from loomgrad.ir.counting import counting
from loomgrad.ir.opcode import Ops
from loomgrad.ir.shape import Shape, size_of
from loomgrad.ir.uop import UOp
from loomgrad.memory import Buffer, Device
from loomgrad.tensor.core import recording, unique
from loomgrad.tensor.data import flattened, inferred_dtype, is_numpy, packed
from loomgrad.tensor.normalise import Normalise

if TYPE_CHECKING:
    from numpy import generic
    from numpy.typing import NDArray

    from loomgrad.dtype.argument import DTypeLike

Sizes = int | Sequence[int]


class Creation(Normalise):
    """A Tensor's dtype is float32 for floats, int32 for ints, bool for bools, and what NumPy says for arrays."""

    __slots__ = ()

    def __init__(
        self,
        data: object,
        *,
        dtype: DTypeLike | None = None,
        requires_grad: bool = False,
        device: str | None = None,
    ) -> None:
        """A Tensor of a number, nested lists, bytes, a NumPy array (copied) or another Tensor.

        **Raises** OverflowError for an int that the dtype does not hold, ShapeError for ragged lists.
        """
        place, dtype = Device.canonicalize(device), dtype_argument(dtype)
        if isinstance(data, Creation):
            same = data if dtype is None else data.cast(dtype)
            tracked = recording.get() and (data._tracked or data._requires_grad)
            self._fill(same._node, data.device, tracked)
        else:
            uop = _node_of(data, dtype, place)
            self._fill(uop if dtype is None or uop.dtype is dtype else uop.cast(dtype), place)
        self.requires_grad = requires_grad

    @classmethod
    def in_memory(
        cls,
        data: object,
        dtype: DTypeLike = dtypes.default_float,
        device: str | None = None,
        shape: Sizes | None = None,
    ) -> Self:
        """As `Tensor(data)`, but a single number, here repeated to `shape`, is storage too.

        `Tensor(0.1)` and `Tensor.zeros(3)` are constants of the programs that use them: another number is
        another program.
        """
        place, dtype = Device.canonicalize(device), dtype_argument(dtype)
        values, found = flattened(data)
        wanted = found if shape is None else checked_sizes((shape,))
        if found not in ((), wanted):
            raise ShapeError(f"data of shape {found} cannot fill {wanted}")
        content = packed(values, dtype) * (size_of(wanted) if found == () else 1)
        return cls._of(storage(wanted, dtype, place, content), place)

    # ---- constants

    @classmethod
    def full(
        cls,
        shape: Sizes,
        value: Number,
        dtype: DTypeLike | None = None,
        requires_grad: bool = False,
        device: str | None = None,
    ) -> Self:
        """The same number everywhere."""
        number = _constant(value, dtype_argument(dtype)).expand(checked_sizes((shape,)))
        made = cls._of(unique(number), Device.canonicalize(device))
        made.requires_grad = requires_grad
        return made

    @classmethod
    def zeros(
        cls,
        *shape: Sizes,
        dtype: DTypeLike = dtypes.default_float,
        requires_grad: bool = False,
        device: str | None = None,
    ) -> Self:
        """0 everywhere."""
        return cls.full(checked_sizes(shape), 0, dtype, requires_grad, device)

    @classmethod
    def ones(
        cls,
        *shape: Sizes,
        dtype: DTypeLike = dtypes.default_float,
        requires_grad: bool = False,
        device: str | None = None,
    ) -> Self:
        """1 everywhere."""
        return cls.full(checked_sizes(shape), 1, dtype, requires_grad, device)

    @classmethod
    def empty(
        cls, *shape: Sizes, dtype: DTypeLike = dtypes.default_float, device: str | None = None
    ) -> Self:
        """Memory with whatever is in it."""
        place = Device.canonicalize(device)
        return cls._of(storage(checked_sizes(shape), dtype_argument(dtype), place), place)

    def full_like(self, value: Number, dtype: DTypeLike | None = None) -> Self:
        """The same number everywhere, in this tensor's shape."""
        return type(self).full(self.shape, value, dtype or self.dtype, device=self.device)

    def zeros_like(self, dtype: DTypeLike | None = None) -> Self:
        """0 everywhere, in this tensor's shape."""
        return self.full_like(0, dtype)

    def ones_like(self, dtype: DTypeLike | None = None) -> Self:
        """1 everywhere, in this tensor's shape."""
        return self.full_like(1, dtype)

    # ---- counts

    @classmethod
    def arange(
        cls,
        start: float,
        stop: float | None = None,
        step: float = 1,
        *,
        dtype: DTypeLike | None = None,
        device: str | None = None,
    ) -> Self:
        """start, start + step ... before `stop`; `arange(stop)` begins at 0.

        Ints give int32, or int64 where they need it; floats are computed in float64 and then rounded.
        """
        dtype = dtype_argument(dtype)
        first, end = (0, start) if stop is None else (start, stop)
        if step == 0:
            raise ShapeError("arange with a step of 0 never ends", fix="use a step other than 0")
        count = max(0, math.ceil((end - first) / step))
        if isinstance(first, int) and isinstance(step, int):
            numbers = _whole_numbers(first, step, count, dtype or commit_dtype(dtype_of(end)))
        else:
            numbers = counting(count, dtypes.int64).cast(dtypes.float64) * float(step) + float(
                first
            )
        wanted = dtype or (commit_dtype(dtype_of(end)) if numbers.dtype.is_int else dtypes.float32)
        if dtype is None and numbers.dtype is dtypes.int64:
            wanted = dtypes.int64
        return cls._of(unique(numbers.cast(wanted)), Device.canonicalize(device))

    @classmethod
    def linspace(
        cls,
        start: float,
        stop: float,
        steps: int,
        dtype: DTypeLike = dtypes.default_float,
        device: str | None = None,
    ) -> Self:
        """`steps` numbers from `start` to `stop`, both included, at equal distances."""
        distance = (stop - start) / (steps - 1) if steps > 1 else 0.0
        numbers = counting(steps).cast(dtypes.float64) * distance + float(start)
        return cls._of(unique(numbers.cast(dtype_argument(dtype))), Device.canonicalize(device))

    @classmethod
    def eye(
        cls,
        rows: int,
        columns: int | None = None,
        dtype: DTypeLike = dtypes.default_float,
        device: str | None = None,
    ) -> Self:
        """1 on the diagonal, 0 elsewhere."""
        width = rows if columns is None else columns
        checked_sizes((rows, width))
        on_diagonal = counting(rows).reshape(rows, 1).eq(counting(width))
        strong = dtype_argument(dtype)
        one, zero = _constant(1, strong), _constant(0, strong)
        return cls._of(unique(on_diagonal.where(one, zero)), Device.canonicalize(device))

    @classmethod
    def from_numpy(cls, array: NDArray[generic]) -> Self:
        """A Tensor of a copy of an array."""
        return cls(array)


def storage(
    shape: Shape, dtype: DType, device: str, content: bytes | memoryview | None = None
) -> UOp:
    """A new BUFFER, filled with `content` if there is any, seen in a shape."""
    size = size_of(shape)
    buffer = Buffer(device, size, dtype)
    if content is not None:
        buffer.copyin(content)
    arg = ParamArg(next_slot(), dtype, size, device, buffer=buffer)
    return UOp(Ops.BUFFER, (), arg).reshape(shape)


def _node_of(data: object, dtype: DType | None, device: str) -> UOp:
    """The value of Python data or of a NumPy array."""
    if is_numpy(data):
        return _array_node(data, device)
    if isinstance(data, (bytes, bytearray, memoryview)):
        content = bytes(data)
        return storage((len(content),), dtypes.uint8, device, content)
    values, shape = flattened(data)
    if not shape:
        return unique(_constant(values[0], dtype))
    wanted = dtype or inferred_dtype(values)
    # What the struct module cannot pack is packed as float32 and cast.
    direct = wanted if wanted.fmt is not None else dtypes.float32
    return storage(shape, direct, device, packed(values, direct))


def _array_node(array: NDArray[generic], device: str) -> UOp:
    import numpy

    dtype = from_numpy_dtype(array.dtype)
    native = numpy.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    return storage(array.shape, dtype, device, native.tobytes())


def _constant(value: Number, dtype: DType | None) -> UOp:
    """A constant of a strong dtype.  Raises OverflowError for an int that does not fit."""
    strong = dtype or commit_dtype(dtype_of(value))
    if isinstance(value, int) and strong.is_int and not holds(strong, value):
        raise OverflowError(
            f"{value} does not fit {strong.name}, which holds {strong.min} to {strong.max}; "
            "name a wider dtype, e.g. dtype=dtypes.int64"
        )
    return UOp.const(value, strong)


def _whole_numbers(first: int, step: int, count: int, dtype: DType) -> UOp:
    """first, first + step ... in int32 where all fit, else in int64."""
    ends = (first, first + step * max(0, count - 1), step, count)
    narrow = all(holds(dtypes.int32, end) for end in ends)
    wide = dtypes.int32 if narrow and dtype.bits <= 32 else dtypes.int64
    return counting(count, wide) * step + first


def checked_sizes(sizes: Sequence[Sizes]) -> Shape:
    shape = sizes_argument(sizes)
    if any(size < 0 for size in shape):
        raise ShapeError(f"a shape cannot have negative sizes: {shape}")
    return shape
