"""The array meaning of every elementwise operation: the column of the op table that the evaluator reads.

The evaluator holds floats of every width in float64 (rounded to their dtype after each operation), bools as
bool, weakint as int64 and the other ints as themselves.  Array forms take operands so held, in one dtype;
`stored` then brings the result into the node's dtype, as `fold` does for one value.  Tests compare the two.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from loomgrad.dtype import DType, dtypes, numpy_dtype
from loomgrad.dtype.float_format import FloatFormat
from loomgrad.ir import fold
from loomgrad.ir.opcode import Op, Ops

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]  # the dtype of a held array is known to the node, not to the type checker


def held_dtype(dtype: DType) -> np.dtype[np.generic]:
    """The NumPy dtype in which the evaluator holds values of `dtype`."""
    if dtype.is_float:
        return numpy_dtype(dtypes.float64)
    return numpy_dtype(dtypes.int64 if dtype.is_weak else dtype)


def from_memory(array: Array, dtype: DType) -> Array:
    """Elements of storage as the evaluator holds them."""
    return array.astype(held_dtype(dtype), copy=False)


def to_memory(array: Array, dtype: DType) -> Array:
    """Held values as storage of a strong dtype."""
    import numpy as np

    with np.errstate(all="ignore"):
        return stored(array, dtype).astype(numpy_dtype(dtype), copy=False)


def stored(array: Array, dtype: DType) -> Array:
    """What storing values of the same kind in `dtype` gives: ints wrap, floats round."""
    if dtype.is_bool:
        return array.astype(bool) if array.dtype.kind == "b" else array != 0
    if dtype.format is not None:
        return rounded(array, dtype.format)
    return array.astype(held_dtype(dtype), copy=False)


def rounded(array: Array, form: FloatFormat) -> Array:
    """Float64 values rounded to nearest, ties to even, in a format."""
    import numpy as np

    if form.precision == 53:
        return array.astype(np.float64, copy=False)
    if form.precision in (11, 24):
        short = np.float32 if form.precision == 24 else np.float16
        return array.astype(short).astype(np.float64)
    _, exponent = np.frexp(array)
    step = np.maximum(exponent - form.precision, form.lowest)
    near = np.copysign(np.ldexp(np.rint(np.ldexp(array, -step)), step), array)
    near = np.where(np.isfinite(array), near, array)
    beyond = np.copysign(np.inf, array) if form.has_infinity else np.nan
    near = np.where(np.abs(near) > form.largest, beyond, near)
    return near if form.has_negative_zero else np.where(near == 0, 0.0, near)


def cast_array(array: Array, source: DType, target: DType) -> Array:
    """CAST by value: ints wrap, floats saturate into ints (NaN is 0), anything to bool is != 0."""
    if target.is_bool:
        return stored(array, target)
    if source.is_float:
        return saturated(array, target) if target.is_int else stored(array, target)
    if not target.is_float:
        return array.astype(held_dtype(target), copy=False)
    return stored(_int_to_float(array, target), target)


def _int_to_float(array: Array, target: DType) -> Array:
    """Ints as float64 from which rounding to `target` is rounding once.

    Because: float64 drops up to 11 bits of a 64-bit int.  Where a shorter format follows, any of them
    that is set is remembered in the lowest bit kept (rounding to odd).
    """
    import numpy as np

    if array.dtype.itemsize < 8 or (target.format is not None and target.format.precision == 53):
        return array.astype(np.float64)
    kept = ((array >> 11) | ((array & 0x7FF) != 0).astype(array.dtype)) << 11
    small = (array < 1 << 53) & (array.astype(np.float64) > -(2.0**53))
    return np.where(small, array, kept).astype(np.float64)


def saturated(array: Array, target: DType) -> Array:
    """Floats as ints: fraction dropped, the nearest limit beyond the range, 0 for NaN."""
    import numpy as np

    held = held_dtype(target)
    low, high = int(target.min), int(target.max)
    inside = (array > low - 1) & (array < float(high + 1))
    whole = np.where(inside, np.trunc(array), 0.0).astype(held)
    whole = np.where(array >= float(high + 1), np.array(high, held), whole)
    return np.where(array <= low - 1, np.array(low, held), whole)


def bitcast_array(array: Array, source: DType, target: DType) -> Array:
    """The bits of held values of `source` as held values of `target`; another width rescales the last axis."""
    import numpy as np

    memory = np.ascontiguousarray(to_memory(array, source))
    seen = memory.reshape(-1).view(numpy_dtype(target))
    if source.itemsize == target.itemsize:
        return from_memory(seen.reshape(array.shape), target)
    return from_memory(seen.reshape((*array.shape[:-1], -1)), target)


def _floor_divide(a: Array, b: Array) -> Array:
    import numpy as np

    return np.where(b == 0, 0, np.floor_divide(a, np.where(b == 0, 1, b))).astype(a.dtype)


def _floor_modulo(a: Array, b: Array) -> Array:
    import numpy as np

    return np.where(b == 0, 0, np.remainder(a, np.where(b == 0, 1, b))).astype(a.dtype)


def _truncated_divide(a: Array, b: Array) -> Array:
    import numpy as np

    quotient, rest = _floor_divide(a, b), _floor_modulo(a, b)
    upward = (rest != 0) & ((a < 0) != (b < 0))
    return np.where(upward, quotient + 1, quotient).astype(a.dtype)


def _truncated_modulo(a: Array, b: Array) -> Array:
    import numpy as np

    return np.where(b == 0, 0, a - _truncated_divide(a, b) * b).astype(a.dtype)


def _power(a: Array, b: Array) -> Array:
    import numpy as np

    if a.dtype.kind == "f":
        return np.power(a, b)
    return np.where(b < 0, 0, np.power(a, np.where(b < 0, 0, b))).astype(a.dtype)


def _shifted(a: Array, b: Array, left: bool) -> Array:
    """A distance outside of the width gives 0."""
    import numpy as np

    inside = (b >= 0) & (b < 8 * a.dtype.itemsize)
    distance = np.where(inside, b, 0).astype(a.dtype)
    return np.where(inside, a << distance if left else a >> distance, 0).astype(a.dtype)


def _shift_left(a: Array, b: Array) -> Array:
    return _shifted(a, b, left=True)


def _shift_right(a: Array, b: Array) -> Array:
    return _shifted(a, b, left=False)


def _threefry(counter: Array, key: Array) -> Array:
    """As `fold.threefry`, on the two 32-bit words of every element."""
    import numpy as np

    half = np.uint64(32)
    words = [word.astype(np.uint32) for word in (key, key >> half, counter, counter >> half)]
    keys = (words[0], words[1], words[0] ^ words[1] ^ np.uint32(fold.THREEFRY_PARITY))
    x, y = words[2] + keys[0], words[3] + keys[1]
    for group in range(5):
        for rotation in fold.THREEFRY_ROTATIONS[group % 2]:
            x = x + y
            y = (y << np.uint32(rotation) | y >> np.uint32(32 - rotation)) ^ x
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + np.uint32(group + 1)
    return np.asarray(y.astype(np.uint64) << half | x.astype(np.uint64))


def _multiply_add(a: Array, b: Array, c: Array) -> Array:
    """Fused: one rounding, which takes more digits than float64 has, so element by element."""
    import numpy as np

    if a.dtype.kind != "f":
        return a * b + c
    fused = np.frompyfunc(fold.multiply_add, 3, 1)
    return np.asarray(fused(a, b, c), dtype=np.float64)


def _truncate(x: Array) -> Array:
    import numpy as np

    return np.trunc(x) if x.dtype.kind == "f" else x


@functools.cache
def array_forms() -> dict[Op, Callable[..., Array]]:
    """The column: operation -> function of held arrays.  CAST and BITCAST have functions of their own."""
    import numpy as np

    # fmt: off
    return {
        Ops.EXP2: np.exp2,              Ops.LOG2: np.log2,              Ops.EXP: np.exp,
        Ops.LOG: np.log,                Ops.SIN: np.sin,                Ops.COS: np.cos,
        Ops.TANH: np.tanh,              Ops.SQRT: np.sqrt,              Ops.RECIPROCAL: np.reciprocal,
        Ops.NEG: np.negative,           Ops.TRUNC: _truncate,
        Ops.ADD: np.add,                Ops.SUB: np.subtract,           Ops.MUL: np.multiply,
        Ops.FDIV: np.true_divide,       Ops.CDIV: _truncated_divide,    Ops.CMOD: _truncated_modulo,
        Ops.FLOORDIV: _floor_divide,    Ops.FLOORMOD: _floor_modulo,    Ops.MAX: np.maximum,
        Ops.POW: _power,                Ops.CMPLT: np.less,             Ops.CMPNE: np.not_equal,
        Ops.CMPEQ: np.equal,            Ops.AND: np.bitwise_and,        Ops.OR: np.bitwise_or,
        Ops.XOR: np.bitwise_xor,        Ops.SHL: _shift_left,           Ops.SHR: _shift_right,
        Ops.THREEFRY: _threefry,        Ops.WHERE: np.where,            Ops.MULACC: _multiply_add,
    }
    # fmt: on


def operand(array: Array, source: DType, common: DType) -> Array:
    """A held operand in the dtype that the operands of a node share; bools count as int8."""
    import numpy as np

    if common.is_bool:
        return array.astype(np.int8)
    if source is common:
        return array
    return cast_array(array, source, common)


FLOAT_FUNCTIONS = frozenset(
    (
        *(Ops.EXP2, Ops.LOG2, Ops.EXP, Ops.LOG, Ops.SIN, Ops.COS, Ops.TANH),
        *(Ops.SQRT, Ops.RECIPROCAL, Ops.FDIV),
    )
)


def apply(
    op: Op, arrays: list[Array], sources: list[DType], common: DType, fused: bool = True
) -> Array:
    """An elementwise operation on held arrays, before its result is stored in the node's dtype.

    `common` is the dtype that the operands share (of WHERE: the two arms).  Without `fused`, MULACC rounds
    in float64, which is quick.
    """
    import numpy as np

    if op is Ops.WHERE:
        arms = zip(arrays[1:], sources[1:], strict=True)
        chosen = [cast_array(array, source, common) for array, source in arms]
        return np.where(arrays[0], *chosen)
    if op is Ops.SHL or op is Ops.SHR:
        return array_forms()[op](*arrays)
    held = [operand(a, source, common) for a, source in zip(arrays, sources, strict=True)]
    if op in FLOAT_FUNCTIONS:
        held = [array.astype(np.float64, copy=False) for array in held]
    if op is Ops.MULACC and not fused:
        return held[0] * held[1] + held[2]
    return array_forms()[op](*held)
