"""Where storage is: pointers to buffers, scratch and registers of one call of the function."""

from __future__ import annotations

from loomgrad.backends.cpu.types import memory_type, type_of
from loomgrad.backends.cpu.values import Lanes, Value
from loomgrad.dtype import DType
from loomgrad.errors import UnsupportedError
from loomgrad.ir.args import AddrSpace, ParamArg
from loomgrad.ir.opcode import Ops
from loomgrad.ir.shape import size_of
from loomgrad.ir.uop import UOp

SCRATCH_ALIGNMENT = 64
# Scratch lies on the stack of the thread that runs the kernel, which has some megabytes.
MOST_SCRATCH = 1 << 20


def storage_node(target: UOp) -> UOp:
    """The BUFFER or PARAM that an address refers to."""
    while target.op is Ops.AFTER or target.op is Ops.INDEX:
        target = target.src[0]
    return target


class Storage:
    """The storage of one function, made as it is first used.

    Registers are allocas, one for each vector, which LLVM turns into registers.
    """

    def __init__(self, lanes: Lanes) -> None:
        self.lanes, self.writer = lanes, lanes.writer
        self.parameters: set[int] = set()
        self.written: set[int] = set()
        self._scratch: dict[UOp, str] = {}
        self._scratch_bytes = 0
        self._registers: dict[UOp, list[list[str]]] = {}

    def pointer(self, node: UOp, *, writes: bool) -> str:
        """The first element of a PARAM or of scratch."""
        arg = node.arg
        assert isinstance(arg, ParamArg)
        if node.op is Ops.PARAM and arg.addrspace is AddrSpace.GLOBAL:
            self.parameters.add(arg.slot)
            if writes:
                self.written.add(arg.slot)
            return f"%p{arg.slot}"
        if arg.addrspace is not AddrSpace.LOCAL:
            raise UnsupportedError(f"a kernel cannot index storage in {arg.addrspace.name}")
        if node not in self._scratch:
            self._scratch[node] = self._new_scratch(arg)
        return self._scratch[node]

    def _new_scratch(self, arg: ParamArg) -> str:
        self._scratch_bytes += arg.size * arg.dtype.itemsize
        if self._scratch_bytes > MOST_SCRATCH:
            raise UnsupportedError(
                f"a kernel has at most {MOST_SCRATCH} bytes of scratch", wanted=self._scratch_bytes
            )
        kind = f"[{arg.size} x {memory_type(arg.dtype)}]"
        return self.writer.reserve(kind, SCRATCH_ALIGNMENT)

    def load_registers(self, node: UOp) -> Value:
        """What an accumulator holds."""
        dtype = node.dtype
        lengths = self.lanes.row_lengths(node.shape)
        rows = [
            [
                self.writer.value(f"load {type_of(dtype, length)}, ptr {place}")
                for place, length in zip(row, lengths, strict=True)
            ]
            for row in self._register_rows(node)
        ]
        return Value(dtype, node.shape, rows, self.writer.level)

    def store_registers(self, node: UOp, value: Value) -> None:
        """Set an accumulator."""
        lengths = self.lanes.row_lengths(node.shape)
        values = self.lanes.spread(value, node.shape)
        for names, places in zip(values, self._register_rows(node), strict=True):
            for name, place, length in zip(names, places, lengths, strict=True):
                self.writer.effect(f"store {type_of(node.dtype, length)} {name}, ptr {place}")

    def _register_rows(self, node: UOp) -> list[list[str]]:
        if node not in self._registers:
            lengths = self.lanes.row_lengths(node.shape)
            self._registers[node] = [
                [self._register(node.dtype, length) for length in lengths]
                for _ in range(size_of(node.shape[:-1]))
            ]
        return self._registers[node]

    def _register(self, dtype: DType, length: int) -> str:
        alignment = min(64, dtype.itemsize * (1 << (length - 1).bit_length()))
        return self.writer.reserve(type_of(dtype, length), alignment)
