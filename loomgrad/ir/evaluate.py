"""The reference evaluator: tensor, ranged and kernel graphs computed with NumPy, vectorised over RANGEs.

Every RANGE is an array axis of its own, so a kernel runs as whole-array operations; a REDUCE folds the axes of
its ranges.  Where the joint axes of a node would take too much memory, the largest loop is evaluated in slices.
It is slow and simple, and shares no code with the compiler but the op table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from loomgrad.dtype import DType, dtypes, numpy_dtype
from loomgrad.errors import CheckError
from loomgrad.ir import roundoff
from loomgrad.ir.arrays import apply, bitcast_array, cast_array, from_memory, stored, to_memory
from loomgrad.ir.folded import Partial, combined, finished, partial
from loomgrad.ir.opcode import GroupOp, Ops
from loomgrad.ir.ranges import ended_ranges
from loomgrad.ir.shape import size_of
from loomgrad.ir.slices import Slices
from loomgrad.ir.typing_rules import common_dtype
from loomgrad.ir.uop import UOp
from loomgrad.ir.values import (
    Value,
    both,
    constant,
    counting,
    filled,
    gathered,
    joint_loops,
    moved,
    over,
    positions,
    stacked,
    validity,
)

if TYPE_CHECKING:
    from loomgrad.ir.arrays import Array


def evaluate_tensor(node: UOp, buffers: Mapping[UOp, Array]) -> Array:
    """The value of a tensor or ranged graph, as an array of its shape and dtype (weak ones committed to 64 bits).

    `buffers` holds the flat contents of BUFFERs and PARAMs; BUFFERs with memory of their own need no entry.
    """
    return evaluate_tensors([node], buffers)[0]


def evaluate_tensors(nodes: Sequence[UOp], buffers: Mapping[UOp, Array]) -> list[Array]:
    """As `evaluate_tensor`, several at once."""
    run = Run()
    for storage, array in buffers.items():
        run.storage[storage] = held_storage(storage, array)
    stores = dict.fromkeys(n for root in nodes for n in root.toposort() if n.op is Ops.STORE)
    for store in stores:
        run.store(store)
    results = []
    for node, value in zip(nodes, run.evaluate(nodes), strict=True):
        if value.loops:
            raise CheckError(
                "a value under open RANGEs is not one tensor", node=repr(node), where=""
            )
        results.append(value.array if node.dtype.is_weak else to_memory(value.array, node.dtype))
    return results


def evaluate_kernel(sink: UOp, arguments: Sequence[Array]) -> None:
    """Runs a kernel: PARAM k is `arguments[k]`, which its STOREs change in place."""
    run = run_kernel(sink, arguments)
    for storage, value in run.written.items():
        argument = arguments[storage.arg.slot]
        argument[...] = to_memory(value.array, storage.dtype).reshape(argument.shape)


def run_kernel(sink: UOp, arguments: Sequence[Array], wide: bool = False) -> Run:
    """The finished run of a kernel on copies; `wide` as in `Run`."""
    run = Run(wide)
    order = sink.toposort()
    for node in order:
        if node.op is Ops.PARAM:
            run.storage[node] = held_storage(node, arguments[node.arg.slot])
    for node in order:
        if node.op is Ops.STORE:
            run.store(node)
    return run


def held_storage(storage: UOp, array: Array) -> Value:
    """Contents of storage as a value."""
    if numpy_dtype(storage.dtype) != array.dtype or array.size != size_of(storage.shape):
        raise CheckError(
            f"{storage!r} cannot be an array of {array.size} {array.dtype.name} elements", where=""
        )
    return Value(from_memory(array, storage.dtype).reshape(storage.shape))


class Run:
    """One evaluation.

    `storage` holds what BUFFERs and PARAMs held at the beginning, `written` what STOREs have made of them.
    With `wide`, floats stay in float64, only overflowing as their dtypes do, and values carry error bounds.
    """

    def __init__(self, wide: bool = False) -> None:
        self.wide = wide
        self.storage: dict[UOp, Value] = {}
        self.written: dict[UOp, Value] = {}
        self.slices = Slices()
        self.stages: dict[UOp, Value] = {}

    # ---- values

    def evaluate(self, roots: Sequence[UOp]) -> list[Value]:
        """The values of nodes under the present slices.  STAGEs under no loop are kept for later."""
        self._keep_stages(roots)
        return self._values(list(roots))

    def _keep_stages(self, roots: Sequence[UOp]) -> None:
        for root in roots:
            for node in root.toposort():
                if node.op is Ops.STAGE and not node.ranges and node not in self.stages:
                    self.stages[node] = self._values([node])[0]

    def _values(self, roots: list[UOp]) -> list[Value]:
        order, uses = self._order(roots)
        values: dict[UOp, Value] = {}
        for node, operands in order:
            values[node] = self._value(node, [values[operand] for operand in operands])
            for operand in operands:
                uses[operand] -= 1
                if not uses[operand]:
                    del values[operand]
        return [values[root] for root in roots]

    def _order(self, roots: list[UOp]) -> tuple[list[tuple[UOp, list[UOp]]], dict[UOp, int]]:
        """What to evaluate, operands first, and how often each is used; roots once more."""
        operands: dict[UOp, list[UOp]] = {}
        order: list[tuple[UOp, list[UOp]]] = []
        uses: dict[UOp, int] = {}
        done: set[UOp] = set()
        stack = list(reversed(roots))
        while stack:
            node = stack[-1]
            if node not in operands:
                operands[node] = self._operands(node)
                stack.extend(operand for operand in operands[node] if operand not in operands)
                continue
            stack.pop()
            if node not in done:
                done.add(node)
                order.append((node, operands[node]))
                for operand in operands[node]:
                    uses[operand] = uses.get(operand, 0) + 1
        for root in roots:
            uses[root] = uses.get(root, 0) + 1
        return order, uses

    def _operands(self, node: UOp) -> list[UOp]:
        """The sources whose values the rule of a node reads."""
        if node.op in GroupOp.Movement:
            return [node.src[0]]
        if node.op is Ops.RANGE or node in self.stages:
            return []
        if node.op is Ops.REDUCE or node.op is Ops.STAGE:
            cut = self.slices.cut(node.src[0], ended_ranges(node), self.stages)
            return [] if cut is not None else [node.src[0]]
        if node.op is Ops.AFTER:
            return [] if node in self.storage or storage_of(node) in self.written else [node.src[0]]
        return list(node.src)

    def _value(self, node: UOp, values: list[Value]) -> Value:
        op = node.op
        if op in GroupOp.Elementwise:
            return self._elementwise(node, values)
        if op in GroupOp.Movement:
            return moved(node, values[0])
        if op is Ops.CONST:
            return constant(node)
        if op is Ops.RANGE:
            return counting(node, self.slices)
        if op is Ops.INDEX:
            return gathered(node, values)
        return self._other(node, values)

    def _other(self, node: UOp, values: list[Value]) -> Value:
        op = node.op
        if op in GroupOp.Storage:
            return self._contents(node)
        if op is Ops.REDUCE:
            return self._reduce(node, values)
        if op is Ops.STAGE:
            return self.stages[node] if node in self.stages else self._stage(node, values)
        if op is Ops.STACK:
            return stacked(node, values, lambda a, s: cast_array(a, s.dtype, node.dtype))
        if op is Ops.AFTER:
            return values[0] if values else self.written[storage_of(node)]
        if op in (Ops.CONTIGUOUS, Ops.DETACH, Ops.NOOP):
            return values[0]
        raise CheckError(f"the evaluator has no meaning for {node!r}", where="")

    def _contents(self, node: UOp) -> Value:
        """What storage held at the beginning."""
        import numpy as np

        if node not in self.storage:
            buffer = node.arg.buffer
            if buffer is None:
                raise CheckError(f"no contents were given for {node!r}", where="")
            memory = np.frombuffer(buffer.as_memoryview(), numpy_dtype(node.dtype), node.arg.size)
            self.storage[node] = held_storage(node, memory)
        return self.storage[node]

    def _elementwise(self, node: UOp, values: list[Value]) -> Value:
        import numpy as np

        if node.shape_or_none is None:
            raise CheckError(f"{node!r} is ill-formed", where="")
        loops = joint_loops(values)
        laid = [over(value, loops, len(node.shape)) for value in values]
        arrays = [value.array for value in laid]
        sources = [source.dtype for source in node.src]
        with np.errstate(all="ignore"):
            if node.op is Ops.CAST:
                result = self._cast(node, arrays[0], laid[0].error)
            elif node.op is Ops.BITCAST:
                result = bitcast_array(arrays[0], sources[0], node.dtype)
            else:
                common = common_dtype(node.src[1:] if node.op is Ops.WHERE else node.src)
                result = self._apply(node, arrays, common)
            error = self._error(node, result, laid) if self.wide else None
        return Value(result, loops, validity(node, laid), error)

    def _cast(self, node: UOp, array: Array, error: Array | None) -> Array:
        """Exact values are rounded even in a wide run, for that is what compiled code does."""
        if self.wide and error is not None and node.dtype.is_float and node.src[0].dtype.is_float:
            return roundoff.overflowed(node.dtype, array)
        return cast_array(array, node.src[0].dtype, node.dtype)

    def _apply(self, node: UOp, arrays: list[Array], common: DType) -> Array:
        sources = [source.dtype for source in node.src]
        result = apply(
            node.op, arrays, sources, common, fused=not self.wide or common is dtypes.float64
        )
        if self.wide and node.dtype.is_float:
            return roundoff.overflowed(node.dtype, result)
        return stored(result, node.dtype)

    def _error(self, node: UOp, result: Array, laid: list[Value]) -> Array | None:
        errors = [value.error for value in laid]
        arrays = [value.array for value in laid]
        if node.op is not Ops.CAST:
            return roundoff.error_of(node.op, node.dtype, result, arrays, errors)
        if errors[0] is None:
            return None
        source = node.src[0].dtype
        passed = roundoff.cast_error(source, node.dtype, arrays[0], result, errors[0])
        if not node.dtype.is_float:
            return passed
        return roundoff.rounding(node.op, node.dtype, result, passed)

    # ---- loops that close

    def _reduce(self, node: UOp, values: list[Value]) -> Value:
        bodies = values or self._sliced(node.src[0], ended_ranges(node))
        total: Partial | None = None
        for body in bodies:
            part = partial(node, body, self.slices)
            total = part if total is None else combined(node.arg.op, total, part)
        assert total is not None
        return finished(node, total, self.wide)

    def _stage(self, node: UOp, values: list[Value]) -> Value:
        """A value over ranges as an array over axes of its own."""
        import numpy as np

        if values:
            return self._staged(node, values[0])
        whole: Value | None = None
        for body in self._sliced(node.src[0], ended_ranges(node)):
            piece = self._staged(node, body)
            if whole is None:
                full = piece.array.shape[: len(piece.loops)] + node.shape
                error = None if piece.error is None else np.zeros(full)
                whole = Value(np.zeros(full, piece.array.dtype), piece.loops, None, error)
            box = (slice(None),) * len(piece.loops) + tuple(
                slice(*self.slices.span(loop)) for loop in node.src[1:]
            )
            whole.array[box] = piece.array
            if whole.error is not None and piece.error is not None:
                whole.error[box] = piece.error
        assert whole is not None
        return whole

    def _staged(self, node: UOp, value: Value) -> Value:
        closing = node.src[1:]
        loops = joint_loops([value], closing)
        full = filled(value, loops, node.src[0].shape, self.slices)
        left = tuple(loop for loop in loops if loop not in closing)
        lead = [loops.index(loop) for loop in (*left, *closing)]
        order = (*lead, *range(len(loops), full.array.ndim))
        error = None if full.error is None else full.error.transpose(order)
        return Value(full.array.transpose(order), left, None, error)

    def _sliced(self, body: UOp, closing: Collection[UOp]) -> Iterator[Value]:
        """The value of a body, slice by slice of the loops that close over it."""
        cut = self.slices.cut(body, closing, self.stages)
        if cut is None:
            yield self._values([body])[0]
            return
        for _ in self.slices.pieces(*cut):
            yield from self._sliced(body, closing)

    # ---- effects

    def store(self, node: UOp) -> None:
        """Carries out a STORE."""
        self._keep_stages(node.src)
        cut = self.slices.cut(node, node.ranges, self.stages)
        if cut is None:
            self._store(node)
            return
        for _ in self.slices.pieces(*cut):
            self.store(node)

    def _store(self, node: UOp) -> None:
        import numpy as np

        target, *rest = node.src
        indexed = target.op is Ops.INDEX
        base = storage_of(target.src[0] if indexed else target)
        if base.op not in GroupOp.Storage:
            raise CheckError(f"{node!r} does not write to storage", target=repr(target), where="")
        count = len(target.src) - 1 if indexed else 0
        values = self._values([*(target.src[1:] if indexed else ()), *rest])
        loops = joint_loops(values)
        indices, mask = positions(target, values[:count], loops) if indexed else ([], None)
        rank = len(target.shape)
        value = over(values[count], loops, rank)
        mask = both(mask, value.valid)
        for gate in values[count + 1 :]:
            mask = both(mask, over(gate, loops, rank).array)
        written = self._writable(base)
        array = (
            cast_array(value.array, rest[0].dtype, base.dtype)
            if rest[0].dtype.is_weak
            else value.array
        )
        _scatter(written.array, indices, mask, array)
        if written.error is not None:
            error = np.zeros(()) if value.error is None else value.error
            _scatter(written.error, indices, mask, error)

    def _writable(self, base: UOp) -> Value:
        """What STOREs have made of storage so far, to be changed in place."""
        import numpy as np

        if base not in self.written:
            held = self._contents(base).array.copy()
            error = np.zeros(held.shape) if self.wide else None
            self.written[base] = Value(held, (), None, error)
        return self.written[base]


def storage_of(node: UOp) -> UOp:
    """The storage behind an AFTER."""
    while node.op is Ops.AFTER:
        node = node.src[0]
    return node


def _scatter(array: Array, indices: list[Array], mask: Array | None, values: Array) -> None:
    """Writes values at indices where the mask holds, in the order of the loops."""
    import numpy as np

    if not indices:
        array[...] = values
        return
    parts = np.broadcast_arrays(*indices, values, *(() if mask is None else (mask,)))
    count = len(indices) + 1
    chosen = parts[:count] if mask is None else tuple(part[parts[count]] for part in parts[:count])
    array[chosen[:-1]] = chosen[-1]
