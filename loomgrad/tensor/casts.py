"""Casts under the names of dtypes.  They stand apart: inside this class `float` is a method, not the type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from loomgrad.dtype import dtype_argument, dtypes
from loomgrad.tensor.core import Core

if TYPE_CHECKING:
    from loomgrad.dtype.argument import DTypeLike


class Casts(Core):
    """The same values in another dtype."""

    __slots__ = ()

    def cast(self, dtype: DTypeLike) -> Self:
        """The same values as `dtype`: ints wrap, floats round, floats saturate into ints."""
        return super().cast(dtype_argument(dtype))

    def bitcast(self, dtype: DTypeLike) -> Self:
        """The same bits as `dtype`."""
        return super().bitcast(dtype_argument(dtype))

    def float(self) -> Self:
        """As float32."""
        return self.cast(dtypes.float32)

    def half(self) -> Self:
        """As float16."""
        return self.cast(dtypes.float16)

    def double(self) -> Self:
        """As float64."""
        return self.cast(dtypes.float64)

    def int(self) -> Self:
        """As int32: fractions dropped, what is out of range at the nearest limit, NaN as 0."""
        return self.cast(dtypes.int32)

    def long(self) -> Self:
        """As int64."""
        return self.cast(dtypes.int64)

    def bool(self) -> Self:
        """Whether each element differs from 0."""
        return self.cast(dtypes.bool)
