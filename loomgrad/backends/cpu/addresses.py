"""Addresses of the lanes of an access, by vectors of lanes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from loomgrad.backends.cpu.types import memory_type, type_of, vector_literal, vector_of
from loomgrad.backends.cpu.values import Lanes, Value
from loomgrad.codegen.lane_offsets import LaneOffsets
from loomgrad.dtype import DType, dtypes
from loomgrad.ir.shape import Shape, size_of
from loomgrad.ir.uop import UOp

# Gives a term of an address, for a row of lanes of a shape, as an i64 with the level where it is known.
Term = Callable[[UOp, Shape, int], tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Lanes of an access that become one vector: lane i is `offsets[i]` elements after `pointer`.

    `level` is where the pointer is known.  Where lanes lie is data if `pointers`, their addresses, is not empty.
    """

    dtype: DType
    length: int
    pointer: str
    level: int
    offsets: tuple[int, ...] = ()
    pointers: str = ""

    @property
    def is_run(self) -> bool:
        """Whether the lanes are consecutive."""
        return bool(self.offsets) and self.offsets == tuple(
            range(self.offsets[0], self.offsets[0] + self.length)
        )

    @property
    def is_reversed_run(self) -> bool:
        """Whether the lanes are consecutive from the last to the first."""
        return bool(self.offsets) and self.offsets == tuple(
            range(self.offsets[0], self.offsets[0] - self.length, -1)
        )

    @property
    def memory_type(self) -> str:
        """The type of the lanes in memory."""
        return vector_of(memory_type(self.dtype), self.length)


class Addresses:
    """Writes address arithmetic: sums of terms in 64 bits, constant distances from there."""

    def __init__(self, lanes: Lanes, term: Term) -> None:
        self.lanes, self.writer, self.term = lanes, lanes.writer, term

    def constant(
        self, pointer: str, dtype: DType, shape: Shape, found: LaneOffsets
    ) -> list[list[Chunk]]:
        """The chunks of an access whose lanes lie at constant distances from each other."""
        rows, place = [], 0
        for number in range(size_of(shape[:-1])):
            base, level = self._base(pointer, dtype, shape, number, found)
            row = []
            for length in self.lanes.row_lengths(shape):
                offsets = found.offsets[place : place + length]
                row.append(Chunk(dtype, length, base, level, offsets))
                place += length
            rows.append(row)
        return rows

    def _base(
        self, pointer: str, dtype: DType, shape: Shape, row: int, found: LaneOffsets
    ) -> tuple[str, int]:
        """Pointer plus terms: what is known further out is added first, once for all inner loops."""
        by_level: dict[int, str] = {}
        for node, factor in found.terms:
            name, level = self.term(node, shape, row)
            if factor != 1:
                name = self.writer.pure(level, f"mul i64 {name}, {factor}")
            if level in by_level:
                name = self.writer.pure(level, f"add i64 {by_level[level]}, {name}")
            by_level[level] = name
        for level, name in sorted(by_level.items()):
            pointer = self._step(pointer, dtype, name, level)
        return pointer, max(by_level, default=0)

    def data(self, pointer: str, dtype: DType, index: Value) -> list[list[Chunk]]:
        """The chunks of an access whose lanes lie where a value says."""
        lengths = self.lanes.row_lengths(index.shape)
        return [
            [
                self._data_chunk(pointer, dtype, index, name, length)
                for name, length in zip(row, lengths, strict=True)
            ]
            for row in index.rows
        ]

    def _data_chunk(
        self, pointer: str, dtype: DType, index: Value, name: str, length: int
    ) -> Chunk:
        distances = f"{type_of(index.dtype, length)} {name}"
        if index.dtype.is_unsigned and index.dtype.bits < 64:
            wide = vector_of("i64", length)
            distances = f"{wide} {self.writer.pure(index.level, f'zext {distances} to {wide}')}"
        places = self.writer.pure(
            index.level, f"getelementptr {memory_type(dtype)}, ptr {pointer}, {distances}"
        )
        if length == 1:
            return Chunk(dtype, 1, places, index.level, (0,))
        return Chunk(dtype, length, pointer, index.level, pointers=places)

    def at(self, chunk: Chunk, offset: int) -> str:
        """The address of the element `offset` after the chunk's pointer."""
        if offset == 0:
            return chunk.pointer
        return self._step(chunk.pointer, chunk.dtype, str(offset), chunk.level)

    def all(self, chunk: Chunk) -> str:
        """The addresses of all lanes as an operand with its type."""
        places = chunk.pointers
        if not places:
            offsets = vector_literal([str(offset) for offset in chunk.offsets], dtypes.int64)
            distances = f"<{chunk.length} x i64> {offsets}"
            element = memory_type(chunk.dtype)
            places = self.writer.pure(
                chunk.level, f"getelementptr {element}, ptr {chunk.pointer}, {distances}"
            )
        return f"<{chunk.length} x ptr> {places}"

    def _step(self, pointer: str, dtype: DType, distance: str, level: int) -> str:
        return self.writer.pure(
            level, f"getelementptr {memory_type(dtype)}, ptr {pointer}, i64 {distance}"
        )


def masked_call(verb: str, chunk: Chunk, operands: str, gate: str, result: str = "") -> str:
    """A call of llvm.masked.load, store, gather or scatter; `result` is what gives the value of lanes not read."""
    stored = dtypes.uint8 if chunk.dtype.is_bool else chunk.dtype
    letter = "f" if stored.is_float and stored is not dtypes.bfloat16 else "i"
    places = "p0" if verb in ("load", "store") else f"v{chunk.length}p0"
    mask = f"<{chunk.length} x i1> {gate or 'splat (i1 true)'}"
    last = f", {chunk.memory_type} {result}" if result else ""
    return (
        f"call {chunk.memory_type if result else 'void'} "
        f"@llvm.masked.{verb}.v{chunk.length}{letter}{stored.bits}.{places}"
        f"({operands}, i32 {stored.itemsize}, {mask}{last})"
    )
