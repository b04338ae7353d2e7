"""Verify: legal graphs of every level pass, and each constraint catches what breaks it."""

from __future__ import annotations

import pytest

from loomgrad.dtype import dtypes
from loomgrad.errors import VerifyError
from loomgrad.ir.args import AddrSpace, AxisType, Invalid, ParamArg, ReduceArg
from loomgrad.ir.opcode import Ops
from loomgrad.ir.ops import Level
from loomgrad.ir.uop import UOp
from loomgrad.ir.verify import verify
from tests.ir.graphs import buffer, kernel, loop, matmul_kernel, param, reduction, tensor

TENSOR, RANGED, KERNEL, LANES, PROGRAM = (
    Level.TENSOR,
    Level.RANGED,
    Level.KERNEL,
    Level.LANES,
    Level.PROGRAM,
)


def fails(graph: UOp, level: Level, match: str) -> None:
    with pytest.raises(VerifyError, match=match) as caught:
        verify(graph, level, "some_pass")
    assert "after pass some_pass, at level " + str(level.name).lower() in str(caught.value)


def invalid() -> UOp:
    return UOp.const(Invalid)


def gate(condition: UOp, index: UOp) -> UOp:
    return UOp(Ops.WHERE, (condition, index, invalid()))


def register(shape: tuple[int, ...] = ()) -> UOp:
    arg = ParamArg(0, dtypes.float32, 1, addrspace=AddrSpace.REG, shape=shape)
    return UOp(Ops.BUFFER, (), arg)


def linear(sink: UOp) -> UOp:
    """The nodes of a loopless or singly looped kernel in order, its RANGE first."""
    order = [node for node in sink.toposort() if node is not sink]
    return UOp(Ops.LINEAR, tuple(order))


def copy_program() -> tuple[UOp, ...]:
    """P0[i] = P1[i] over 8 elements, committed to int32."""
    extent = UOp.const(8, dtypes.int32)
    i = UOp.range(extent, 0, AxisType.LOOP)
    store = param(0, 8).index(i).store(param(1, 8).index(i).load())
    return tuple(node for node in UOp.sink(store.end(i)).toposort() if node.op is not Ops.SINK)


# ---- legal graphs


def test_legal_graphs_of_every_level() -> None:
    x, w = tensor(0, (5, 7)), tensor(1, (7,))
    assert verify(UOp(Ops.SINK, ((x * w).sum(1) + 1, w.exp())), TENSOR, "t") == 0
    i, j, k = loop(5, 0), loop(5, 1), reduction(7, 2)
    ranged = (param(0, 35).index(i * 7 + k)).fold_ranges(Ops.ADD, k).stage("CPU", i)
    reader = ranged.index(j).stage("CPU", j, removable=False)
    assert verify(UOp.sink(reader), RANGED, "t") == 0
    sink = matmul_kernel(5, 7, 6)
    assert verify(sink, KERNEL, "t") == 0
    call = sink.call(buffer(0, 30), buffer(1, 35), buffer(2, 42), buffer(3, 6))
    assert verify(UOp.sink(UOp(Ops.LINEAR, (call,)), buffer(0, 30)), KERNEL, "t") == 0
    assert verify(UOp(Ops.LINEAR, copy_program()), PROGRAM, "t") == 0


def test_lanes_with_an_accumulator() -> None:
    i, k = loop(4, 0, AxisType.LOOP), reduction(7, 1)
    lanes = UOp.stack(UOp.const(v) for v in range(8))
    acc = UOp(Ops.BUFFER, (), ParamArg(0, dtypes.float32, 8, addrspace=AddrSpace.REG, shape=(8,)))
    start = acc.after(i).store(UOp.const(0.0, dtypes.float32))
    value = param(1, 7 * 32).index(k * 32 + (i * 8 + lanes)).load()
    update = acc.store(acc.after(start, k).load() + value).end(k)
    store = param(0, 32).index(i * 8 + lanes).store(acc.after(update).load()).end(i)
    assert verify(kernel(store), LANES, "t") == 0


# ---- what the op table says


def test_operations_of_other_levels() -> None:
    fails(UOp(Ops.SINK, (loop(3, 0),)), TENSOR, "RANGE is not an operation of this level")
    staged = tensor(0, (2, 2)).permute(1, 0).stage("CPU")
    fails(UOp.sink(staged), RANGED, "RESHAPE is not an operation of this level")
    i = loop(8, 0)
    loaded = param(0, 8).index(i).store(param(1, 8).index(i).load()).end(i)
    fails(kernel(loaded), KERNEL, "LOAD is not an operation of this level")
    fails(UOp(Ops.LINEAR, (UOp(Ops.CONTIGUOUS, (UOp.const(True),)),)), PROGRAM, "CONTIGUOUS is not")


def test_sources_and_args() -> None:
    x = tensor(0, (2,))
    fails(UOp(Ops.SINK, (UOp(Ops.EXP, (x, x)),)), TENSOR, r"EXP has 2 sources, not \(x\)")
    fails(UOp(Ops.SINK, (UOp(Ops.ADD, (x, x), 3),)), TENSOR, "the arg of ADD is 3, not none")
    fails(UOp(Ops.SINK, (UOp(Ops.CONST, (), "a"),)), TENSOR, "the arg of CONST is 'a'")


def test_dtypes_and_shapes() -> None:
    x, n, y = tensor(0, (2,)), tensor(1, (2,), dtypes.int32), tensor(2, (3,))
    fails(UOp(Ops.SINK, (UOp(Ops.ADD, (x, n)),)), TENSOR, "ADD of float32, int32 has no dtype")
    fails(UOp(Ops.SINK, (UOp(Ops.WHERE, (n, x, x)),)), TENSOR, "WHERE of int32, float32, float32")
    fails(
        UOp(Ops.SINK, (UOp(Ops.ADD, (x, y)),)), TENSOR, r"ADD of shapes \(2,\), \(3,\) has no shape"
    )


def test_the_message_names_node_and_sources() -> None:
    x, n = tensor(0, (2,)), tensor(1, (2,), dtypes.int32)
    with pytest.raises(VerifyError) as caught:
        verify(UOp(Ops.SINK, (UOp(Ops.ADD, (x, n)),)), TENSOR, "prepare")
    assert str(caught.value.facts["node"]).startswith("<ADD dtypes.illtyped")
    assert "<RESHAPE dtypes.int32 (2,)>" in str(
        caught.value.facts["sources"]
    ) or "RESHAPE" not in str(caught.value.facts["sources"])
    assert caught.value.where == ""


# ---- loops


def test_ranges() -> None:
    i = loop(8, 0)
    fails(
        kernel(param(0, 64).index(UOp.range(i, 1)).store(i.cast(dtypes.float32))), KERNEL, "extent"
    )
    upcast = UOp.range(8, 0, AxisType.UPCAST)
    staged = param(0, 8).index(upcast).stage("CPU", upcast)
    fails(UOp.sink(staged), RANGED, "a loop is UPCAST before there are kernels")
    zero = UOp.const(0.0, dtypes.float32)
    left = kernel(param(0, 8).index(upcast).store(zero).end(upcast))
    fails(left, LANES, "UPCAST is left beside lanes")


def test_loops_must_close_once() -> None:
    i, k = loop(8, 0), reduction(8, 1)
    store = param(0, 8).index(i).store(param(1, 8).index(i))
    fails(kernel(store), KERNEL, "1 loops are open at the SINK")
    fails(kernel(store.end(i, i)), KERNEL, "END closes a RANGE twice")
    fails(kernel(store.end(i, k)), KERNEL, "END closes a RANGE that is not open")
    fails(kernel(store.end(i + 1)), KERNEL, "not a RANGE|not open")
    x = param(2, 8).index(k)
    twice = x.fold_ranges(Ops.ADD, k) + (x * x).fold_ranges(Ops.ADD, k)
    fails(kernel(param(0, 1).index(0).store(twice)), KERNEL, r"the loop \(1,\) closes twice")
    other = UOp.range(4, 0, AxisType.REDUCE)
    total = param(1, 8).index(other).fold_ranges(Ops.ADD, other)
    fails(
        kernel(param(0, 8).index(i).store(total).end(i)),
        KERNEL,
        r"two loops have the number \(0,\)",
    )


def test_reductions() -> None:
    x, k = tensor(0, (2, 3)), reduction(8, 0)
    fails(UOp(Ops.SINK, (UOp(Ops.REDUCE, (x,), ReduceArg(Ops.SUB, 1)),)), TENSOR, "REDUCE by SUB")
    fails(UOp(Ops.SINK, (UOp(Ops.REDUCE, (x,), ReduceArg(Ops.ADD, 3)),)), TENSOR, "has no shape")
    value = UOp(Ops.REDUCE, (param(1, 8), k), ReduceArg(Ops.ADD, 1))
    fails(
        kernel(param(0, 1).index(0).store(value)), KERNEL, "REDUCE folds axes where there are none"
    )


# ---- memory


def test_storage_is_only_indexed() -> None:
    fails(
        UOp.sink((param(0, 8) + 1).stage("CPU")),
        RANGED,
        "ADD uses storage as a value without INDEX",
    )
    fails(kernel(param(0, 8).store(param(1, 8))), KERNEL, "STORE to PARAM")
    i = loop(8, 0)
    value = buffer(1, 8).index(i)
    fails(kernel(param(0, 8).index(i).store(value).end(i)), LANES, "it should be a PARAM")


def test_index() -> None:
    i = loop(8, 0)
    x = param(1, 8)
    bad = x.index(i.cast(dtypes.float32))
    fails(kernel(param(0, 8).index(i).store(bad).end(i)), KERNEL, "an index is float32")
    none = UOp(Ops.INDEX, (x,))
    fails(kernel(param(0, 8).index(i).store(none).end(i)), KERNEL, "flat storage and one index")
    computed = x.index(i) + 1
    fails(
        UOp.sink(UOp(Ops.INDEX, (computed,)).stage("CPU", i)), RANGED, "neither storage nor a STAGE"
    )


def test_stores() -> None:
    i = loop(8, 0)
    x, target = param(1, 8).index(i), param(0, 8, dtypes.int32).index(i)
    fails(kernel(target.store(x).end(i)), KERNEL, "STORE of float32 to int32")
    fails(kernel((x + 1).store(x).end(i)), KERNEL, "STORE to ADD, which is not an INDEX of storage")
    gated = param(0, 8).index(i).store(x, i)
    fails(kernel(gated.end(i)), KERNEL, "the gate of STORE is weakint")
    lanes = UOp.stack(UOp.const(v) for v in range(4))
    wide = param(0, 8).index(0).store(param(1, 8).index(lanes).load())
    fails(kernel(wide), LANES, r"STORE at shape \(\) of shapes")


def test_loads() -> None:
    i = loop(8, 0, AxisType.LOOP)
    x = param(1, 8).index(i)

    def stored(value: UOp) -> UOp:
        return kernel(param(0, 8).index(i).store(value).end(i))

    fails(stored((x + 1).load()), LANES, "LOAD of ADD")
    zero = UOp.const(0, dtypes.int32)
    fails(stored(x.load(zero, i < 3)), LANES, "LOAD of float32 with an alternative of int32")
    fails(stored(x.load(UOp.const(0.0), i)), LANES, "the gate of LOAD is weakint")
    assert verify(stored(x.load(UOp.const(0.0, dtypes.float32), i < 3)), LANES, "t") == 0


def test_order_is_between_effects() -> None:
    i = loop(8, 0)
    x = param(1, 8)
    ordered = x.after(x.index(i)).index(i)
    fails(kernel(param(0, 8).index(i).store(ordered).end(i)), KERNEL, "AFTER waits for INDEX")
    fails(kernel(UOp(Ops.GROUP, (x.index(0), x.index(1)))), KERNEL, "GROUP of INDEX")
    fails(kernel(x.index(0)), KERNEL, "SINK of INDEX, which has no effect")
    fails(kernel(x.index(i).end(i)), KERNEL, "END of INDEX, which has no effect")
    fails(UOp.sink(x.index(0)), RANGED, "SINK of INDEX, not of STAGEs")


def test_calls() -> None:
    sink = matmul_kernel(5, 7, 6)
    good = [buffer(0, 30), buffer(1, 35), buffer(2, 42), buffer(3, 6)]

    def called(*arguments: UOp) -> UOp:
        return UOp.sink(UOp(Ops.LINEAR, (sink.call(*arguments),)))

    assert verify(called(*good), KERNEL, "t") == 0
    fails(called(*good[:3]), KERNEL, "CALL has 3 arguments, its body asks for number 3")
    fails(called(*good[:3], buffer(3, 7)), KERNEL, "argument 3 of a CALL is")
    fails(called(*good[:3], buffer(3, 6, dtypes.int32)), KERNEL, "argument 3 of a CALL is")
    broken = kernel(param(0, 8).index(loop(8, 0)).store(UOp.const(1.0)))
    fails(UOp.sink(UOp(Ops.LINEAR, (broken.call(buffer(0, 8)),))), KERNEL, "open at the SINK")
    doubled = kernel(param(0, 8).index(0).store(param(0, 9).index(0)))
    fails(doubled, KERNEL, "two PARAMs have slot 0")


def test_invalid_is_an_else_arm() -> None:
    i = loop(8, 0)
    x, out = param(1, 4), param(0, 8).index(i)
    assert verify(kernel(out.store(x.index(gate(i < 4, i))).end(i)), KERNEL, "t") == 0
    first = UOp(Ops.WHERE, (i < 4, invalid(), i))
    fails(kernel(out.store(x.index(first)).end(i)), KERNEL, "Invalid")
    added = UOp(Ops.ADD, (i, invalid()))
    fails(kernel(out.store(param(1, 8).index(added)).end(i)), KERNEL, "ADD of Invalid")


# ---- programs


def test_programs_are_linear() -> None:
    fails(UOp.sink(), PROGRAM, "a program is one LINEAR")


def test_program_order() -> None:
    order = list(copy_program())
    fails(UOp(Ops.LINEAR, (*order, order[-2])), PROGRAM, "lists this node twice")
    fails(UOp(Ops.LINEAR, tuple(reversed(order))), PROGRAM, "it stands before its source")
    fails(UOp(Ops.LINEAR, tuple(order[:-1])), PROGRAM, "nothing closes this loop")
    end = order[-1]
    late = UOp(Ops.EXP, (next(node for node in order if node.op is Ops.LOAD),))
    fails(UOp(Ops.LINEAR, (*order, late)), PROGRAM, "it stands outside of its loop")
    assert end.op is Ops.END


def test_loops_nest_in_a_program() -> None:
    four = UOp.const(4, dtypes.int32)
    i, j = (UOp.range(four, axis, AxisType.LOOP) for axis in (0, 1))
    stores = [
        param(slot, 4).index(r).store(UOp.const(0.0, dtypes.float32))
        for slot, r in ((0, i), (1, j))
    ]
    constants = [node for s in stores for node in s.toposort() if node.op in (Ops.CONST, Ops.CAST)]
    first, second = stores
    ends = (first.end(i), second.end(j))
    parts = (*dict.fromkeys(constants), first.src[0].src[0], second.src[0].src[0])
    crossed = (*parts, i, j, first.src[0], second.src[0], *stores, *ends)
    fails(UOp(Ops.LINEAR, crossed), PROGRAM, "it closes loops that are not the innermost ones")
    nested = (*parts, i, first.src[0], first, ends[0], j, second.src[0], second, ends[1])
    assert verify(UOp(Ops.LINEAR, nested), PROGRAM, "t") == 0


def test_programs_have_no_weak_values() -> None:
    weak = loop(8, 0, AxisType.LOOP)
    store = param(0, 8).index(weak).store(UOp.const(0.0, dtypes.float32)).end(weak)
    fails(linear(UOp.sink(store)), PROGRAM, "RANGE (is weakint|has a weak operand) in a program")
    x = param(1, 8).index(UOp.const(0, dtypes.int32)).load()
    half = param(0, 8).index(UOp.const(0, dtypes.int32)).store(UOp(Ops.MUL, (x, UOp.const(0.5))))
    fails(linear(UOp.sink(half)), PROGRAM, "MUL has a weak operand in a program")
    still = UOp.range(UOp.const(8, dtypes.int32), 0, AxisType.WEAK)
    zero = UOp.const(0.0, dtypes.float32)
    undecided = param(0, 8).index(still).store(zero).end(still)
    fails(linear(UOp.sink(undecided)), PROGRAM, "a loop is still WEAK")


def test_shift_distances_in_a_program() -> None:
    zero = UOp.const(0, dtypes.int32)
    x = param(1, 8, dtypes.int64).index(zero).load()
    for distance, legal in ((dtypes.int64, True), (dtypes.uint32, True), (dtypes.int32, False)):
        shifted = UOp(Ops.SHL, (x, UOp.const(3, distance)))
        program = linear(UOp.sink(param(0, 8, dtypes.int64).index(zero).store(shifted)))
        if legal:
            assert verify(program, PROGRAM, "t") == 0
        else:
            fails(program, PROGRAM, "a shift distance has another dtype")


# ---- bounds of accesses


def copied(size: int, extent: int, index: UOp) -> UOp:
    i = index.toposort()[-1] if index.op is Ops.RANGE else loop(extent, 0)
    return kernel(param(0, extent).index(loop(extent, 0)).store(param(1, size).index(index)).end(i))


def test_accesses_in_bounds_are_proved() -> None:
    i = loop(8, 0)
    assert verify(copied(8, 8, i), KERNEL, "t") == 0
    assert verify(copied(10, 8, i + 2), KERNEL, "t") == 0
    assert verify(copied(6, 8, gate(~(i < 2), i - 2)), KERNEL, "t") == 0


def test_accesses_out_of_bounds_are_found() -> None:
    i = loop(8, 0)
    fails(copied(7, 8, i), KERNEL, r"the index reaches outside of 0 .. 6")
    fails(copied(8, 8, i - 1), KERNEL, "the index reaches outside of 0 .. 7")
    fails(copied(6, 8, gate(~(i < 1), i - 2)), KERNEL, "the index reaches outside of 0 .. 5")
    store = param(0, 7).index(i).store(UOp.const(0.0)).end(i)
    fails(kernel(store), KERNEL, "outside of 0 .. 6")


def test_gates_of_loads_and_stores_count() -> None:
    i = loop(8, 0, AxisType.LOOP)
    zero = UOp.const(0.0, dtypes.float32)
    load = param(1, 4).index(i).load(zero, i < 4)
    store = param(0, 4).index(i).store(load, i < 4).end(i)
    assert verify(kernel(store), LANES, "t") == 0
    wide = param(0, 4).index(i).store(load, i < 5).end(i)
    fails(kernel(wide), LANES, "outside of 0 .. 3")


def test_one_ungated_use_of_an_index_is_enough() -> None:
    i = loop(8, 0, AxisType.LOOP)
    zero = UOp.const(0.0, dtypes.float32)
    index = param(1, 4).index(i)
    both = index.load(zero, i < 4) + index.load()
    fails(kernel(param(0, 8).index(i).store(both).end(i)), LANES, "outside of 0 .. 3")


def test_what_cannot_be_decided_is_counted() -> None:
    i, table = loop(8, 0), param(1, 8, dtypes.int32)
    data = kernel(param(0, 8).index(i).store(param(2, 8).index(table.index(i))).end(i))
    assert verify(data, KERNEL, "t") == 1
    large = loop(1 << 20, 0)
    index = (large * 3) % (1 << 20)
    wide = kernel(
        param(0, 1 << 20).index(large).store(param(1, (1 << 20) - 1).index(index)).end(large)
    )
    assert verify(wide, KERNEL, "t") == 1
