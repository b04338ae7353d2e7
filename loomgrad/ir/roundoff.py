"""Running error bounds: how far a compiled value may lie from the one evaluated in float64.

Each rule bounds the error of a result by the errors of its operands (its first-order derivative, or the whole
interval where that is easy), to which `rounding` adds what the operation itself may round.  None means exact.
An infinite bound means "undecided": a comparison nobody can decide, a division by what may be zero.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from loomgrad.dtype import DType, dtypes
from loomgrad.ir.opcode import Op, Ops, OpSet

if TYPE_CHECKING:
    from loomgrad.ir.arrays import Array

EXACT = OpSet(
    *(Ops.NEG, Ops.TRUNC, Ops.MAX, Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ, Ops.AND, Ops.OR, Ops.XOR),
    *(Ops.WHERE, Ops.BITCAST, Ops.STACK),
)
# Operations that may be off by two units in the last place, where others round once.
FUNCTIONS = OpSet(
    *(Ops.EXP2, Ops.LOG2, Ops.EXP, Ops.LOG, Ops.SIN, Ops.COS, Ops.TANH, Ops.POW),
)


def epsilon(dtype: DType) -> float:
    """The greatest relative error of one rounding to a float dtype, 0 for other dtypes."""
    return 0.0 if dtype.format is None else 2.0**-dtype.format.precision


def smallest(dtype: DType) -> float:
    """The least positive value of a float dtype."""
    return 0.0 if dtype.format is None else float(2.0**dtype.format.lowest)


def error_of(
    op: Op, dtype: DType, result: Array, arrays: Sequence[Array], errors: Sequence[Array | None]
) -> Array | None:
    """The bound for an elementwise result, its own rounding included."""
    import numpy as np

    inherited: Array | None = None
    if any(error is not None for error in errors):
        known = [np.zeros(()) if error is None else error for error in errors]
        rule = _rules().get(op, _undecided)
        inherited = rule(result, *arrays, *known)
        if op is not Ops.WHERE:
            inherited = _settled(result, inherited, known)
    if op in EXACT or not dtype.is_float or (op is Ops.CAST and inherited is None):
        return inherited
    return rounding(op, dtype, result, inherited)


def rounding(op: Op, dtype: DType, result: Array, inherited: Array | None) -> Array:
    """`inherited` and what the operation rounds itself; infinite where overflow is undecided."""
    import numpy as np

    assert dtype.format is not None
    times: Array | float = 4.0 if op in FUNCTIONS else 1.0
    if op is Ops.POW:  # by way of a logarithm, whose error the exponent multiplies
        times = 4.0 + 2.0 * np.abs(np.log2(np.maximum(np.abs(result), smallest(dtype))))
    own = np.abs(result) * epsilon(dtype) * times + smallest(dtype)
    own = np.where(np.isfinite(result), own, 0.0)
    total = own if inherited is None else own + inherited
    edge = np.abs(np.abs(result) - dtype.format.largest) <= total
    return np.where(edge & np.isfinite(result), np.inf, total)


def _settled(result: Array, error: Array, known: Sequence[Array]) -> Array:
    """Undecided operands leave everything undecided; other infinite and NaN results are certain."""
    import numpy as np

    undecided = functools.reduce(np.logical_or, [np.isinf(one) for one in known])
    if result.dtype.kind == "f":
        error = np.where(np.isfinite(result), error, 0.0)
    return np.where(undecided | np.isnan(error), np.inf, error)


def _undecided(result: Array, *arrays_and_errors: Array) -> Array:
    import numpy as np

    errors = arrays_and_errors[len(arrays_and_errors) // 2 :]
    doubtful = [np.where(one > 0, np.inf, 0.0) for one in errors]
    return np.asarray(functools.reduce(np.maximum, doubtful))


def _quotient(result: Array, a: Array, b: Array, da: Array, db: Array) -> Array:
    import numpy as np

    room = np.abs(b) - db
    return np.where((db > 0) & (room <= 0), np.inf, (da + np.abs(result) * db) / room)


def _reciprocal(result: Array, b: Array, db: Array) -> Array:
    import numpy as np

    return _quotient(result, np.ones(()), b, np.zeros(()), db)


def _product(result: Array, a: Array, b: Array, da: Array, db: Array) -> Array:
    import numpy as np

    a, b = np.abs(a.astype(np.float64)), np.abs(b.astype(np.float64))
    return np.asarray(a * db + b * da + da * db)


def _multiply_add(
    result: Array, a: Array, b: Array, c: Array, da: Array, db: Array, dc: Array
) -> Array:
    return _product(result, a, b, da, db) + dc


def _truncated(result: Array, a: Array, da: Array) -> Array:
    import numpy as np

    a = a.astype(np.float64)
    return np.asarray(np.trunc(a + da) - np.trunc(a - da))


def _square_root(result: Array, a: Array, da: Array) -> Array:
    import numpy as np

    return np.where((da > 0) & (a < da), np.inf, np.sqrt(a + da) - np.sqrt(a - da))


def _logarithm(result: Array, a: Array, da: Array) -> Array:
    """Of any base not below 2: the derivative is at most 1.5 / a."""
    import numpy as np

    return np.where((da > 0) & (a <= da), np.inf, 1.5 * da / (a - da))


def _power(result: Array, a: Array, b: Array, da: Array, db: Array) -> Array:
    import numpy as np

    log = np.log(np.maximum(np.abs(a), 1e-300))
    relative = np.abs(b) * da / (np.abs(a) - da) + np.abs(log) * db
    return np.where((da > 0) & (np.abs(a) <= da), np.inf, np.abs(result) * np.expm1(relative))


def _compared(result: Array, a: Array, b: Array, da: Array, db: Array) -> Array:
    import numpy as np

    doubt = da + db
    near = np.abs(a.astype(np.float64) - b.astype(np.float64)) <= doubt
    return np.where((doubt > 0) & near, np.inf, 0.0)


def _chosen(result: Array, c: Array, a: Array, b: Array, dc: Array, da: Array, db: Array) -> Array:
    """The arm's error; where the condition is undecided, what both arms span."""
    import numpy as np

    span = np.abs(a.astype(np.float64) - b.astype(np.float64)) + da + db
    span = np.where(np.isnan(span), np.inf, span)
    return np.where(dc > 0, span, np.where(c, da, db))


@functools.cache
def _rules() -> dict[Op, Callable[..., Array]]:
    """How errors of operands pass on: (result, operands..., their errors...) -> bound."""
    import numpy as np

    return {
        Ops.ADD: lambda r, a, b, da, db: da + db,
        Ops.SUB: lambda r, a, b, da, db: da + db,
        Ops.MUL: _product,
        Ops.FDIV: _quotient,
        Ops.RECIPROCAL: _reciprocal,
        Ops.MULACC: _multiply_add,
        Ops.MAX: lambda r, a, b, da, db: np.maximum(da, db),
        Ops.NEG: lambda r, a, da: da,
        Ops.TRUNC: _truncated,
        Ops.EXP: lambda r, a, da: r * np.expm1(da),
        Ops.EXP2: lambda r, a, da: r * np.expm1(da),
        Ops.LOG: _logarithm,
        Ops.LOG2: _logarithm,
        Ops.SIN: lambda r, a, da: da,
        Ops.COS: lambda r, a, da: da,
        Ops.TANH: lambda r, a, da: da,
        Ops.SQRT: _square_root,
        Ops.POW: _power,
        Ops.CMPLT: _compared,
        Ops.CMPNE: _compared,
        Ops.CMPEQ: _compared,
        Ops.AND: lambda r, a, b, da, db: np.where((da > 0) | (db > 0), np.inf, 0.0),
        Ops.OR: lambda r, a, b, da, db: np.where((da > 0) | (db > 0), np.inf, 0.0),
        Ops.WHERE: _chosen,
        Ops.STACK: lambda r, a, da: da,
    }


def cast_error(source: DType, target: DType, array: Array, result: Array, error: Array) -> Array:
    """CAST: floats pass theirs on; into ints the fraction is dropped; into bool zero must be certain."""
    import numpy as np

    if target.is_bool:
        return np.where((error > 0) & (np.abs(array.astype(np.float64)) <= error), np.inf, 0.0)
    if target.is_int and source.is_float:
        return _settled(result, _truncated(result, array, error), [error])
    if target.is_int:
        return np.where(error > 0, np.inf, 0.0)
    return _settled(result, error, [error])


def overflowed(dtype: DType, result: Array) -> Array:
    """A wide result with what is certainly beyond its dtype replaced as the dtype overflows."""
    import numpy as np

    form = dtype.format
    if form is None or dtype is dtypes.float64 or dtype.is_weak:
        return result
    beyond = np.abs(result) > form.largest * (1 + epsilon(dtype) / 2)
    if not np.any(beyond):
        return result
    return np.where(beyond, np.copysign(np.inf, result) if form.has_infinity else np.nan, result)
