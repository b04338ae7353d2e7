"""Programs rendered, compiled and compared with NumPy: loops, tiles, memory access, accumulators."""

from __future__ import annotations

import numpy as np
import pytest

from loomgrad.dtype import DType, dtypes
from loomgrad.errors import UnsupportedError
from loomgrad.ir.args import AxisType, ReduceArg
from loomgrad.ir.opcode import Op, Ops
from loomgrad.ir.uop import UOp, shape_stack
from loomgrad.target import Target
from tests.backends.programs import (
    TARGETS,
    lane_numbers,
    linear,
    loop,
    number,
    parameter,
    registers,
    run,
    scratch,
)

GENERATOR = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return GENERATOR.standard_normal(shape, dtype=np.float32)


def remainder(value: UOp, divisor: int) -> UOp:
    return UOp(Ops.CMOD, (value, number(divisor)))


def matmul(m: int, n: int, k: int, tile: tuple[int, int]) -> UOp:
    """y = x @ w in register tiles; the columns of tiles are spread over threads."""
    rows, columns = tile
    y, x, w = (parameter(slot) for slot in range(3))
    j, i = loop(n // columns, 0, AxisType.THREAD), loop(m // rows, 1)
    inner = loop(k, 2, AxisType.REDUCE)
    row = i * number(rows) + lane_numbers(rows, (rows, 1))
    column = j * number(columns) + lane_numbers(columns, (1, columns))
    accumulator = registers(0, dtypes.float32, tile)
    start = accumulator.after(i, j).store(number(0.0, dtypes.float32))
    a = x.index(row * number(k) + inner).load()
    b = w.index(inner * number(n) + column).load()
    update = accumulator.after(start, inner).store(
        UOp(Ops.MULACC, (a, b, accumulator.after(start, inner).load()))
    )
    result = y.index(row * number(n) + column).store(accumulator.after(update.end(inner)).load())
    return linear(j, i, start, inner, update, update.end(inner), result, result.end(j, i))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("tile", [(6, 16), (8, 32), (3, 5), (1, 1), (4, 1), (1, 9)])
def test_tiled_matmul(target: Target, tile: tuple[int, int]) -> None:
    m, n, k = 4 * tile[0], 3 * tile[1], 19
    x, w, y = floats(m, k), floats(k, n), np.zeros((m, n), np.float32)
    run(matmul(m, n, k, tile), [y, x, w], interval=(0, 3), target=target)
    np.testing.assert_allclose(y, x @ w, rtol=1e-4, atol=1e-5)


def test_threads_take_only_their_interval() -> None:
    x, w, y = floats(6, 8), floats(8, 64), np.zeros((6, 64), np.float32)
    run(matmul(6, 64, 8, (6, 16)), [y, x, w], interval=(1, 3))
    expected = x @ w
    expected[:, :16] = expected[:, 48:] = 0
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
    run(matmul(6, 64, 8, (6, 16)), [y, x, w], interval=(2, 2))


def masked_scale(size: int, width: int) -> UOp:
    """y = 2 * x + 1 over `size` elements in vectors of `width`, the last one partly."""
    y, x = parameter(0), parameter(1)
    i = loop(-(-size // width), 0)
    place = i * number(width) + lane_numbers(width)
    inside = place < number(size)
    value = x.index(place).load(number(0.0, dtypes.float32), inside)
    result = y.index(place).store(
        value * number(2.0, dtypes.float32) + number(1.0, dtypes.float32), inside
    )
    return linear(i, result, result.end(i))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [1, 7, 16, 21, 64])
@pytest.mark.parametrize("width", [1, 8, 12, 32])
def test_masked_tail_touches_nothing_beyond(target: Target, size: int, width: int) -> None:
    x, y = floats(size), np.full(size + 64, -1, np.float32)
    run(masked_scale(size, width), [y, x], target=target)
    np.testing.assert_array_equal(y[:size], x * 2 + 1)
    assert (y[size:] == -1).all()


def test_masked_load_at_the_end_of_mapped_memory() -> None:
    """What a gate excludes is not read: behind the last page there is nothing."""
    import ctypes
    import mmap

    page = mmap.PAGESIZE
    area = mmap.mmap(-1, 2 * page)
    whole = np.frombuffer(area, np.float32)
    ctypes.CDLL(None).mprotect(ctypes.c_void_p(whole.ctypes.data + page), page, 0)
    try:
        x = whole[page // 4 - 5 : page // 4]
        x[:] = [1, 2, 3, 4, 5]
        for width in (1, 8):
            y = np.zeros(5, np.float32)
            run(masked_scale(5, width), [y, x])
            assert y.tolist() == [3, 5, 7, 9, 11]
    finally:
        ctypes.CDLL(None).mprotect(ctypes.c_void_p(whole.ctypes.data + page), page, 3)


# fmt: off
# Index of an access by lanes of shape (3, 8), as the program and as NumPy computes it.
ACCESSES = {
    "run":            lambda r, c: r * 8 + c,
    "padded rows":    lambda r, c: r * 11 + c + 2,
    "reversed":       lambda r, c: r * 8 - c + 40,
    "stride":         lambda r, c: r * 40 + c * 3,
    "transposed":     lambda r, c: r + c * 3,
    "same in a row":  lambda r, c: r * 5 + c * 0,
    "pairs":          lambda r, c: r * 8 + c // 2,
    "modulo":         lambda r, c: (r * 8 + c) % 5,
    "one for all":    lambda r, c: r * 0 + c * 0 + 3,
    "windows":        lambda r, c: r + c,
}
# fmt: on


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ACCESSES)
@pytest.mark.parametrize("gated", ["open", "lanes", "rows"])
def test_loads(target: Target, name: str, gated: str) -> None:
    y, x = parameter(0), parameter(1)
    i = loop(2, 0)
    rows, columns = lane_numbers(3, (3, 1)), lane_numbers(8, (1, 8))
    base = i * number(60)
    place = base + ACCESSES[name](rows, columns)
    r, c = np.arange(3)[:, None], np.arange(8)[None, :]
    options: tuple[UOp, ...] = ()
    keep = np.ones((3, 8), bool)
    if gated == "lanes":
        options = (number(-7.0, dtypes.float32), remainder(rows + columns, 3) < number(2))
        keep = (r + c) % 3 < 2
    elif gated == "rows":
        options = (number(-7.0, dtypes.float32), rows < number(2))
        keep = np.broadcast_to(r < 2, (3, 8))
    value = x.index(place).load(*options)
    result = y.index(i * number(24) + rows * number(8) + columns).store(value)
    memory, out = floats(400), np.zeros((2, 3, 8), np.float32)
    run(linear(i, result, result.end(i)), [out, memory], target=target)
    for step in range(2):
        wanted = memory[(step * 60 + ACCESSES[name](r, c)) + np.zeros((3, 8), int)]
        np.testing.assert_array_equal(out[step], np.where(keep, wanted, -7))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ACCESSES)
@pytest.mark.parametrize("gated", [False, True])
def test_stores_in_lane_order(target: Target, name: str, gated: bool) -> None:
    y, x = parameter(0), parameter(1)
    rows, columns = lane_numbers(3, (3, 1)), lane_numbers(8, (1, 8))
    value = x.index(rows * number(8) + columns).load()
    gate = (remainder(rows * number(8) + columns, 5) < number(3),) if gated else ()
    result = y.index(ACCESSES[name](rows, columns)).store(value, *gate)
    source, out = floats(3, 8), np.zeros(200, np.float32)
    run(linear(result), [out, source], target=target)
    expected = np.zeros(200, np.float32)
    for r in range(3):
        for c in range(8):
            if not gated or (r * 8 + c) % 5 < 3:
                expected[ACCESSES[name](r, c)] = source[r, c]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("index_dtype", [dtypes.int32, dtypes.int64, dtypes.uint32])
def test_gather_and_scatter_by_data(target: Target, index_dtype: DType) -> None:
    y, x, places, targets = (
        parameter(0),
        parameter(1),
        parameter(2, index_dtype),
        parameter(3, index_dtype),
    )
    lanes = lane_numbers(21)
    value = x.index(places.index(lanes).load()).load()
    result = y.index(targets.index(lanes).load()).store(value)
    memory, out = floats(100), np.zeros(50, np.float32)
    numpy_dtype = np.dtype(index_dtype.name)
    order = GENERATOR.integers(0, 100, 21).astype(numpy_dtype)
    goals = GENERATOR.integers(0, 50, 21).astype(numpy_dtype)
    run(linear(result), [out, memory, order, goals], target=target)
    expected = np.zeros(50, np.float32)
    for goal, place in zip(goals, order, strict=True):
        expected[goal] = memory[place]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("gated", [False, True])
def test_rows_of_a_table(gated: bool) -> None:
    """table[idx]: the base of each row of lanes is data, its lanes are contiguous."""
    y, table, numbers = parameter(0), parameter(1), parameter(2, dtypes.int64)
    rows, columns = lane_numbers(5, (5, 1)), lane_numbers(16, (1, 16))
    row = numbers.index(rows).load()
    place = row * number(16, dtypes.int64) + columns.cast(dtypes.int64)
    valid = UOp(Ops.AND, (~(row < number(0, dtypes.int64)), row < number(9, dtypes.int64)))
    options = (number(0.0, dtypes.float32), valid) if gated else ()
    value = table.index(place).load(*options)
    result = y.index(rows * number(16) + columns).store(value)
    memory, out = floats(9, 16), np.zeros((5, 16), np.float32)
    chosen = np.array([3, 8, -1, 0, 9] if gated else [3, 8, 1, 0, 3])
    run(linear(result), [out, memory, chosen])
    safe = np.where((chosen < 0) | (chosen > 8), 0, chosen)
    np.testing.assert_array_equal(out, np.where((chosen == safe)[:, None], memory[safe], 0))


def test_wrapping_index_arithmetic_is_not_widened() -> None:
    """An int32 product of data wraps before it becomes an address."""
    y, x, data = parameter(0), parameter(1), parameter(2, dtypes.int32)
    lanes = lane_numbers(8)
    place = data.index(lanes).load() * number(1 << 30) + lanes
    result = y.index(lanes).store(x.index(place).load())
    memory, out = floats(8), np.zeros(8, np.float32)
    run(linear(result), [out, memory, np.full(8, 4, np.int32)])
    np.testing.assert_array_equal(out, memory)


REDUCTIONS = [(Ops.ADD, np.add), (Ops.MUL, np.multiply), (Ops.MAX, np.maximum)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("op, function", REDUCTIONS)
@pytest.mark.parametrize(
    "shape, count",
    [((8,), 1), ((21,), 1), ((3, 8), 2), ((4, 3, 16), 1), ((4, 3, 16), 2), ((5, 6), 0)],
)
def test_reduce_over_lanes(
    target: Target, op: Op, function: np.ufunc, shape: tuple[int, ...], count: int
) -> None:
    size, kept = int(np.prod(shape)), shape[count:]
    y, x = parameter(0), parameter(1)
    lanes = lane_numbers(size, shape)
    value = UOp(Ops.REDUCE, (x.index(lanes).load(),), ReduceArg(op, count))
    goal = lane_numbers(int(np.prod(kept)), kept) if kept else number(0)
    result = y.index(goal).store(value)
    source, out = floats(*shape), np.zeros(kept, np.float32)
    run(linear(result), [out, source], target=target)
    expected = function.reduce(source, axis=tuple(range(count))) if count else source
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)


def test_max_over_lanes_finds_nan() -> None:
    y, x = parameter(0), parameter(1)
    value = UOp(Ops.REDUCE, (x.index(lane_numbers(16)).load(),), ReduceArg(Ops.MAX, 1))
    program = linear(y.index(number(0)).store(value))
    for place in range(16):
        source, out = floats(16), np.zeros(1, np.float32)
        source[place] = np.nan
        run(program, [out, source])
        assert np.isnan(out[0])


def test_vector_accumulators() -> None:
    """A sum in 4 vectors of 8, combined after the loop, beside a maximum of the same values."""
    y, x = parameter(0), parameter(1)
    i = loop(50, 0, AxisType.REDUCE)
    lanes = lane_numbers(32, (4, 8))
    value = x.index(i * number(32) + lanes).load()
    total, most = registers(0, dtypes.float32, (4, 8)), registers(1, dtypes.float32, (4, 8))
    starts = (
        total.store(number(0.0, dtypes.float32)),
        most.store(number(-np.inf, dtypes.float32)),
    )
    updates = UOp.group(
        total.after(starts[0], i).store(total.after(starts[0], i).load() + value),
        most.after(starts[1], i).store(UOp(Ops.MAX, (most.after(starts[1], i).load(), value))),
    )
    end = updates.end(i)
    results = [
        y.index(number(slot)).store(
            UOp(Ops.REDUCE, (accumulator.after(end).load(),), ReduceArg(op, 2))
        )
        for slot, (accumulator, op) in enumerate(((total, Ops.ADD), (most, Ops.MAX)))
    ]
    source, out = floats(1600), np.zeros(2, np.float32)
    run(linear(*starts, i, updates, end, *results), [out, source])
    np.testing.assert_allclose(out, [source.sum(), source.max()], rtol=1e-4)


def test_scratch_memory_between_two_loops() -> None:
    """y[c] = x[c] / sum(x), the second loop reading what the first one wrote."""
    y, x, row = parameter(0), parameter(1), scratch(0, dtypes.float32, 40)
    first, second = loop(5, 0), loop(5, 1)
    total = registers(1, dtypes.float32, (8,))
    start = total.store(number(0.0, dtypes.float32))
    lanes = lane_numbers(8)
    doubled = x.index(first * number(8) + lanes).load() * number(2.0, dtypes.float32)
    kept = row.index(first * number(8) + lanes).store(doubled)
    update = total.after(start, first).store(total.after(start, first).load() + doubled)
    end = UOp.group(kept, update).end(first)
    inverse = UOp(
        Ops.RECIPROCAL, (UOp(Ops.REDUCE, (total.after(end).load(),), ReduceArg(Ops.ADD, 1)),)
    )
    again = row.after(end).index(second * number(8) + lanes).load()
    result = y.index(second * number(8) + lanes).store(again * inverse)
    source, out = floats(40) + 3, np.zeros(40, np.float32)
    run(
        linear(start, first, kept, update, end, inverse, second, result, result.end(second)),
        [out, source],
    )
    np.testing.assert_allclose(out, source / source.sum(), rtol=1e-5)


def test_lane_movements() -> None:
    y, x = parameter(0), parameter(1)
    value = x.index(lane_numbers(24, (2, 3, 4))).load()
    moved = UOp(Ops.PERMUTE, (value,), (2, 0, 1))
    widened = UOp(Ops.EXPAND, (moved, shape_stack((2,))))
    flat = UOp(Ops.RESHAPE, (widened, shape_stack((48,))))
    source, out = floats(2, 3, 4), np.zeros(48, np.float32)
    run(linear(y.index(lane_numbers(48)).store(flat)), [out, source])
    np.testing.assert_array_equal(out, np.tile(source.transpose(2, 0, 1).ravel(), 2))


def test_lanes_and_counters_as_data() -> None:
    """i * 10 + lane, in two dtypes, and a STACK of values that differ."""
    y, z = parameter(0, dtypes.int32), parameter(1)
    i = loop(3, 0)
    lanes = lane_numbers(5)
    number_of = i * number(10) + lanes
    first = y.index(i * number(5) + lanes).store(number_of)
    pair = UOp.stack(
        (
            number_of.cast(dtypes.float32),
            number(0.5, dtypes.float32) + number_of.cast(dtypes.float32),
        )
    )
    second = z.index(i * number(10) + lane_numbers(10, (2, 5))).store(pair)
    ints, reals = np.zeros((3, 5), np.int32), np.zeros((3, 2, 5), np.float32)
    run(linear(i, first, second, UOp.group(first, second).end(i)), [ints, reals])
    expected = np.arange(3)[:, None] * 10 + np.arange(5)
    np.testing.assert_array_equal(ints, expected)
    np.testing.assert_array_equal(reals, np.stack([expected, expected + 0.5], axis=1))


def test_bools_are_bytes_in_memory() -> None:
    y, x, m = parameter(0, dtypes.bool), parameter(1), parameter(2, dtypes.bool)
    lanes = lane_numbers(19)
    gate = lanes < number(15)
    loaded = m.index(lanes).load(number(True, dtypes.bool), gate)
    value = UOp(Ops.AND, (x.index(lanes).load() < number(0.0, dtypes.float32), loaded))
    result = y.index(lanes).store(value, lanes < number(18))
    source, mask, out = floats(19), GENERATOR.integers(0, 2, 19).astype(bool), np.ones(19, bool)
    run(linear(result), [out, source, mask])
    expected = (source < 0) & np.where(np.arange(19) < 15, mask, True)
    expected[18] = True
    np.testing.assert_array_equal(out, expected)


def test_empty_loop() -> None:
    y = parameter(0)
    i = loop(0, 0)
    result = y.index(i).store(number(1.0, dtypes.float32))
    out = np.zeros(4, np.float32)
    run(linear(i, result, result.end(i)), [out])
    assert not out.any()


def test_operation_without_instructions() -> None:
    y, x = parameter(0), parameter(1)
    value = UOp(Ops.EXP, (x.index(number(0)).load(),))
    with pytest.raises(UnsupportedError, match="EXP of float32"):
        run(linear(y.index(number(0)).store(value)), [np.zeros(1), np.zeros(1)])
