"""The scalar meaning of every elementwise operation, on Python values.

Constant folding, proofs and the evaluator's tests read these.  A function takes the operands' values and
returns the mathematical result; `fold` then stores it in the dtype (ints wrap, floats round).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from loomgrad.dtype import DType, truncate
from loomgrad.ir.opcode import Op, Ops

Value = Any  # bool, int or float


def floor_divide(a: int, b: int) -> int:
    """Python's //, and 0 for a zero divisor."""
    return a // b if b else 0


def floor_modulo(a: int, b: int) -> int:
    """Python's %, and 0 for a zero divisor."""
    return a % b if b else 0


def truncated_divide(a: int, b: int) -> int:
    """Division toward zero, and 0 for a zero divisor."""
    if not b:
        return 0
    size = abs(a) // abs(b)
    return size if (a < 0) == (b < 0) else -size


def truncated_modulo(a: int, b: int) -> int:
    """The remainder of `truncated_divide`, with the sign of `a`."""
    return a - truncated_divide(a, b) * b if b else 0


def shift(op: Op, value: int, distance: int) -> int:
    """SHL or SHR by 0 to 63 places; other distances give 0."""
    if not 0 <= distance < 64:
        return 0
    return value << distance if op is Ops.SHL else value >> distance


def shift_left(value: int, distance: int) -> int:
    """SHL."""
    return shift(Ops.SHL, value, distance)


def shift_right(value: int, distance: int) -> int:
    """SHR."""
    return shift(Ops.SHR, value, distance)


def float_divide(a: float, b: float) -> float:
    """IEEE division."""
    if b != 0 or math.isnan(b):
        return a / b
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def maximum(a: Value, b: Value) -> Value:
    """NaN wins."""
    if isinstance(a, float) and math.isnan(a):
        return a
    if isinstance(b, float) and math.isnan(b):
        return b
    return max(a, b)


def _or_nan(function: Callable[[float], float], overflow: float) -> Callable[[float], float]:
    """`function` with NaN outside of its domain and `overflow` where it is too large."""

    def total(x: float) -> float:
        try:
            return function(x)
        except ValueError:
            return math.nan
        except OverflowError:
            return overflow

    return total


exp = _or_nan(math.exp, math.inf)
exp2 = _or_nan(math.exp2, math.inf)
sine = _or_nan(math.sin, math.nan)
cosine = _or_nan(math.cos, math.nan)
square_root = _or_nan(math.sqrt, math.nan)
_log = _or_nan(math.log, math.nan)
_log2 = _or_nan(math.log2, math.nan)


def log(x: float) -> float:
    """Natural logarithm; -inf at 0."""
    return -math.inf if x == 0 else _log(x)


def log2(x: float) -> float:
    """Logarithm to the base 2; -inf at 0."""
    return -math.inf if x == 0 else _log2(x)


def hyperbolic_tangent(x: float) -> float:
    """tanh."""
    return math.tanh(x)


def reciprocal(x: float) -> float:
    """1 / x, infinite at zeros."""
    return float_divide(1.0, x)


def select(condition: bool, a: Value, b: Value) -> Value:
    """WHERE."""
    return a if condition else b


def truncate_toward_zero(x: Value) -> Value:
    """The integer part; non-finite values stay."""
    if not isinstance(x, float) or not math.isfinite(x):
        return x
    return math.copysign(float(math.trunc(x)), x)


def power(a: Value, b: Value) -> Value:
    """a**b; NaN where the result is complex, infinity at 0 to a negative."""
    if isinstance(a, int) and isinstance(b, int):
        if b < 0:
            return 0
        # Powers that no dtype holds are only needed modulo 2**64.
        return a**b if b < 64 or abs(a) < 2 else pow(a, b, 1 << 64)
    try:
        return math.pow(a, b)
    except ValueError:
        if a == 0:
            odd = float(b).is_integer() and b % 2 == 1
            return math.copysign(math.inf, a) if odd else math.inf
        return math.nan
    except OverflowError:
        odd = a < 0 and b % 2 == 1
        return -math.inf if odd else math.inf


def multiply_add(a: Value, b: Value, c: Value) -> Value:
    """a * b + c with one rounding."""
    if not isinstance(a, float) and not isinstance(b, float):
        return a * b + c
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b + c
    if not math.isfinite(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


THREEFRY_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
THREEFRY_GROUPS = 5  # of four rounds
THREEFRY_PARITY = 0x1BD11BDA
_MASK = 0xFFFFFFFF


def threefry(counter: int, key: int) -> int:
    """Threefry-2x32 with 20 rounds (Salmon et al., Parallel Random Numbers, SC 2011).

    The low half of each operand is its first word, and so it is of the result.
    """
    keys = (key & _MASK, key >> 32, (key & _MASK) ^ (key >> 32) ^ THREEFRY_PARITY)
    x = (counter + keys[0]) & _MASK
    y = ((counter >> 32) + keys[1]) & _MASK
    for group in range(THREEFRY_GROUPS):
        for rotation in THREEFRY_ROTATIONS[group % 2]:
            x = (x + y) & _MASK
            y = ((y << rotation) & _MASK | y >> (32 - rotation)) ^ x
        x = (x + keys[(group + 1) % 3]) & _MASK
        y = (y + keys[(group + 2) % 3] + group + 1) & _MASK
    return y << 32 | x


def _combine(logical: Callable[[Any, Any], Any], numeric: Callable[[Any, Any], Any]) -> Any:
    def combined(a: Value, b: Value) -> Value:
        return logical(a, b) if isinstance(a, bool) and isinstance(b, bool) else numeric(a, b)

    return combined


add = _combine(lambda a, b: a or b, lambda a, b: a + b)
multiply = _combine(lambda a, b: a and b, lambda a, b: a * b)


def fold(function: Callable[..., Value], dtype: DType, operands: Sequence[Value]) -> Value:
    """The value of a node: `function` of the operands, stored in `dtype`."""
    if function is shift_right and 0 < dtype.bits <= operands[1]:
        return 0  # nothing of the value is left, not even its sign
    return truncate(dtype, function(*operands))
