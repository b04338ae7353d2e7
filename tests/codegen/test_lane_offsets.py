"""Terms and offsets of an index add up to the index, for every lane and every value of the loops."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomgrad.codegen.lane_offsets import broadcast_places, lane_offsets, permuted_places
from loomgrad.dtype import DType, dtypes, truncate
from loomgrad.ir.args import AxisType, ParamArg
from loomgrad.ir.opcode import Ops
from loomgrad.ir.ops import ROWS
from loomgrad.ir.uop import UOp, shape_stack

Array = npt.NDArray[np.object_]
I = UOp.range(5, 0, AxisType.LOOP)
J = UOp.range(7, 1, AxisType.LOOP)


def lanes(count: int, shape: tuple[int, ...]) -> UOp:
    return UOp.stack(UOp.const(i) for i in range(count)).reshape(shape)


def loaded(slot: int, dtype: DType = dtypes.int32) -> UOp:
    return UOp(Ops.PARAM, (), ParamArg(slot, dtype, 9)).index(UOp.const(0)).load()


def evaluated(node: UOp, loops: dict[UOp, int]) -> Array:
    """The lanes of a node as Python ints, wrapped to its dtype after each operation."""
    if node in loops:
        return np.array(loops[node], object)
    if node.op is Ops.CONST:
        return np.array(node.arg, object)
    parts = [evaluated(source, loops) for source in node.src]
    if node.op is Ops.STACK:
        return np.stack(parts) if parts else np.zeros(0, object)
    if node.op is Ops.RESHAPE:
        return parts[0].reshape(node.shape)
    if node.op is Ops.PERMUTE:
        return parts[0].transpose(node.axes)
    if node.op is Ops.EXPAND:
        return np.broadcast_to(parts[0], node.shape)
    evaluate = ROWS[node.op].evaluate if node.op is not Ops.CAST else lambda value: value
    assert evaluate is not None
    function = np.frompyfunc(lambda *values: truncate(node.dtype, evaluate(*values)), len(parts), 1)
    return np.broadcast_to(np.asarray(function(*parts), object), node.shape)


def check(index: UOp, *leaves: UOp, trials: int = 40) -> bool:
    """Compare on many values of the loops (and loaded scalars); whether there was something to compare."""
    found = lane_offsets(index)
    if found is None:
        return False
    domains = [range(int(leaf.vmax) + 1) if leaf.op is Ops.RANGE else VALUES for leaf in leaves]
    points = list(itertools.product(*domains))
    for point in points[:: max(1, len(points) // trials)]:
        loops = dict(zip(leaves, point, strict=True))
        total = np.array(found.offsets, object).reshape(index.shape)
        for term, factor in found.terms:
            total = total + evaluated(term, loops) * factor
        assert (total == evaluated(index, loops)).all(), (point, found)
    return True


VALUES = (0, 1, -1, 3, 2**31 - 1, -(2**31))
COLUMN, ROW = lanes(4, (1, 4)), lanes(3, (3, 1))

# fmt: off
# Expressions whose lanes must be found, with the offsets where they are short enough to read.
FOUND: dict[str, tuple[UOp, tuple[int, ...] | None]] = {
    "constant":      (UOp.const(3),                             (3,)),
    "scalar":        (I * 4 + 2,                                (2,)),
    "tile":          ((I * 3 + ROW) * 28 + (J * 4 + COLUMN),    (0, 1, 2, 3, 28, 29, 30, 31, 56, 57, 58, 59)),
    "reversed":      (J * 4 + (3 - COLUMN),                     (3, 2, 1, 0)),
    "negative":      (I * 9 - COLUMN * 2 + 6,                   (6, 4, 2, 0)),
    "quotient":      ((I * 4 + COLUMN) // 2,                    (0, 0, 1, 1)),
    "remainder":     ((I * 4 + COLUMN) % 4,                     (0, 1, 2, 3)),
    "quotients":     (COLUMN // 3 * 5 + COLUMN % 3,             (0, 1, 2, 5)),
    "odd loop":      (I // 2 * 8 + COLUMN,                      (0, 1, 2, 3)),
    "toward zero":   ((I * 4 + COLUMN).alu(Ops.CDIV, UOp.const(4)), (0, 0, 0, 0)),
    "shift":         ((I * 8 + COLUMN * 2) >> 1,                (0, 1, 2, 3)),
    "mask":          ((I * 4 + COLUMN) & 3,                     (0, 1, 2, 3)),
    "shift left":    ((I + COLUMN) << 2,                        (0, 4, 8, 12)),
    "stack":         (UOp.stack([I * 2, I * 2 + 5]),            (0, 5)),
    "permuted":      ((ROW * 4 + COLUMN + I).permute(1, 0),     (0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11)),
    "reshaped":      ((ROW * 4 + COLUMN + I).reshape(2, 6),     tuple(range(12))),
    "expanded":      (UOp(Ops.EXPAND, (lanes(2, (2,)) + I, shape_stack((2,)))), (0, 1, 0, 1)),
    "maximum":       (COLUMN.maximum(2) + I,                    (2, 2, 2, 3)),
}
# fmt: on


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str) -> None:
    index, offsets = FOUND[name]
    found = lane_offsets(index)
    assert found is not None and found.offsets == offsets
    assert check(index, I, J)


def test_terms_are_loops_where_they_can_be() -> None:
    found = lane_offsets((I * 3 + ROW) * 28 + (J * 4 + COLUMN))
    assert found is not None and dict(found.terms) == {I: 84, J: 4}
    found = lane_offsets(I * 4 + COLUMN - I * 4)
    assert found is not None and found.terms == ()


def test_not_found() -> None:
    assert lane_offsets((I * 2 + COLUMN) // 4) is None  # where it steps depends on I
    assert lane_offsets(COLUMN * I) is None  # the stride does
    assert lane_offsets((COLUMN + I).cast(dtypes.int8)) is not None  # fits
    assert lane_offsets((COLUMN * 100 + I).cast(dtypes.int8)) is None  # may wrap
    data = UOp(Ops.PARAM, (), ParamArg(0, dtypes.int32, 9)).index(lanes(4, (4,))).load()
    assert lane_offsets(data) is None


def test_data_that_varies_along_leading_lanes_is_a_term() -> None:
    rows = UOp(Ops.PARAM, (), ParamArg(0, dtypes.int64, 9)).index(lanes(3, (3, 1))).load()
    found = lane_offsets(rows * 16 + COLUMN.cast(dtypes.int64))
    assert found is not None
    assert found.terms == ((rows, 16),) and found.offsets == (0, 1, 2, 3) * 3


def test_arithmetic_that_wraps_is_a_term() -> None:
    data = loaded(0)
    product = data * 3 + 1
    found = lane_offsets(product)
    assert found is not None and found.terms == ((product, 1),)
    assert lane_offsets(product + lanes(4, (4,)).cast(dtypes.int32)) is None
    wide = loaded(1, dtypes.int64)
    found = lane_offsets(wide * 3 + lanes(4, (4,)).cast(dtypes.int64))
    assert found is not None and found.terms == ((wide, 3),)
    assert lane_offsets((wide * 8 + lanes(4, (4,)).cast(dtypes.int64)) // 8) is None


SCALARS = st.sampled_from([I, J, UOp.const(3), UOp.const(-2), I * 4, J * 8 + 1])
LANES = st.sampled_from([ROW, COLUMN, ROW * 4, COLUMN * 8 + 3, lanes(12, (3, 4)), I * 4 + COLUMN])
OPERATIONS: list[Callable[[UOp, UOp], UOp]] = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * 4 + b,
    lambda a, b: -a + b,
]
BY_NUMBER: list[Callable[[UOp, int], UOp]] = [
    lambda a, n: a * n,
    lambda a, n: a // n,
    lambda a, n: a % n,
    lambda a, n: a.alu(Ops.CDIV, UOp.const(n)),
    lambda a, n: a.alu(Ops.CMOD, UOp.const(n)),
    lambda a, n: a >> n,
    lambda a, n: a << n,
    lambda a, n: a & (2**n - 1),
    lambda a, n: a.maximum(n),
]


@st.composite
def expressions(draw: st.DrawFn) -> UOp:
    pool = [draw(SCALARS), draw(LANES), draw(LANES)]
    for _ in range(draw(st.integers(1, 5))):
        a = draw(st.sampled_from(pool))
        if draw(st.booleans()):
            pool.append(draw(st.sampled_from(OPERATIONS))(a, draw(st.sampled_from(pool))))
        else:
            pool.append(draw(st.sampled_from(BY_NUMBER))(a, draw(st.sampled_from((1, 2, 3, 4, 8)))))
    result = pool[-1]
    if len(result.shape) == 2 and draw(st.booleans()):
        result = result.permute(1, 0)
    return result


@given(expressions())
def test_random_expressions(index: UOp) -> None:
    check(index, I, J)


def test_places() -> None:
    source = np.arange(6).reshape(2, 3)
    for axes in ((0, 1), (1, 0)):
        assert source.transpose(axes).ravel().tolist() == list(permuted_places((2, 3), axes))
    for shape, target in (((2, 3), (4, 2, 3)), ((2, 1), (2, 3)), ((), (2, 2)), ((1, 3), (2, 3))):
        values = np.arange(int(np.prod(shape))).reshape(shape)
        places = broadcast_places(shape, target)
        assert np.broadcast_to(values, target).ravel().tolist() == list(places)
