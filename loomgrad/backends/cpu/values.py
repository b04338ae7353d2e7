"""Values in registers: lanes as rows of vectors.

A value of shape (6, 16) is six rows, one for each index of the leading axes; a row is its last axis in vectors of
at most `width` lanes, a scalar where that axis has size 1.  Axes of size 1 are held once and repeated on use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from loomgrad.backends.cpu.types import Number, literal, splat_literal, type_of, vector_literal
from loomgrad.backends.cpu.writer import Writer
from loomgrad.codegen.lane_offsets import broadcast_places
from loomgrad.dtype import DType, cast_value
from loomgrad.ir.shape import Shape, size_of


@dataclass(slots=True)
class Value:
    """`rows[i][j]` is vector j of row i, an operand without its type; `level` is how deep in loops it is known.

    `constants` are the elements in row-major order, of a value whose rows are literals.
    """

    dtype: DType
    shape: Shape
    rows: list[list[str]]
    level: int
    constants: tuple[Number, ...] | None = None


class Lanes:
    """Makes values and takes them apart, for one function."""

    def __init__(self, writer: Writer, width: int) -> None:
        self.writer = writer
        self.width = width

    def lengths(self, size: int) -> list[int]:
        """How many lanes the vectors of an axis of `size` have."""
        whole, rest = divmod(size, self.width)
        return [self.width] * whole + ([rest] if rest else [])

    def row_lengths(self, shape: Shape) -> list[int]:
        """The same for the last axis of a shape."""
        return self.lengths(shape[-1]) if shape else [1]

    def constant(self, elements: Sequence[Number], shape: Shape, dtype: DType) -> Value:
        """Literals; of a weak dtype they are spelled when `converted` tells which."""
        if dtype.is_weak:
            return Value(dtype, shape, [], 0, tuple(elements))
        texts = [literal(element, dtype) for element in elements]
        rows, place = [], 0
        for _ in range(size_of(shape[:-1])):
            row = []
            for length in self.row_lengths(shape):
                row.append(vector_literal(texts[place : place + length], dtype))
                place += length
            rows.append(row)
        return Value(dtype, shape, rows, 0, tuple(elements))

    def converted(self, value: Value, dtype: DType) -> Value:
        """A constant as another dtype; other values have the dtype they need."""
        if value.dtype is dtype or value.constants is None:
            return value
        elements = [cast_value(element, value.dtype, dtype) for element in value.constants]
        return self.constant(elements, value.shape, dtype)

    def splat(self, text: str, dtype: DType, length: int, level: int) -> str:
        """A scalar in all lanes of a vector."""
        if length == 1:
            return text
        if not text.startswith("%"):
            return splat_literal(text, dtype, length)
        scalar, vector = type_of(dtype, 1), type_of(dtype, length)
        first = self.writer.pure(level, f"insertelement {vector} poison, {scalar} {text}, i64 0")
        zeros = f"<{length} x i32> zeroinitializer"
        return self.writer.pure(level, f"shufflevector {vector} {first}, {vector} poison, {zeros}")

    def spread(self, value: Value, shape: Shape) -> list[list[str]]:
        """The rows of a value repeated to `shape`, which its own broadcasts to."""
        if value.shape == shape:
            return value.rows
        places = broadcast_places(value.shape[:-1], shape[:-1])
        lengths = self.row_lengths(shape)
        if self.row_lengths(value.shape) == lengths:
            return [value.rows[place] for place in places]
        repeated = [
            [self.splat(row[0], value.dtype, length, value.level) for length in lengths]
            for row in value.rows
        ]
        return [repeated[place] for place in places]

    def elements(self, value: Value) -> list[str]:
        """All elements as scalars, row-major."""
        if value.constants is not None:
            return [literal(element, value.dtype) for element in value.constants]
        return [
            self.extract(chunk, value.dtype, length, lane, value.level)
            for row in value.rows
            for chunk, length in zip(row, self.row_lengths(value.shape), strict=True)
            for lane in range(length)
        ]

    def extract(self, chunk: str, dtype: DType, length: int, lane: int, level: int) -> str:
        """One lane of a vector."""
        if length == 1:
            return chunk
        return self.writer.pure(
            level, f"extractelement {type_of(dtype, length)} {chunk}, i64 {lane}"
        )

    def collect(self, scalars: Sequence[str], dtype: DType, level: int) -> str:
        """Scalars as one vector."""
        if len(scalars) == 1:
            return scalars[0]
        if len(set(scalars)) == 1:
            return self.splat(scalars[0], dtype, len(scalars), level)
        vector, scalar = type_of(dtype, len(scalars)), type_of(dtype, 1)
        result = "poison"
        for lane, text in enumerate(scalars):
            result = self.writer.pure(
                level, f"insertelement {vector} {result}, {scalar} {text}, i64 {lane}"
            )
        return result

    def regroup(self, scalars: Sequence[str], shape: Shape, dtype: DType, level: int) -> Value:
        """Scalars in row-major order as a value."""
        rows, place = [], 0
        for _ in range(size_of(shape[:-1])):
            row = []
            for length in self.row_lengths(shape):
                row.append(self.collect(scalars[place : place + length], dtype, level))
                place += length
            rows.append(row)
        return Value(dtype, shape, rows, level)

    def stacked(self, parts: Sequence[Value], shape: Shape, dtype: DType) -> Value:
        """Values of one shape along a new leading axis."""
        if all(part.constants is not None for part in parts):
            return self.constant([i for part in parts for i in part.constants or ()], shape, dtype)
        level = max(part.level for part in parts)
        rows = [row for part in parts for row in part.rows]
        if len(shape) > 1:
            return Value(dtype, shape, rows, level)
        return self.regroup([row[0] for row in rows], shape, dtype, level)

    def moved(self, value: Value, shape: Shape, places: Iterable[int]) -> Value:
        """The elements of `value` at `places`, row-major, in another shape."""
        order = list(places)
        if value.constants is not None:
            return self.constant([value.constants[i] for i in order], shape, value.dtype)
        scalars = self.elements(value)
        return self.regroup([scalars[i] for i in order], shape, value.dtype, value.level)

    def map(
        self, dtype: DType, shape: Shape, values: Sequence[Value], make: Callable[..., str]
    ) -> Value:
        """`make(level, length, *chunks)` of the vectors of broadcast values, one after another."""
        level = max((value.level for value in values), default=0)
        sources = [self.spread(value, shape) for value in values]
        lengths = self.row_lengths(shape)
        rows = [
            [make(level, *chunk) for chunk in zip(lengths, *row, strict=True)]
            for row in zip(*sources, strict=True)
        ]
        return Value(dtype, shape, rows, level)
