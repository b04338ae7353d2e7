"""Loads: consecutive lanes as vectors, equal ones as one scalar, others one by one or gathered."""

from __future__ import annotations

from collections.abc import Sequence

from loomgrad.backends.cpu.addresses import Addresses, Chunk, masked_call
from loomgrad.backends.cpu.types import memory_type, type_of, vector_of
from loomgrad.backends.cpu.values import Lanes, Value
from loomgrad.dtype import DType
from loomgrad.ir.shape import Shape

NOWHERE = "@nowhere"  # what a gated load of one element reads where it must not read its own
NOWHERE_DEFINITION = f"{NOWHERE} = internal constant [16 x i8] zeroinitializer, align 16"


def load(
    lanes: Lanes,
    addresses: Addresses,
    shape: Shape,
    rows: Sequence[Sequence[Chunk]],
    dtype: DType,
    alternative: Value | None,
    gate: Value | None,
) -> Value:
    """The lanes at the addresses; where `gate` is false nothing is read and the result is `alternative`."""
    gates = others = [[""] * len(row) for row in rows]
    if gate is not None:
        gates = lanes.spread(gate, shape)
        others = lanes.spread(alternative or lanes.constant([0], (), dtype), shape)
    reader = _Reader(lanes, addresses, dtype)
    loaded = [
        [reader.chunk(*item) for item in zip(*row, strict=True)]
        for row in zip(rows, gates, others, strict=True)
    ]
    return Value(dtype, shape, loaded, lanes.writer.level)


class _Reader:
    """Loads the chunks of one access; an element that several lanes share is loaded once."""

    def __init__(self, lanes: Lanes, addresses: Addresses, dtype: DType) -> None:
        self.lanes, self.addresses, self.dtype = lanes, addresses, dtype
        self.writer = lanes.writer
        self.scalars: dict[tuple[str, int], str] = {}

    def chunk(self, chunk: Chunk, gate: str, other: str) -> str:
        """One vector of the access, or a scalar.  An empty `gate` is always true."""
        if chunk.length == 1:
            return (
                self._gated_scalar(chunk, gate, other)
                if gate
                else self._scalar(chunk, chunk.offsets[0])
            )
        if gate:
            return self._masked(chunk, gate, other)
        if chunk.pointers:
            return self._masked(chunk, "", "poison")
        if chunk.is_run:
            return self._plain(self.addresses.at(chunk, chunk.offsets[0]), chunk.length)
        if chunk.is_reversed_run:
            return self._reversed(chunk)
        scalars = [self._scalar(chunk, offset) for offset in chunk.offsets]
        return self.lanes.collect(scalars, self.dtype, self.writer.level)

    def _plain(self, place: str, length: int) -> str:
        kind = vector_of(memory_type(self.dtype), length)
        loaded = self.writer.value(f"load {kind}, ptr {place}, align {self.dtype.itemsize}")
        return self._from_memory(loaded, length)

    def _scalar(self, chunk: Chunk, offset: int) -> str:
        key = chunk.pointer, offset
        if key not in self.scalars:
            self.scalars[key] = self._plain(self.addresses.at(chunk, offset), 1)
        return self.scalars[key]

    def _gated_scalar(self, chunk: Chunk, gate: str, other: str) -> str:
        place = self.addresses.at(chunk, chunk.offsets[0])
        place = self.writer.value(f"select i1 {gate}, ptr {place}, ptr {NOWHERE}")
        loaded, kind = self._plain(place, 1), type_of(self.dtype, 1)
        return self.writer.value(f"select i1 {gate}, {kind} {loaded}, {kind} {other}")

    def _reversed(self, chunk: Chunk) -> str:
        run = self._plain(self.addresses.at(chunk, chunk.offsets[-1]), chunk.length)
        kind = type_of(self.dtype, chunk.length)
        order = ", ".join(f"i32 {lane}" for lane in reversed(range(chunk.length)))
        return self.writer.value(
            f"shufflevector {kind} {run}, {kind} poison, <{chunk.length} x i32> <{order}>"
        )

    def _masked(self, chunk: Chunk, gate: str, other: str) -> str:
        if gate and self.dtype.is_bool:
            kind = type_of(self.dtype, chunk.length)
            other = self.writer.value(f"zext {kind} {other} to {chunk.memory_type}")
        if chunk.is_run:
            place = f"ptr {self.addresses.at(chunk, chunk.offsets[0])}"
            text = masked_call("load", chunk, place, gate, other)
        else:
            text = masked_call("gather", chunk, self.addresses.all(chunk), gate, other)
        return self._from_memory(self.writer.value(text), chunk.length)

    def _from_memory(self, name: str, length: int) -> str:
        """A bool is a byte in memory, true unless 0."""
        if not self.dtype.is_bool:
            return name
        return self.writer.value(f"icmp ne {vector_of('i8', length)} {name}, zeroinitializer")
