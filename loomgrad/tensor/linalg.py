"""Products of vectors, matrices and batches of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from loomgrad.dtype import Number, dtype_argument, least_upper_dtype, sum_dtype
from loomgrad.errors import ShapeError
from loomgrad.ir.opcode import Ops
from loomgrad.ir.shape import broadcast
from loomgrad.tensor.running import Running

if TYPE_CHECKING:
    from loomgrad.dtype.argument import DTypeLike


class Linalg(Running):
    """Matrix products are a multiplication and a sum; the compiler finds the tiles."""

    __slots__ = ()

    def matmul(self, other: Self | Number, dtype: DTypeLike | None = None) -> Self:
        """The matrix product, of the last two axes; the axes in front broadcast.

        **Shapes** x: (..., n, k), y: (..., k, m) -> (..., n, m).  A vector (k,) is a row at the left, a column
        at the right, and that axis is missing in the result.

        Half floats are multiplied and added in float32, bools and small ints in int32.
        """
        dtype, other = dtype_argument(dtype), self._lift(other)
        _check(self, other)
        meets = least_upper_dtype(self.dtype, other.dtype)
        wide = dtype or sum_dtype(meets)
        x = self.unsqueeze(0) if self.ndim == 1 else self
        y = other.unsqueeze(1) if other.ndim == 1 else other
        rows = x.cast(wide).unsqueeze(-2)
        columns = y.cast(wide).transpose().unsqueeze(-3)
        product = (rows * columns)._reduce(Ops.ADD, -1, False)
        shape = product.shape
        if other.ndim == 1:
            shape = shape[:-1]
        if self.ndim == 1:
            shape = shape[: -1 if other.ndim == 1 else -2] + shape[len(shape) - (other.ndim > 1) :]
        result = product.reshape(shape)
        return result.cast(meets) if dtype is None and meets.is_float else result

    def dot(self, other: Self | Number, dtype: DTypeLike | None = None) -> Self:
        """`matmul`."""
        return self.matmul(other, dtype)

    def __matmul__(self, other: Self | Number) -> Self:
        return self.matmul(other)

    def __rmatmul__(self, other: Number) -> Self:
        return self._lift(other).matmul(self)

    def linear(self, weight: Self, bias: Self | None = None) -> Self:
        """x @ weight + bias.

        **Shapes** x: (..., n), weight: (n, m), bias: (m,) -> (..., m)
        """
        weight = self._lift(weight)
        product = self * weight if weight.ndim == 1 else self.matmul(weight)
        return product if bias is None else product + bias


def _check(x: Linalg, y: Linalg) -> None:
    """Raises ShapeError unless x @ y exists."""
    if x.ndim == 0 or y.ndim == 0:
        raise ShapeError(
            f"a matrix product needs axes: {x.shape} @ {y.shape}", fix="use x * y for a scalar"
        )
    inner, outer = x.shape[-1], y.shape[0 if y.ndim == 1 else -2]
    if inner != outer:
        raise ShapeError(
            f"cannot multiply matrices of shapes {x.shape} and {y.shape}: {inner} is not {outer}",
            fix="the last axis of the left one must be as long as the last but one of the right one"
            + ("; y.T fits" if y.ndim > 1 and y.shape[-1] == inner else ""),
        )
    if broadcast((x.shape[:-2], y.shape[:-2])) is None:
        raise ShapeError(
            f"the leading axes of {x.shape} and {y.shape} do not broadcast",
            fix="aligned at the right, two sizes must be equal or one of them 1",
        )
