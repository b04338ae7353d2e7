"""A LINEAR program as LLVM IR text.

The exported function `void NAME(ptr args, i64 lo, i64 hi)` loads the pointers and calls the body, whose pointer
parameters LLVM may take to be distinct: no two buffers of a kernel overlap in memory that one of them writes.
"""

from __future__ import annotations

from collections.abc import Callable

from loomgrad.backends.cpu import arithmetic
from loomgrad.backends.cpu.addresses import Addresses, Chunk
from loomgrad.backends.cpu.demand import folds_last_axis, index_places, needed_nodes, vector_width
from loomgrad.backends.cpu.loads import NOWHERE, NOWHERE_DEFINITION, load
from loomgrad.backends.cpu.storage import Storage, storage_node
from loomgrad.backends.cpu.stores import store
from loomgrad.backends.cpu.types import scalar_type
from loomgrad.backends.cpu.values import Lanes, Value
from loomgrad.backends.cpu.writer import Writer
from loomgrad.codegen.lane_offsets import broadcast_places, permuted_places
from loomgrad.dtype import dtypes
from loomgrad.errors import UnsupportedError
from loomgrad.ir.args import AxisType
from loomgrad.ir.opcode import GroupOp, Op, Ops
from loomgrad.ir.shape import Shape, size_of
from loomgrad.ir.uop import UOp
from loomgrad.target import Target


def render(name: str, linear: UOp, target: Target) -> str:
    """The module of a kernel.

    Raises: UnsupportedError for an operation or dtype that has no spelling here.
    """
    function = _Function(linear.src, target)
    for node in linear.src:
        function.node(node)
    return _module(name, function.storage, function.writer.text())


def _module(name: str, storage: Storage, body: str) -> str:
    """The text of a module from that of the body of its kernel."""
    slots = sorted(storage.parameters)
    formal = [
        f"ptr noalias{'' if slot in storage.written else ' readonly'} %p{slot}" for slot in slots
    ]
    actual = [f"ptr %p{slot}" for slot in slots]
    interval = ["i64 %lo", "i64 %hi"]
    lines = [
        *([NOWHERE_DEFINITION] if NOWHERE in body else []),
        f"define void @{name}(ptr %args, i64 %lo, i64 %hi) {{",
        *(f"  %a{slot} = getelementptr ptr, ptr %args, i64 {slot}" for slot in slots),
        *(f"  %p{slot} = load ptr, ptr %a{slot}, align 8" for slot in slots),
        f"  call void @{name}.body({', '.join(actual + interval)})",
        "  ret void",
        "}",
        f"define internal void @{name}.body({', '.join(formal + interval)}) nounwind {{",
        body,
        "}",
    ]
    return "\n".join(lines) + "\n"


class _Function:
    """The state of writing one kernel."""

    def __init__(self, nodes: tuple[UOp, ...], target: Target) -> None:
        self.places = index_places(nodes)
        self.needed = needed_nodes(nodes, self.places)
        self.writer = Writer()
        self.lanes = Lanes(self.writer, vector_width(self.needed, target))
        self.addresses = Addresses(self.lanes, self.term)
        self.storage = Storage(self.lanes)
        self.values: dict[UOp, Value] = {}
        self.counters: dict[UOp, tuple[str, int]] = {}  # RANGE -> its counter as i64, its level
        self.open_ranges: list[UOp] = []

    def node(self, node: UOp) -> None:
        """Write one node of the program, unless nothing needs it."""
        if node not in self.needed:
            return
        if (handler := _HANDLERS.get(node.op)) is not None:
            handler(self, node)
        elif node.op in GroupOp.Elementwise:
            self.elementwise(node)
        elif node.op not in _SILENT:
            raise UnsupportedError(f"the CPU backend does not know {node.op.name} in a program")

    # ---- values

    def value(self, node: UOp) -> Value:
        """The registers of a node; constants, counters and ordered values are made when first asked for."""
        found = self.values.get(node)
        if found is None:
            if node.op is Ops.RANGE:
                found = self._counter_value(node)
            elif node.op is Ops.AFTER:
                found = self.value(node.src[0])
            else:
                bare = node.src[0] if node.op is Ops.CAST else node
                found = self.lanes.constant([node.val], (), bare.dtype)
                found = self.lanes.converted(found, node.dtype)
            self.values[node] = found
        return found

    def _counter_value(self, node: UOp) -> Value:
        counter, level = self.counters[node]
        if node.dtype.bits < 64:
            counter = self.writer.pure(level, f"trunc i64 {counter} to {scalar_type(node.dtype)}")
        return Value(node.dtype, (), [[counter]], level)

    def elementwise(self, node: UOp) -> None:
        """An operation on lanes."""
        operands = [self.value(source) for source in node.src]
        if node.op is Ops.CAST:
            self.values[node] = arithmetic.cast(self.lanes, operands[0], node.dtype)
        elif node.op is Ops.BITCAST:
            self.values[node] = arithmetic.bitcast(self.lanes, operands[0], node.dtype)
        else:
            self.values[node] = arithmetic.elementwise(
                self.lanes, node.op, node.dtype, node.shape, operands
            )

    def stack(self, node: UOp) -> None:
        """Values along a new leading axis."""
        parts = [self.lanes.converted(self.value(source), node.dtype) for source in node.src]
        self.values[node] = self.lanes.stacked(parts, node.shape, node.dtype)

    def move(self, node: UOp) -> None:
        """RESHAPE, PERMUTE and EXPAND over lane axes."""
        source = self.value(node.src[0])
        places: tuple[int, ...] = tuple(range(size_of(source.shape)))
        if node.op is Ops.PERMUTE:
            places = permuted_places(source.shape, node.axes)
        elif node.op is Ops.EXPAND:
            places *= size_of(node.shape) // len(places)
        self.values[node] = self.lanes.moved(source, node.shape, places)

    def reduce(self, node: UOp) -> None:
        """Lanes folded into fewer."""
        if len(node.src) > 1:
            raise UnsupportedError("a REDUCE over loops must have become an accumulator")
        if folds_last_axis(node):
            value = self.value(node.src[0].src[0])
            self.values[node] = arithmetic.reduce_last(self.lanes, node.arg.op, value)
            return
        value = self.value(node.src[0])
        self.values[node] = arithmetic.reduce(self.lanes, node.arg.op, value, node.arg.count)

    # ---- loops

    def begin(self, node: UOp) -> None:
        """A loop; one over threads runs over the interval that this call was given."""
        if node.arg.kind is AxisType.THREAD:
            counter = self.writer.open_loop("%lo", "%hi", runs=False)
        else:
            end, _ = self.term(node.src[0], (), 0)
            counter = self.writer.open_loop("0", end, runs=node.src[0].vmin > 0)
        self.counters[node] = counter, self.writer.level
        self.open_ranges.append(node)

    def end(self, node: UOp) -> None:
        """The end of one or several loops, innermost first."""
        while self.open_ranges and self.open_ranges[-1] in node.src[1:]:
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
        name = value.rows[place][0]
        if value.dtype.itemsize < 8:
            verb = "zext" if value.dtype.is_unsigned or value.dtype.is_bool else "sext"
            text = f"{verb} {scalar_type(value.dtype)} {name} to i64"
            name = self.writer.pure(value.level, text)
        return name, value.level

    def load(self, node: UOp) -> None:
        """A read of memory or registers."""
        target = node.src[0]
        if target.op is not Ops.INDEX:
            self.values[node] = self.storage.load_registers(storage_node(target))
            return
        alternative = gate = None
        if len(node.src) == 3:
            alternative = self.lanes.converted(self.value(node.src[1]), node.dtype)
            gate = self.value(node.src[2])
        rows = self._chunks(target, writes=False)
        self.values[node] = load(
            self.lanes, self.addresses, target.shape, rows, node.dtype, alternative, gate
        )

    def store(self, node: UOp) -> None:
        """A write of memory or registers."""
        target, dtype = node.src[0], node.src[0].dtype
        value = self.lanes.converted(self.value(node.src[1]), dtype)
        if target.op is not Ops.INDEX:
            self.storage.store_registers(storage_node(target), value)
            return
        gate = self.value(node.src[2]) if len(node.src) == 3 else None
        rows = self._chunks(target, writes=True)
        store(self.lanes, self.addresses, target.shape, rows, value, gate)

    def _chunks(self, index: UOp, *, writes: bool) -> list[list[Chunk]]:
        pointer = self.storage.pointer(storage_node(index), writes=writes)
        found = self.places[index]
        if found is None:
            return self.addresses.data(pointer, index.dtype, self.value(index.src[1]))
        return self.addresses.constant(pointer, index.dtype, index.shape, found)


_SILENT = frozenset((Ops.PARAM, Ops.BUFFER, Ops.CONST, Ops.INDEX, Ops.AFTER, Ops.GROUP, Ops.SINK))
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
