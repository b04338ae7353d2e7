"""Shape rules: against NumPy where it has the operation, and None for what is ill-formed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomgrad.dtype import dtypes
from loomgrad.ir.args import AddrSpace, ParamArg, ReduceArg
from loomgrad.ir.opcode import Op, Ops
from loomgrad.ir.shape import Shape, broadcast, extent_of, size_of
from loomgrad.ir.uop import UOp, shape_stack
from tests.ir.graphs import buffer, loop, param, reduction, tensor

shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)


@given(st.lists(shapes, max_size=3))
def test_broadcasting_is_numpys(several: list[Shape]) -> None:
    try:
        expected: Shape | None = np.broadcast_shapes(*several)
    except ValueError:
        expected = None
    assert broadcast(several) == expected
    if several:
        nodes = [raw_tensor(slot, shape) for slot, shape in enumerate(several)]
        assert UOp(
            Ops.MULACC, (nodes[0], nodes[-1], nodes[len(nodes) // 2])
        ).shape_or_none == broadcast((several[0], several[-1], several[len(several) // 2]))


def raw_tensor(slot: int, shape: Shape) -> UOp:
    return UOp(Ops.RESHAPE, (buffer(slot, size_of(shape)), shape_stack(shape)))


@given(shapes, st.data())
def test_movement_has_the_shape_numpy_gives(shape: Shape, data: st.DataObject) -> None:
    node, array = raw_tensor(0, shape), np.empty(shape)
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    assert UOp(Ops.PERMUTE, (node,), order).shape == array.transpose(order).shape
    assert UOp(Ops.FLIP, (node,), order[:1]).shape == shape
    pairs = [data.draw(st.tuples(st.integers(0, 2), st.integers(0, 2))) for _ in shape]
    sizes = tuple(before + size + after for (before, after), size in zip(pairs, shape, strict=True))
    offsets = shape_stack(before for before, _ in pairs)
    assert UOp(Ops.PAD, (node, offsets, shape_stack(sizes))).shape == sizes
    ends = [data.draw(st.integers(0, size)) for size in shape]
    starts = [data.draw(st.integers(0, end)) for end in ends]
    kept = tuple(end - start for start, end in zip(starts, ends, strict=True))
    assert UOp(Ops.SHRINK, (node, shape_stack(starts), shape_stack(kept))).shape == kept
    assert UOp(Ops.EXPAND, (node, shape_stack((2, 3)))).shape == (2, 3, *shape)
    count = data.draw(st.integers(0, len(shape)))
    assert UOp(Ops.REDUCE, (node,), ReduceArg(Ops.ADD, count)).shape == shape[count:]
    assert UOp(Ops.STACK, (node, node, node)).shape == (3, *shape)


def movement(op: Op, *sizes: Shape, arg: object = None) -> UOp:
    return UOp(op, (tensor(0, (2, 3)), *map(shape_stack, sizes)), arg)


ILL_FORMED = {
    "reshape to another size": movement(Ops.RESHAPE, (5,)),
    "reshape to negative sizes": movement(Ops.RESHAPE, (-2, -3)),
    "permute with a repeat": movement(Ops.PERMUTE, arg=(0, 0)),
    "permute of other axes": movement(Ops.PERMUTE, arg=(0, 1, 2)),
    "flip of no axis": movement(Ops.FLIP, arg=(2,)),
    "pad to less": movement(Ops.PAD, (0, 0), (2, 2)),
    "pad beyond": movement(Ops.PAD, (1, 0), (2, 3)),
    "pad of another rank": movement(Ops.PAD, (0,), (2,)),
    "pad from below": movement(Ops.PAD, (-1, 0), (2, 3)),
    "shrink to more": movement(Ops.SHRINK, (0, 0), (2, 4)),
    "shrink beyond": movement(Ops.SHRINK, (1, 0), (2, 3)),
    "shrink to negative sizes": movement(Ops.SHRINK, (0, 0), (-1, 3)),
    "expand by negative sizes": movement(Ops.EXPAND, (-1,)),
    "reduce of more axes": UOp(Ops.REDUCE, (tensor(0, (2, 3)),), ReduceArg(Ops.ADD, 3)),
    "stack of two shapes": UOp(Ops.STACK, (tensor(0, (2, 3)), tensor(1, (3, 2)))),
    "index of more axes": UOp(Ops.INDEX, (buffer(0, 3), UOp.const(0), UOp.const(0))),
    "sum of two shapes": UOp(Ops.ADD, (tensor(0, (2, 3)), tensor(1, (2,)))),
    "bitcast that does not divide": UOp(Ops.BITCAST, (buffer(0, 3, dtypes.int8),), dtypes.int16),
    "bitcast of a scalar": UOp(Ops.BITCAST, (UOp.const(1, dtypes.int8),), dtypes.int16),
    "something of an effect": UOp(Ops.ADD, (UOp.sink(), UOp.const(1))),
}


@pytest.mark.parametrize("node", ILL_FORMED.values(), ids=ILL_FORMED.keys())
def test_ill_formed_nodes_have_no_shape(node: UOp) -> None:
    assert node.shape_or_none is None
    assert UOp(Ops.EXP, (UOp(Ops.ADD, (node, UOp.const(1.0))),)).shape_or_none is None


def test_storage() -> None:
    assert buffer(0, 6).shape == (6,) and param(0, 6).shape == (6,)
    register = ParamArg(0, dtypes.float32, 96, addrspace=AddrSpace.REG, shape=(6, 16))
    assert UOp(Ops.BUFFER, (), register).shape == (6, 16)
    scalar = ParamArg(0, dtypes.int32, 1, addrspace=AddrSpace.ALU)
    assert UOp(Ops.PARAM, (), scalar).shape == ()


def test_index_puts_the_shapes_of_indices_in_front() -> None:
    x, rows, columns = (
        tensor(0, (5, 6, 7)),
        tensor(1, (2, 3), dtypes.int32),
        tensor(2, (4,), dtypes.int32),
    )
    assert UOp(Ops.INDEX, (x,)).shape == (5, 6, 7)
    assert x.index(0).shape == (6, 7)
    assert x.index(rows).shape == (2, 3, 6, 7)
    assert x.index(rows, columns).shape == (2, 3, 4, 7)
    assert x.index(rows, 1, loop(7, 0)).shape == (2, 3)


def test_stage_puts_its_ranges_in_front() -> None:
    i, j = loop(4, 0), loop(5, 1)
    assert (i + j).stage("CPU", j, i).shape == (5, 4)
    assert UOp.stack([i, j]).stage("CPU", i).shape == (4, 2)
    assert extent_of(j) == 5


def test_reductions_over_ranges_keep_the_axes() -> None:
    k = reduction(8, 0)
    lanes = UOp.stack(UOp.const(v) for v in range(4)) + k
    assert lanes.shape == (4,)
    assert lanes.fold_ranges(Ops.ADD, k).shape == (4,)
    assert UOp(Ops.REDUCE, (lanes, k), ReduceArg(Ops.ADD, 1)).shape == ()


def test_bitcast_rescales_the_last_axis() -> None:
    node = tensor(0, (3, 4), dtypes.int16)
    assert node.bitcast(dtypes.float16).shape == (3, 4)
    assert node.bitcast(dtypes.int64).shape == (3, 1)
    assert node.bitcast(dtypes.uint8).shape == (3, 8)


def test_the_empty_stack_is_a_shape() -> None:
    empty = UOp(Ops.STACK)
    assert empty.shape == (0,) and empty.dtype is dtypes.weakint
    assert UOp(Ops.RESHAPE, (buffer(0, 1), empty)).shape == ()
