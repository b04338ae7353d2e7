"""A LINEAR program as LLVM IR text.

The exported function `void NAME(ptr args, i64 lo, i64 hi)` loads the pointers and calls the body, whose pointer
parameters LLVM may take to be distinct: no two buffers of a kernel overlap in memory that one of them writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from loomgrad.backends.cpu import arithmetic
from loomgrad.backends.cpu.memory_access import NOWHERE, NOWHERE_DEFINITION, Chunk, Memory
from loomgrad.backends.cpu.types import memory_type, scalar_type, type_of
from loomgrad.backends.cpu.values import Lanes, Value
from loomgrad.backends.cpu.writer import Writer
from loomgrad.codegen.lane_offsets import (
    LaneOffsets,
    broadcast_places,
    lane_offsets,
    permuted_places,
)
from loomgrad.dtype import DType, dtypes
from loomgrad.errors import UnsupportedError
from loomgrad.ir.args import AddrSpace, AxisType, ParamArg
from loomgrad.ir.opcode import GroupOp, Op, Ops
from loomgrad.ir.shape import Shape, size_of
from loomgrad.ir.uop import UOp
from loomgrad.target import Target

SCRATCH_ALIGNMENT = 64


def render(name: str, linear: UOp, target: Target) -> str:
    """The module of a kernel.

    Raises: UnsupportedError for an operation or dtype that has no spelling here.
    """
    function = _Function(linear.src, target)
    for node in linear.src:
        function.node(node)
    return function.module(name)


@dataclass
class _Storage:
    """Where a BUFFER or PARAM is: a pointer, or for registers the rows of their vectors' places."""

    pointer: str = ""
    rows: list[list[str]] = field(default_factory=list)


class _Function:
    """The state of writing one kernel."""

    def __init__(self, nodes: tuple[UOp, ...], target: Target) -> None:
        self.writer = Writer()
        self.places = _index_places(nodes)
        self.needed = _needed_nodes(nodes, self.places)
        self.lanes = Lanes(self.writer, _vector_width(self.needed, target))
        self.memory = Memory(self.lanes, self.term)
        self.values: dict[UOp, Value] = {}
        self.counters: dict[UOp, tuple[str, int]] = {}  # RANGE -> its counter as i64, its level
        self.open_ranges: list[UOp] = []
        self.storage: dict[UOp, _Storage] = {}
        self.parameters: dict[int, UOp] = {}
        self.written: set[int] = set()

    def node(self, node: UOp) -> None:
        """Write one node of the program."""
        handler = _HANDLERS.get(node.op)
        if handler is not None:
            if node.op in _ALWAYS or node in self.needed:
                handler(self, node)
        elif node.op in GroupOp.Elementwise:
            if node in self.needed:
                self.values[node] = self._elementwise(node)
        elif node.op not in _SILENT:
            raise UnsupportedError(f"the CPU backend does not know {node.op.name} in a program")

    def value(self, node: UOp) -> Value:
        """The registers of a node that was written before; constants need not have been."""
        found = self.values.get(node)
        if found is None:
            if node.op is Ops.RANGE:
                found = self._range_value(node)
            elif node.op is Ops.AFTER:
                found = self.value(node.src[0])
            elif node.is_const():
                found = self.lanes.constant(
                    [node.val], (), node.src[0].dtype if node.src else node.dtype
                )
                found = self.lanes.converted(found, node.dtype)
            else:
                raise UnsupportedError(f"{node.op.name} is used before its place in the program")
            self.values[node] = found
        return found

    # ---- values

    def _elementwise(self, node: UOp) -> Value:
        if node.op is Ops.CAST:
            return arithmetic.cast(self.lanes, self.value(node.src[0]), node.dtype)
        if node.op is Ops.BITCAST:
            return arithmetic.bitcast(self.lanes, self.value(node.src[0]), node.dtype)
        operands = [self.value(source) for source in node.src]
        return arithmetic.elementwise(self.lanes, node.op, node.dtype, node.shape, operands)

    def _range_value(self, node: UOp) -> Value:
        counter, level = self.counters[node]
        if node.dtype.bits < 64:
            counter = self.writer.pure(level, f"trunc i64 {counter} to {scalar_type(node.dtype)}")
        return Value(node.dtype, (), [[counter]], level)

    def stack(self, node: UOp) -> None:
        """Values along a new leading axis."""
        parts = [self.value(source) for source in node.src]
        dtype, shape = node.dtype, node.shape
        if all(part.constants is not None for part in parts):
            elements = [item for part in parts for item in part.constants or ()]
            self.values[node] = self.lanes.constant(elements, shape, dtype)
            return
        parts = [self.lanes.converted(part, dtype) for part in parts]
        level = max(part.level for part in parts)
        if len(shape) > 1:
            self.values[node] = Value(
                dtype, shape, [row for part in parts for row in part.rows], level
            )
        else:
            scalars = [part.rows[0][0] for part in parts]
            self.values[node] = self.lanes.regroup(scalars, shape, dtype, level)

    def move(self, node: UOp) -> None:
        """RESHAPE, PERMUTE and EXPAND over lane axes."""
        source = self.value(node.src[0])
        count = size_of(source.shape)
        if node.op is Ops.PERMUTE:
            places: tuple[int, ...] = permuted_places(source.shape, node.axes)
        elif node.op is Ops.EXPAND:
            places = tuple(range(count)) * (size_of(node.shape) // max(1, count))
        else:
            places = tuple(range(count))
        self.values[node] = self.lanes.moved(source, node.shape, places)

    def reduce(self, node: UOp) -> None:
        """Lanes folded into fewer."""
        if len(node.src) > 1:
            raise UnsupportedError("a REDUCE over loops must have become an accumulator")
        value = self.value(node.src[0])
        self.values[node] = arithmetic.reduce(self.lanes, node.arg.op, value, node.arg.count)

    # ---- loops

    def begin(self, node: UOp) -> None:
        """A loop; one over threads runs over the interval that this call was given."""
        if node.arg.kind is AxisType.THREAD:
            start, end, runs = "%lo", "%hi", False
        elif node.src[0].is_const():
            extent = int(node.src[0].val)
            start, end, runs = "0", str(extent), extent > 0
        else:
            end, level = self.term(node.src[0], (), 0)
            start, runs = "0", False
            assert level <= self.writer.level
        counter = self.writer.open_loop(start, end, runs=runs)
        self.counters[node] = counter, self.writer.level
        self.open_ranges.append(node)

    def end(self, node: UOp) -> None:
        """The end of one or several loops, innermost first."""
        ending = set(node.src[1:])
        while self.open_ranges and self.open_ranges[-1] in ending:
            self.open_ranges.pop()
            self.writer.close_loop()

    # ---- memory

    def term(self, node: UOp, shape: Shape, row: int) -> tuple[str, int]:
        """A scalar of an address as i64, and its level: the element of `node` in a row of lanes."""
        if (counter := self.counters.get(node)) is not None:
            return counter
        value = self.value(node)
        if value.constants is not None:
            value = self.lanes.converted(value, dtypes.int64)
        place = broadcast_places(value.shape[:-1], shape[:-1])[row]
        name, level = value.rows[place][0], value.level
        if value.dtype.itemsize < 8:
            verb = "zext" if value.dtype.is_unsigned or value.dtype.is_bool else "sext"
            name = self.writer.pure(level, f"{verb} {scalar_type(value.dtype)} {name} to i64")
        return name, level

    def load(self, node: UOp) -> None:
        """A read of memory or registers."""
        target = node.src[0]
        if target.op is not Ops.INDEX:
            self.values[node] = self._load_registers(target, node.dtype)
            return
        alternative = self.value(node.src[1]) if len(node.src) > 2 else None
        gate = self.value(node.src[2]) if len(node.src) > 2 else None
        if alternative is not None:
            alternative = self.lanes.converted(alternative, node.dtype)
        rows = self._chunks(target)
        self.values[node] = self.memory.load(node.dtype, target.shape, rows, alternative, gate)

    def store(self, node: UOp) -> None:
        """A write of memory or registers."""
        target, gate = node.src[0], self.value(node.src[2]) if len(node.src) > 2 else None
        dtype = _storage_node(target).arg.dtype
        value = self.lanes.converted(self.value(node.src[1]), dtype)
        if target.op is not Ops.INDEX:
            self._store_registers(target, value)
            return
        storage = _storage_node(target)
        if storage.op is Ops.PARAM:
            self.written.add(storage.arg.slot)
        self.memory.store(dtype, target.shape, self._chunks(target), value, gate)

    def _chunks(self, index: UOp) -> list[list[Chunk]]:
        storage = _storage_node(index)
        pointer = self._storage_of(storage).pointer
        found = self.places[index]
        if found is None:
            return self.memory.data_rows(pointer, storage.arg.dtype, self.value(index.src[1]))
        return self.memory.affine_rows(pointer, storage.arg.dtype, index.shape, found)

    def _load_registers(self, target: UOp, dtype: DType) -> Value:
        storage = _storage_node(target)
        lengths = self.lanes.row_lengths(storage.shape)
        rows = [
            [
                self.writer.value(f"load {type_of(dtype, length)}, ptr {place}")
                for place, length in zip(row, lengths, strict=True)
            ]
            for row in self._storage_of(storage).rows
        ]
        return Value(dtype, storage.shape, rows, self.writer.level)

    def _store_registers(self, target: UOp, value: Value) -> None:
        storage = _storage_node(target)
        lengths = self.lanes.row_lengths(storage.shape)
        rows = self.lanes.spread(value, storage.shape)
        for names, places in zip(rows, self._storage_of(storage).rows, strict=True):
            for name, place, length in zip(names, places, lengths, strict=True):
                self.writer.effect(f"store {type_of(value.dtype, length)} {name}, ptr {place}")

    def _storage_of(self, node: UOp) -> _Storage:
        found = self.storage.get(node)
        if found is None:
            found = self.storage[node] = self._new_storage(node)
        return found

    def _new_storage(self, node: UOp) -> _Storage:
        arg = node.arg
        assert isinstance(arg, ParamArg)
        if node.op is Ops.PARAM:
            self.parameters[arg.slot] = node
            return _Storage(f"%p{arg.slot}")
        if arg.addrspace is AddrSpace.REG:
            lengths = self.lanes.row_lengths(node.shape)
            return _Storage(
                rows=[
                    [self._register(arg.dtype, length) for length in lengths]
                    for _ in range(size_of(node.shape[:-1]))
                ]
            )
        if arg.addrspace is not AddrSpace.LOCAL:
            raise UnsupportedError("a kernel reaches memory through PARAMs only")
        kind = f"[{arg.size} x {memory_type(arg.dtype)}]"
        return _Storage(self.writer.reserve(kind, SCRATCH_ALIGNMENT))

    def _register(self, dtype: DType, length: int) -> str:
        alignment = min(64, max(1, dtype.itemsize) * (1 << (length - 1).bit_length()))
        return self.writer.reserve(type_of(dtype, length), alignment)

    # ---- the module

    def module(self, name: str) -> str:
        """The whole text."""
        while self.writer.level:
            self.writer.close_loop()
        slots = sorted(self.parameters)
        body = self.writer.text()
        formal = [
            f"ptr noalias{'' if slot in self.written else ' readonly'} %p{slot}" for slot in slots
        ]
        actual = [f"ptr %p{slot}" for slot in slots]
        lines = [
            *([NOWHERE_DEFINITION] if NOWHERE in body else []),
            f"define void @{name}(ptr %args, i64 %lo, i64 %hi) {{",
            *(f"  %a{slot} = getelementptr ptr, ptr %args, i64 {slot}" for slot in slots),
            *(f"  %p{slot} = load ptr, ptr %a{slot}, align 8" for slot in slots),
            f"  call void @{name}.body({', '.join([*actual, 'i64 %lo', 'i64 %hi'])})",
            "  ret void",
            "}",
            f"define internal void @{name}.body({', '.join([*formal, 'i64 %lo', 'i64 %hi'])}) nounwind {{",
            body,
            "}",
        ]
        return "\n".join(lines) + "\n"


_SILENT = frozenset((Ops.PARAM, Ops.BUFFER, Ops.CONST, Ops.INDEX, Ops.AFTER, Ops.GROUP, Ops.SINK))
_ALWAYS = frozenset((Ops.RANGE, Ops.END, Ops.STORE))
_HANDLERS: dict[Op, Callable[[_Function, UOp], None]] = {
    Ops.RANGE: _Function.begin,
    Ops.END: _Function.end,
    Ops.LOAD: _Function.load,
    Ops.STORE: _Function.store,
    Ops.STACK: _Function.stack,
    Ops.RESHAPE: _Function.move,
    Ops.PERMUTE: _Function.move,
    Ops.EXPAND: _Function.move,
    Ops.REDUCE: _Function.reduce,
}


def _storage_node(target: UOp) -> UOp:
    """The BUFFER or PARAM that an address refers to."""
    while target.op is Ops.AFTER or target.op is Ops.INDEX:
        target = target.src[0]
    return target


def _index_places(nodes: tuple[UOp, ...]) -> dict[UOp, LaneOffsets | None]:
    """What is known of the lanes of every INDEX."""
    return {node: lane_offsets(node.src[1]) for node in nodes if node.op is Ops.INDEX}


def _needed_nodes(nodes: tuple[UOp, ...], places: dict[UOp, LaneOffsets | None]) -> dict[UOp, None]:
    """The nodes whose values the effects need in registers, in no particular order.

    Index arithmetic is mostly not among them: an access needs only the terms of its address.
    """
    needed: dict[UOp, None] = {}
    for node in reversed(nodes):
        if node.op not in _ALWAYS and node not in needed:
            continue
        if node.op is Ops.LOAD or node.op is Ops.STORE:
            needed |= dict.fromkeys(node.src[1:])
            if (index := node.src[0]).op is Ops.INDEX:
                found = places[index]
                needed |= dict.fromkeys(
                    [index.src[1]] if found is None else [t for t, _ in found.terms]
                )
        elif node.op is not Ops.END:
            sources = (
                node.src[:1] if node.op in GroupOp.Movement or node.op is Ops.AFTER else node.src
            )
            needed |= dict.fromkeys(sources)
    return needed


def _vector_width(needed: dict[UOp, None], target: Target) -> int:
    """Lanes per vector: as many as the narrowest elements that are loaded, stored or accumulated fill."""
    moved = [
        node.dtype
        for node in needed
        if node.op is Ops.LOAD and not node.dtype.is_bool and size_of(node.shape) > 1
    ]
    narrowest = min(moved, key=lambda dtype: dtype.itemsize, default=dtypes.float32)
    return max(1, target.vector_width(narrowest))
