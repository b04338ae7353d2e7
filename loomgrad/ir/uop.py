"""The node of every graph: `UOp(op, src, arg, tag)`, immutable and interned.

Building the same node twice gives the same object, so `is` is equality.  dtype and the set of source operations
are computed at construction; shape, interval, open ranges and key when first asked for, by one driver with an
explicit stack, so that a graph of any depth works.  A cached value never holds its own node.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from loomgrad.dtype import DType
from loomgrad.ir.args import (
    AxisType,
    CallInfo,
    Invalid,
    InvalidType,
    KernelInfo,
    RangeArg,
    ReduceArg,
    StageArg,
    typed,
)
from loomgrad.ir.bounds import Interval
from loomgrad.ir.key import node_key
from loomgrad.ir.opcode import Op, Ops
from loomgrad.ir.ops import BOUNDS_RULES, DTYPE_RULES, SHAPE_RULES
from loomgrad.ir.order import OrderKey, node_order
from loomgrad.ir.ranges import open_ranges
from loomgrad.ir.shape import Shape, dims_of
from loomgrad.ir.vocabulary import Vocabulary
from loomgrad.ir.weak_table import WeakTable

_nodes: WeakTable[tuple[object, ...], UOp] = WeakTable()
_entries = _nodes.entries
_new = object.__new__
_UNSET: Any = object()


def _const_key(value: object) -> tuple[object, ...]:
    """Distinguishes 1, 1.0 and True, and zeros by sign; all NaNs are one."""
    if isinstance(value, float):
        return float, b"nan" if math.isnan(value) else struct.pack("<d", value)
    return type(value), value


class UOp(Vocabulary):
    """One node.  `==` and `hash` are identity; `eq` and `ne` build nodes."""

    __slots__ = (
        *("op", "src", "arg", "tag", "dtype", "source_mask"),
        *("_shape", "_bounds", "_ranges", "_key", "_order", "__weakref__"),
    )
    op: Op
    src: tuple[UOp, ...]
    arg: Any
    tag: Any
    dtype: DType
    source_mask: int
    _shape: Shape | None
    _bounds: Interval
    _ranges: frozenset[UOp]
    _key: bytes
    _order: OrderKey

    def __new__(
        cls, op: Op, src: tuple[UOp, ...] = (), arg: object = None, tag: object = None
    ) -> UOp:
        if op is Ops.CONST:
            key: tuple[object, ...] = (op, _const_key(arg), typed(tag))
        elif tag is None and arg.__class__ is not tuple:
            key = (op, src, arg, tag)
        else:
            key = (op, src, typed(arg), typed(tag))
        entry = _entries.get(key)
        if entry is not None:
            present: UOp | None = entry()
            if present is not None:
                return present
        node = _new(cls)
        node.op, node.src, node.arg, node.tag = op, src, arg, tag
        node._shape = node._bounds = node._ranges = node._key = node._order = _UNSET
        mask = 0
        for source in src:
            mask |= source.op.bit
        node.source_mask = mask
        node.dtype = DTYPE_RULES[op.index](node)
        return _nodes.intern(key, node)

    # ---- derived facts

    @property
    def shape_or_none(self) -> Shape | None:
        """Sizes of the axes; None for effects and ill-formed nodes."""
        if self._shape is _UNSET:
            _derive(self, "_shape", SHAPE_RULES)
        return self._shape

    @property
    def shape(self) -> Shape:
        """Sizes of the axes, of a node that is known to have them."""
        return cast(Shape, self.shape_or_none)

    @property
    def bounds(self) -> Interval:
        """An interval that holds every value of this node."""
        if self._bounds is _UNSET:
            _derive(self, "_bounds", BOUNDS_RULES)
        return self._bounds

    @property
    def vmin(self) -> Any:
        """The least value."""
        return self.bounds[0]

    @property
    def vmax(self) -> Any:
        """The greatest value."""
        return self.bounds[1]

    @property
    def ranges(self) -> frozenset[UOp]:
        """The RANGEs below this node that nothing has closed, itself included."""
        if self._ranges is _UNSET:
            _derive(self, "_ranges", _RANGES_RULES)
        return self._ranges | {self} if self.op is Ops.RANGE else self._ranges

    @property
    def key(self) -> bytes:
        """sha256 over op, dtype, arg and the sources' keys; equal in every process."""
        if self._key is _UNSET:
            _derive(self, "_key", _KEY_RULES)
        return self._key

    @property
    def order(self) -> OrderKey:
        """The place among operands of commutative index arithmetic."""
        if self._order is _UNSET:
            _derive(self, "_order", _ORDER_RULES)
        return self._order

    @property
    def device(self) -> str | None:
        """The device of the first storage below, None for pure constants."""
        for node in self.toposort():
            if node.op is Ops.BUFFER or node.op is Ops.PARAM:
                device: str | None = node.arg.device
                if device is not None:
                    return device
        return None

    @property
    def base(self) -> UOp:
        """What lies below RESHAPEs."""
        node = self
        while node.op is Ops.RESHAPE:
            node = node.src[0]
        return node

    def is_const(self) -> bool:
        """Whether this is a CONST or a CAST of one."""
        return self.op is Ops.CONST or (self.op is Ops.CAST and self.src[0].op is Ops.CONST)

    @property
    def val(self) -> Any:
        """The Python value of a constant, read through its CAST."""
        node = self
        while node.op is Ops.CAST:
            node = node.src[0]
        if node.op is not Ops.CONST:
            raise ValueError(f"{self} is not a constant")
        return node.arg

    @property
    def axes(self) -> tuple[int, ...]:
        """The arg of PERMUTE and FLIP."""
        axes: tuple[int, ...] = self.arg
        return axes

    @property
    def sizes(self) -> Shape:
        """The sizes that RESHAPE, EXPAND, PAD or SHRINK asks for."""
        return dims_of(self.src[-1])

    @property
    def offsets(self) -> Shape:
        """Where the source of PAD, or the result of SHRINK, begins."""
        return dims_of(self.src[1])

    # ---- construction

    @staticmethod
    def const(value: bool | int | float | InvalidType, dtype: DType | None = None) -> UOp:
        """A constant; weak unless `dtype` is a strong dtype."""
        bare = UOp(Ops.CONST, (), value)
        if dtype is None or dtype is bare.dtype or value is Invalid:
            return bare
        if dtype.is_bool:
            return UOp(Ops.CONST, (), value != 0)
        if dtype.is_weak:
            return UOp(Ops.CONST, (), int(value) if dtype.is_int else float(value))  # type: ignore[arg-type]
        return UOp(Ops.CAST, (bare,), dtype)

    @staticmethod
    def range(
        extent: int | UOp, axis: int | tuple[int, ...], kind: AxisType = AxisType.WEAK
    ) -> UOp:
        """A loop variable over 0 .. extent - 1."""
        size = extent if isinstance(extent, UOp) else UOp.const(extent)
        axes = axis if isinstance(axis, tuple) else (axis,)
        return UOp(Ops.RANGE, (size,), RangeArg(axes, kind))

    @staticmethod
    def stack(items: Iterable[UOp]) -> UOp:
        """Nodes of one shape along a new leading axis."""
        return UOp(Ops.STACK, tuple(items))

    @staticmethod
    def sink(*effects: UOp, info: KernelInfo | None = None) -> UOp:
        """The root of a graph."""
        return UOp(Ops.SINK, effects, info)

    @staticmethod
    def group(*effects: UOp) -> UOp:
        """Several effects as one; one is itself."""
        return effects[0] if len(effects) == 1 else UOp(Ops.GROUP, effects)

    def const_like(self, value: bool | int | float | InvalidType) -> UOp:
        """A constant of this node's dtype.  Its shape is (), which broadcasts."""
        return UOp.const(value, self.dtype)

    def replace(self, **fields: Any) -> UOp:
        """This node with other `op`, `src`, `arg` or `tag`."""
        return UOp(
            fields.get("op", self.op),
            fields.get("src", self.src),
            fields.get("arg", self.arg),
            fields.get("tag", self.tag),
        )

    def alu(self, op: Op, *others: UOp) -> UOp:
        """`op` of this node and others as they are, without promotion."""
        return UOp(op, (self, *others))

    def eq(self, other: UOp | int | float) -> UOp:
        """A node: whether the values are equal."""
        return self._compare(Ops.CMPEQ, other)

    def ne(self, other: UOp | int | float) -> UOp:
        """A node: whether the values differ."""
        return self._compare(Ops.CMPNE, other)

    def index(self, *indices: UOp | int) -> UOp:
        """Elements of storage or of a value."""
        return UOp(Ops.INDEX, (self, *(i if isinstance(i, UOp) else UOp.const(i) for i in indices)))

    def load(self, *alternative_and_gate: UOp) -> UOp:
        """Reads an INDEX."""
        return UOp(Ops.LOAD, (self, *alternative_and_gate))

    def store(self, value: UOp, *gate: UOp) -> UOp:
        """Writes a value at an INDEX."""
        return UOp(Ops.STORE, (self, value, *gate))

    def after(self, *effects: UOp) -> UOp:
        """This value once the effects have happened."""
        return UOp(Ops.AFTER, (self, *effects)) if effects else self

    def end(self, *ranges: UOp) -> UOp:
        """This effect with its ranges closed."""
        return UOp(Ops.END, (self, *ranges)) if ranges else self

    def fold_ranges(self, op: Op, *ranges: UOp) -> UOp:
        """This value reduced over ranges."""
        return UOp(Ops.REDUCE, (self, *ranges), ReduceArg(op, 0)) if ranges else self

    def stage(self, device: str, *ranges: UOp, removable: bool = True) -> UOp:
        """This value over ranges, perhaps stored."""
        return UOp(Ops.STAGE, (self, *ranges), StageArg(device, removable))

    def call(self, *arguments: UOp, name: str = "") -> UOp:
        """Runs this body on arguments."""
        return UOp(Ops.CALL, (self, *arguments), CallInfo(name))

    # ---- what the shared vocabulary asks for

    def _make(self, op: Op, others: tuple[UOp, ...] = (), arg: object = None) -> UOp:
        return UOp(op, (self, *others), arg)

    def _move(self, op: Op, arg: tuple[int, ...] | None, *sizes: Shape) -> UOp:
        return UOp(op, (self, *(shape_stack(item) for item in sizes)), arg)

    def _constant(self, value: bool | int | float) -> UOp:
        return UOp(Ops.CONST, (), value)

    def _fold(self, op: Op, count: int) -> UOp:
        return UOp(Ops.REDUCE, (self,), ReduceArg(op, count))

    def sum(self, axis: int | Sequence[int] | None = None, keepdim: bool = False) -> UOp:
        """The sum over axes, all by default, in this dtype."""
        return self._reduce(Ops.ADD, axis, keepdim)

    def max(self, axis: int | Sequence[int] | None = None, keepdim: bool = False) -> UOp:
        """The greatest value over axes, all by default."""
        return self._reduce(Ops.MAX, axis, keepdim)

    # ---- walks

    def toposort(self, gate: Callable[[UOp], bool] | None = None) -> list[UOp]:
        """Every node below, sources first, each once.  `gate` false at a node: not below it."""
        seen: set[UOp] = set()
        order: list[UOp] = []
        stack: list[UOp] = [self]
        while stack:
            node = stack[-1]
            if node in seen:
                stack.pop()
                continue
            if gate is None or gate(node):
                waiting = [source for source in node.src if source not in seen]
                if waiting:
                    stack.extend(reversed(waiting))
                    continue
            stack.pop()
            seen.add(node)
            order.append(node)
        return order

    def __repr__(self) -> str:
        detail = "" if self.arg is None else f", {self.arg!r}"
        return f"<{self.op.name} {self.dtype} {self.shape_or_none}{detail}>"

    def __copy__(self) -> UOp:
        return self

    def __deepcopy__(self, memo: object) -> UOp:
        return self

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        order = self.toposort()
        place = {node: index for index, node in enumerate(order)}
        flat = [(n.op, tuple(place[s] for s in n.src), n.arg, n.tag) for n in order]
        return _rebuild, (flat,)


def _rebuild(flat: list[tuple[Op, tuple[int, ...], object, object]]) -> UOp:
    """The root of a flat list of nodes, sources first."""
    nodes: list[UOp] = []
    for op, sources, arg, tag in flat:
        nodes.append(UOp(op, tuple(nodes[index] for index in sources), arg, tag))
    return nodes[-1]


def shape_stack(shape: Iterable[int]) -> UOp:
    """A shape as an argument: a STACK of constants."""
    return UOp(Ops.STACK, tuple(UOp(Ops.CONST, (), int(size)) for size in shape))


def _derive(root: UOp, slot: str, rules: tuple[Callable[[UOp], Any], ...]) -> None:
    """Fills `slot` of `root` and of what it needs below, without recursion."""
    stack = [root]
    while stack:
        node = stack[-1]
        missing = [source for source in node.src if getattr(source, slot) is _UNSET]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        if getattr(node, slot) is _UNSET:
            setattr(node, slot, rules[node.op.index](node))


_RANGES_RULES = tuple(open_ranges for _ in Ops)
_KEY_RULES = tuple(node_key for _ in Ops)
_ORDER_RULES = tuple(node_order for _ in Ops)
