"""Casts under the names of dtypes.  They stand apart: inside this class `float` is a method, not the type."""

from __future__ import annotations

from typing import Self

from loomgrad.dtype import dtypes
from loomgrad.tensor.core import Core


class Casts(Core):
    """The same values in another dtype."""

    __slots__ = ()

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
