"""Elementwise operations, casts and horizontal reductions as instructions."""

from __future__ import annotations

from collections.abc import Sequence

from loomgrad.backends.cpu.spelling import (
    MAX_OF_NUMBER,
    TO_ODD_FLOAT,
    Lines,
    cast_spelling,
    spelling_of,
    words_of,
)
from loomgrad.backends.cpu.types import type_of
from loomgrad.backends.cpu.values import Lanes, Value
from loomgrad.dtype import DType, dtypes
from loomgrad.errors import UnsupportedError
from loomgrad.ir.opcode import GroupOp, Op, Ops
from loomgrad.ir.shape import Shape, size_of

_HALF_FLOATS = (dtypes.float16, dtypes.bfloat16)


def elementwise(
    lanes: Lanes, op: Op, dtype: DType, shape: Shape, operands: Sequence[Value]
) -> Value:
    """`op` of operands that broadcast to `shape`; `dtype` is the result's."""
    operands = _of_one_dtype(lanes, op, dtype, operands)
    computed = operands[-1].dtype
    lines = spelling_of(op, computed)
    if op is Ops.MAX and computed.is_float:
        if _is_number(operands[0]):
            operands = operands[::-1]
        if _is_number(operands[1]):
            lines = MAX_OF_NUMBER
    return _spelled(lanes, lines, computed, dtype, shape, operands)


def _of_one_dtype(lanes: Lanes, op: Op, dtype: DType, operands: Sequence[Value]) -> Sequence[Value]:
    """The operands with constants, and the distance of a shift, in the dtype that is computed in."""
    if op is Ops.WHERE:
        return [operands[0], *(lanes.converted(operand, dtype) for operand in operands[1:])]
    if op is Ops.SHL or op is Ops.SHR:
        return [lanes.converted(operands[0], dtype), _distance(lanes, operands[1], dtype)]
    if op in GroupOp.Comparison:
        dtype = next((item.dtype for item in operands if not item.dtype.is_weak), dtypes.int64)
    return [lanes.converted(operand, dtype) for operand in operands]


def _is_number(value: Value) -> bool:
    """Whether a value is constant and never NaN."""
    return value.constants is not None and all(item == item for item in value.constants)


def _distance(lanes: Lanes, value: Value, dtype: DType) -> Value:
    """How far to shift, as `dtype`; a distance that the width does not hold stays one."""
    if value.constants is not None:
        bounded = [int(item) if 0 <= item < dtype.bits else dtype.bits for item in value.constants]
        return lanes.constant(bounded, value.shape, dtype)
    if value.dtype.bits > dtype.bits:
        bound = "call {t} @llvm.umin.{s}({t} {a}, {t} " + f"{{t[{dtype.bits}]}})"
        value = _spelled(lanes, (bound,), value.dtype, value.dtype, value.shape, [value])
    return cast(lanes, value, dtype)


def _spelled(
    lanes: Lanes,
    lines: Lines,
    source: DType,
    target: DType,
    shape: Shape,
    operands: Sequence[Value],
) -> Value:
    """A value of dtype `target` by instructions on operands of dtype `source`."""
    return lanes.map(
        target,
        shape,
        operands,
        lambda level, length, *chunks: _spell(lanes, lines, source, target, level, length, chunks),
    )


def _spell(
    lanes: Lanes,
    lines: Lines,
    source: DType,
    target: DType,
    level: int,
    length: int,
    chunks: Sequence[str],
) -> str:
    words = words_of(source, target, length)
    named = dict(zip("abc", chunks, strict=False))
    results: list[str] = []
    for line in lines:
        results.append(lanes.writer.pure(level, line.format(*results, **words, **named)))
    return results[-1]


def cast(lanes: Lanes, value: Value, dtype: DType) -> Value:
    """A value as another dtype: ints wrap, floats round once and saturate into ints."""
    if value.constants is not None:
        return lanes.converted(value, dtype)
    if value.dtype is dtypes.bfloat16 and dtype is not dtypes.float32:
        value = _step(lanes, value, dtypes.float32)
    if dtype is dtypes.bfloat16 and value.dtype is not dtypes.float32:
        value = _odd_float(lanes, value)
    if dtype is dtypes.float16 and value.dtype is dtypes.float64:
        value = _odd_float(lanes, value)
    return _step(lanes, value, dtype)


def _odd_float(lanes: Lanes, value: Value) -> Value:
    """A float32 that rounds to fewer bits as `value` does."""
    if value.dtype.is_int and value.dtype.bits > 32:
        raise UnsupportedError(
            f"the CPU backend cannot cast {value.dtype.name} to bfloat16",
            fix="cast to float32 first",
        )
    if not value.dtype.is_float:
        value = _step(lanes, value, dtypes.float64)
    if value.dtype is not dtypes.float64:
        return _step(lanes, value, dtypes.float32)
    return _spelled(lanes, TO_ODD_FLOAT, value.dtype, dtypes.float32, value.shape, [value])


def _step(lanes: Lanes, value: Value, dtype: DType) -> Value:
    if value.dtype is dtype:
        return value
    lines = cast_spelling(value.dtype, dtype)
    if not lines:
        return Value(dtype, value.shape, value.rows, value.level)
    return _spelled(lanes, lines, value.dtype, dtype, value.shape, [value])


def bitcast(lanes: Lanes, value: Value, dtype: DType) -> Value:
    """The same bits as another dtype of the same width; a bool is a byte."""
    if value.dtype.itemsize != dtype.itemsize:
        raise UnsupportedError(
            f"the CPU backend cannot view {value.dtype.name} as {dtype.name} inside of a kernel"
        )
    if value.dtype.is_bool or dtype.is_bool:
        return cast(lanes, value, dtype)
    return _spelled(lanes, ("bitcast {t} {a} to {r}",), value.dtype, dtype, value.shape, [value])


def reduce(lanes: Lanes, op: Op, value: Value, count: int) -> Value:
    """The first `count` axes folded: the rest of a value combined as a tree."""
    if count == 0:
        return value
    shape = value.shape[count:]
    combine = _Combine(lanes, spelling_of(op, value.dtype), value.dtype, value.level)
    groups = size_of(shape[:-1])
    lengths = lanes.row_lengths(value.shape)
    rows = [
        [
            combine.tree(list(chunks), n)
            for chunks, n in zip(zip(*rows, strict=True), lengths, strict=True)
        ]
        for rows in (value.rows[group::groups] for group in range(groups))
    ]
    if count == len(value.shape):
        rows = [[combine.across(rows[0], lengths)]]
    return Value(value.dtype, shape, rows, value.level)


def reduce_last(lanes: Lanes, op: Op, value: Value) -> Value:
    """The last axis folded, along which the vectors lie: each row becomes one element."""
    combine = _Combine(lanes, spelling_of(op, value.dtype), value.dtype, value.level)
    lengths = lanes.row_lengths(value.shape)
    scalars = [combine.across(row, lengths) for row in value.rows]
    return lanes.regroup(scalars, value.shape[:-1], value.dtype, value.level)


class _Combine:
    """Folds vectors and lanes with one operation."""

    def __init__(self, lanes: Lanes, lines: Lines, dtype: DType, level: int) -> None:
        self.lanes, self.lines, self.dtype, self.level = lanes, lines, dtype, level

    def pair(self, a: str, b: str, length: int) -> str:
        """`op` of two vectors."""
        return _spell(self.lanes, self.lines, self.dtype, self.dtype, self.level, length, (a, b))

    def tree(self, items: list[str], length: int) -> str:
        """`op` of vectors, neighbours first."""
        while len(items) > 1:
            pairs = zip(items[::2], items[1::2], strict=False)
            rest = items[len(items) - len(items) % 2 :]
            items = [self.pair(a, b, length) for a, b in pairs] + rest
        return items[0]

    def across(self, row: list[str], lengths: list[int]) -> str:
        """All lanes of a row as one: whole vectors first, then halves of one, then lanes."""
        whole = [chunk for chunk, length in zip(row, lengths, strict=True) if length == lengths[0]]
        parts = self._halved(self.tree(whole, lengths[0]), lengths[0])
        if lengths[-1] != lengths[0]:
            parts += self._halved(row[-1], lengths[-1])
        return self.tree(parts, 1)

    def _halved(self, chunk: str, length: int) -> list[str]:
        while length % 2 == 0:
            half = length // 2
            low, high = (self._lanes_of(chunk, length, start, half) for start in (0, half))
            chunk, length = self.pair(low, high, half), half
        return [
            self.lanes.extract(chunk, self.dtype, length, lane, self.level)
            for lane in range(length)
        ]

    def _lanes_of(self, chunk: str, length: int, start: int, count: int) -> str:
        if count == 1:
            return self.lanes.extract(chunk, self.dtype, length, start, self.level)
        vector = type_of(self.dtype, length)
        wanted = ", ".join(f"i32 {lane}" for lane in range(start, start + count))
        return self.lanes.writer.pure(
            self.level,
            f"shufflevector {vector} {chunk}, {vector} poison, <{count} x i32> <{wanted}>",
        )
