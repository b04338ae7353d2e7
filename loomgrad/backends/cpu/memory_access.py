"""Loads and stores: contiguous lanes as vectors, equal ones as scalars, others one by one or gathered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from loomgrad.backends.cpu.types import memory_type, suffix_of, type_of, vector_literal, vector_of
from loomgrad.backends.cpu.values import Lanes, Value
from loomgrad.codegen.lane_offsets import LaneOffsets
from loomgrad.dtype import DType, dtypes
from loomgrad.ir.shape import Shape, size_of
from loomgrad.ir.uop import UOp

NOWHERE = "@nowhere"  # what a gated load of one element reads where it must not read its own
NOWHERE_DEFINITION = f"{NOWHERE} = internal constant [16 x i8] zeroinitializer, align 16"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Lanes of one access that become one vector: element addresses are `pointer` plus the offsets.

    `level` is where the pointer is known.  `pointers` instead holds one address per lane if they are data.
    """

    length: int
    pointer: str
    level: int
    offsets: tuple[int, ...] = ()
    pointers: str = ""


class Memory:
    """Writes the accesses of one function.  `scalar` gives a term of an address as an i64, with its level."""

    def __init__(self, lanes: Lanes, scalar: Callable[[UOp, Shape, int], tuple[str, int]]) -> None:
        self.lanes = lanes
        self.writer = lanes.writer
        self.scalar = scalar

    # ---- addresses

    def affine_rows(
        self, pointer: str, dtype: DType, shape: Shape, found: LaneOffsets
    ) -> list[list[Chunk]]:
        """The chunks of an access whose lanes lie at constant offsets."""
        rows, place = [], 0
        for number in range(size_of(shape[:-1])):
            base, level = self._base(pointer, dtype, shape, number, found)
            row = []
            for length in self.lanes.row_lengths(shape):
                row.append(Chunk(length, base, level, found.offsets[place : place + length]))
                place += length
            rows.append(row)
        return rows

    def _base(
        self, pointer: str, dtype: DType, shape: Shape, row: int, found: LaneOffsets
    ) -> tuple[str, int]:
        """Pointer plus terms: what is known further out is added first, once for all inner loops."""
        by_level: dict[int, str] = {}
        for node, factor in found.terms:
            name, level = self.scalar(node, shape, row)
            if factor != 1:
                name = self.writer.pure(level, f"mul i64 {name}, {factor}")
            if level in by_level:
                name = self.writer.pure(level, f"add i64 {by_level[level]}, {name}")
            by_level[level] = name
        for level, name in sorted(by_level.items()):
            pointer = self._step(pointer, dtype, name, level)
        return pointer, max(by_level, default=0)

    def data_rows(self, pointer: str, dtype: DType, index: Value) -> list[list[Chunk]]:
        """The chunks of an access whose lanes lie where a value says."""
        element, level = memory_type(dtype), index.level
        rows = []
        for row in index.rows:
            chunks = []
            lengths = self.lanes.row_lengths(index.shape)
            for name, length in zip(row, lengths, strict=True):
                offsets = f"{type_of(index.dtype, length)} {name}"
                if index.dtype.is_unsigned and index.dtype.bits < 64:
                    wide = vector_of("i64", length)
                    offsets = f"{wide} {self.writer.pure(level, f'zext {offsets} to {wide}')}"
                place = f"getelementptr {element}, ptr {pointer}, {offsets}"
                places = self.writer.pure(level, place)
                if length == 1:
                    chunks.append(Chunk(1, places, level, (0,)))
                else:
                    chunks.append(Chunk(length, pointer, level, pointers=places))
            rows.append(chunks)
        return rows

    def _step(self, pointer: str, dtype: DType, offset: str | int, level: int) -> str:
        if offset == 0:
            return pointer
        return self.writer.pure(
            level, f"getelementptr {memory_type(dtype)}, ptr {pointer}, i64 {offset}"
        )

    def _pointers(self, chunk: Chunk, dtype: DType) -> str:
        """The address of each lane, as a vector."""
        if chunk.pointers:
            return chunk.pointers
        offsets = vector_literal([str(offset) for offset in chunk.offsets], dtypes.int64)
        place = f"getelementptr {memory_type(dtype)}, ptr {chunk.pointer}"
        return self.writer.pure(chunk.level, f"{place}, <{chunk.length} x i64> {offsets}")

    # ---- loads

    def load(
        self,
        dtype: DType,
        shape: Shape,
        rows: Sequence[Sequence[Chunk]],
        alternative: Value | None,
        gate: Value | None,
    ) -> Value:
        """The lanes at the addresses; where `gate` is false nothing is read and `alternative` taken."""
        if gate is not None and alternative is None:
            alternative = self.lanes.constant([0], (), dtype)
        gates = (
            [[""] * len(row) for row in rows] if gate is None else self.lanes.spread(gate, shape)
        )
        others = gates if alternative is None else self.lanes.spread(alternative, shape)
        reader = _Reader(self, dtype)
        loaded = [
            [reader.chunk(*item) for item in zip(*row, strict=True)]
            for row in zip(rows, gates, others, strict=True)
        ]
        return Value(dtype, shape, loaded, self.writer.level)

    # ---- stores

    def store(
        self,
        dtype: DType,
        shape: Shape,
        rows: Sequence[Sequence[Chunk]],
        value: Value,
        gate: Value | None,
    ) -> None:
        """Write the lanes, in order, where `gate` is true."""
        values = self.lanes.spread(value, shape)
        gates = (
            [[""] * len(row) for row in rows] if gate is None else self.lanes.spread(gate, shape)
        )
        for row in zip(rows, values, gates, strict=True):
            for chunk, name, condition in zip(*row, strict=True):
                self._store_chunk(dtype, chunk, name, condition)

    def _store_chunk(self, dtype: DType, chunk: Chunk, name: str, gate: str) -> None:
        kind, size = vector_of(memory_type(dtype), chunk.length), dtype.itemsize
        if dtype.is_bool:
            name = self.writer.value(f"zext {type_of(dtype, chunk.length)} {name} to {kind}")
        if chunk.length == 1:
            place = self._step(chunk.pointer, dtype, chunk.offsets[0], chunk.level)
            store = f"store {kind} {name}, ptr {place}, align {size}"
            if gate in ("", "true"):
                self.writer.effect(store)
            else:
                with self.writer.when(gate):
                    self.writer.effect(store)
        elif _is_run(chunk.offsets):
            place = self._step(chunk.pointer, dtype, chunk.offsets[0], chunk.level)
            if gate:
                self._masked("store", dtype, chunk.length, f"{kind} {name}, ptr {place}", gate)
            else:
                self.writer.effect(f"store {kind} {name}, ptr {place}, align {size}")
        elif gate or chunk.pointers:
            places = f"<{chunk.length} x ptr> {self._pointers(chunk, dtype)}"
            self._masked("scatter", dtype, chunk.length, f"{kind} {name}, {places}", gate)
        else:
            for lane, offset in enumerate(chunk.offsets):
                item = self.writer.value(f"extractelement {kind} {name}, i64 {lane}")
                place = self._step(chunk.pointer, dtype, offset, chunk.level)
                self.writer.effect(f"store {memory_type(dtype)} {item}, ptr {place}, align {size}")

    def _masked(self, verb: str, dtype: DType, length: int, operands: str, gate: str) -> None:
        stored = dtypes.uint8 if dtype.is_bool else dtype
        place = "p0" if verb == "store" else f"v{length}p0"
        mask = f"<{length} x i1> {gate or 'splat (i1 true)'}"
        self.writer.effect(
            f"call void @llvm.masked.{verb}.{suffix_of(stored, length)}.{place}"
            f"({operands}, i32 {dtype.itemsize}, {mask})"
        )


class _Reader:
    """Loads the chunks of one access; elements that several lanes share are loaded once."""

    def __init__(self, memory: Memory, dtype: DType) -> None:
        self.memory, self.dtype = memory, dtype
        self.writer, self.lanes = memory.writer, memory.lanes
        self.scalars: dict[tuple[str, int, str, str], str] = {}

    def chunk(self, chunk: Chunk, gate: str, other: str) -> str:
        """One vector of the access, or a scalar."""
        length, offsets = chunk.length, chunk.offsets
        if length == 1:
            return self._scalar(chunk, offsets[0], gate, other)
        if not gate and offsets and len(set(offsets)) == 1:
            scalar = self._scalar(chunk, offsets[0], "", "")
            return self.lanes.splat(scalar, self.dtype, length, self.writer.level)
        if _is_run(offsets):
            return self._run(chunk, offsets[0], gate, other)
        if not gate and offsets and _is_run(offsets[::-1]):
            return self._reversed(chunk)
        if not gate and offsets:
            scalars = [self._scalar(chunk, offset, "", "") for offset in offsets]
            return self.lanes.collect(scalars, self.dtype, self.writer.level)
        return self._gather(chunk, gate, other)

    def _scalar(self, chunk: Chunk, offset: int, gate: str, other: str) -> str:
        key = (chunk.pointer, offset, gate, other)
        if key not in self.scalars:
            place = self.memory._step(chunk.pointer, self.dtype, offset, chunk.level)
            if gate:
                place = self.writer.value(f"select i1 {gate}, ptr {place}, ptr {NOWHERE}")
            loaded = self._from_memory(self._plain(place, 1), 1)
            if gate:
                kind = type_of(self.dtype, 1)
                loaded = self.writer.value(f"select i1 {gate}, {kind} {loaded}, {kind} {other}")
            self.scalars[key] = loaded
        return self.scalars[key]

    def _plain(self, place: str, length: int) -> str:
        kind = vector_of(memory_type(self.dtype), length)
        return self.writer.value(f"load {kind}, ptr {place}, align {self.dtype.itemsize}")

    def _run(self, chunk: Chunk, offset: int, gate: str, other: str) -> str:
        place = self.memory._step(chunk.pointer, self.dtype, offset, chunk.level)
        if not gate:
            return self._from_memory(self._plain(place, chunk.length), chunk.length)
        return self._masked("load", f"ptr {place}", chunk.length, gate, other)

    def _reversed(self, chunk: Chunk) -> str:
        length = chunk.length
        run = self._run(chunk, chunk.offsets[-1], "", "")
        kind = type_of(self.dtype, length)
        order = ", ".join(f"i32 {lane}" for lane in reversed(range(length)))
        return self.writer.value(
            f"shufflevector {kind} {run}, {kind} poison, <{length} x i32> <{order}>"
        )

    def _gather(self, chunk: Chunk, gate: str, other: str) -> str:
        places = f"<{chunk.length} x ptr> {self.memory._pointers(chunk, self.dtype)}"
        return self._masked("gather", places, chunk.length, gate, other)

    def _masked(self, verb: str, places: str, length: int, gate: str, other: str) -> str:
        stored = dtypes.uint8 if self.dtype.is_bool else self.dtype
        kind = vector_of(memory_type(self.dtype), length)
        if gate and self.dtype.is_bool:
            other = self.writer.value(f"zext {type_of(self.dtype, length)} {other} to {kind}")
        suffix = f"{suffix_of(stored, length)}.{'p0' if verb == 'load' else f'v{length}p0'}"
        mask = f"<{length} x i1> {gate or 'splat (i1 true)'}"
        loaded = self.writer.value(
            f"call {kind} @llvm.masked.{verb}.{suffix}"
            f"({places}, i32 {self.dtype.itemsize}, {mask}, {kind} {other or 'poison'})"
        )
        return self._from_memory(loaded, length)

    def _from_memory(self, name: str, length: int) -> str:
        if not self.dtype.is_bool:
            return name
        return self.writer.value(f"icmp ne {vector_of('i8', length)} {name}, zeroinitializer")


def _is_run(offsets: Sequence[int]) -> bool:
    """Whether offsets are consecutive."""
    return bool(offsets) and offsets == tuple(range(offsets[0], offsets[0] + len(offsets)))
