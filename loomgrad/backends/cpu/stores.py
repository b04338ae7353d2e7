"""Stores: consecutive lanes as vectors, others one by one or scattered, always in the order of the lanes."""

from __future__ import annotations

from collections.abc import Sequence

from loomgrad.backends.cpu.addresses import Addresses, Chunk, masked_call
from loomgrad.backends.cpu.types import memory_type, type_of
from loomgrad.backends.cpu.values import Lanes, Value
from loomgrad.ir.shape import Shape


def store(
    lanes: Lanes,
    addresses: Addresses,
    shape: Shape,
    rows: Sequence[Sequence[Chunk]],
    value: Value,
    gate: Value | None,
) -> None:
    """Write the lanes of `value`, where `gate` is true if there is one."""
    values = lanes.spread(value, shape)
    gates = [[""] * len(row) for row in rows] if gate is None else lanes.spread(gate, shape)
    writer = _Storer(lanes, addresses)
    for row in zip(rows, values, gates, strict=True):
        for chunk, name, condition in zip(*row, strict=True):
            writer.chunk(chunk, name, condition)


class _Storer:
    def __init__(self, lanes: Lanes, addresses: Addresses) -> None:
        self.writer, self.addresses = lanes.writer, addresses

    def chunk(self, chunk: Chunk, name: str, gate: str) -> None:
        """One vector of the access, or a scalar.  An empty `gate` is always true."""
        if chunk.dtype.is_bool:
            kind = type_of(chunk.dtype, chunk.length)
            name = self.writer.value(f"zext {kind} {name} to {chunk.memory_type}")
        value = f"{chunk.memory_type} {name}"
        if chunk.length == 1:
            self._scalar(chunk, value, gate)
        elif chunk.is_run:
            self._run(chunk, value, gate)
        elif gate or chunk.pointers:
            operands = f"{value}, {self.addresses.all(chunk)}"
            self.writer.effect(masked_call("scatter", chunk, operands, gate))
        else:
            self._lanes(chunk, value)

    def _plain(self, chunk: Chunk, value: str, offset: int) -> str:
        place = self.addresses.at(chunk, offset)
        return f"store {value}, ptr {place}, align {chunk.dtype.itemsize}"

    def _scalar(self, chunk: Chunk, value: str, gate: str) -> None:
        text = self._plain(chunk, value, chunk.offsets[0])
        if not gate:
            self.writer.effect(text)
            return
        with self.writer.when(gate):
            self.writer.effect(text)

    def _run(self, chunk: Chunk, value: str, gate: str) -> None:
        if not gate:
            self.writer.effect(self._plain(chunk, value, chunk.offsets[0]))
            return
        place = self.addresses.at(chunk, chunk.offsets[0])
        self.writer.effect(masked_call("store", chunk, f"{value}, ptr {place}", gate))

    def _lanes(self, chunk: Chunk, value: str) -> None:
        for lane, offset in enumerate(chunk.offsets):
            item = self.writer.value(f"extractelement {value}, i64 {lane}")
            element = f"{memory_type(chunk.dtype)} {item}"
            self.writer.effect(self._plain(chunk, element, offset))
