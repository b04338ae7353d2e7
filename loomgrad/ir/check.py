"""CHECK=1: what a compiled kernel wrote, compared with the evaluator.

The kernel's graph is evaluated in float64 with running error bounds (`roundoff`).  Integers and bools must be
equal, floats within the bound, which for a sum of n terms is n * eps * sum of |terms| as in every textbook;
NaN equals NaN and an infinity itself.  Where a bound is infinite, because a comparison lies within rounding
or a divisor may be zero, nothing can be said: such elements are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from loomgrad.dtype import DType
from loomgrad.errors import CheckError
from loomgrad.ir.arrays import from_memory
from loomgrad.ir.evaluate import run_kernel
from loomgrad.ir.opcode import Ops
from loomgrad.ir.uop import UOp
from loomgrad.ir.values import Value

if TYPE_CHECKING:
    from loomgrad.ir.arrays import Array

SLACK = 2.0  # the bounds are of first order


def check_kernel(sink: UOp, before: Sequence[Array], after: Sequence[Array]) -> int:
    """Compares arguments after a run with what the kernel's graph makes of them; PARAM k is argument k.

    Returns the number of elements of which nothing can be said.  Raises: CheckError naming the first element
    that differs, or an argument that is not written but changed.
    """
    import numpy as np

    with np.errstate(all="ignore"):
        run = run_kernel(sink, before, wide=True)
        written = {storage.arg.slot for storage in run.written}
        for slot, (old, new) in enumerate(zip(before, after, strict=True)):
            if slot not in written and old is not new and old.tobytes() != new.tobytes():
                raise CheckError(
                    f"{name_of(sink)} changed argument {slot}, which it only reads", where=""
                )
        return sum(
            _compare(name_of(sink), storage, value, after[storage.arg.slot])
            for storage, value in run.written.items()
        )


def name_of(sink: UOp) -> str:
    """What a kernel is called in messages."""
    return (
        f"kernel {sink.arg.name}" if sink.op is Ops.SINK and sink.arg is not None else "the kernel"
    )


def _compare(kernel: str, storage: UOp, value: Value, array: Array) -> int:
    """The number of undecided elements; all others agree, or CheckError."""
    import numpy as np

    got = from_memory(array, storage.dtype).reshape(-1)
    expected = value.array.reshape(-1)
    error = np.zeros(expected.shape) if value.error is None else value.error.reshape(-1)
    undecided = np.isinf(error)
    right = undecided | equal(expected, got, error, storage.dtype)
    if not np.all(right):
        place = int(np.argmin(right))
        raise CheckError(
            f"{kernel}: element {place} of argument {storage.arg.slot} is {got[place]!s}, "
            f"the evaluator says {expected[place]!s}",
            where="",
            allowed_error=float(SLACK * error[place]),
            wrong=f"{int(np.sum(~right))} of {right.size} elements",
        )
    return int(np.sum(undecided))


def equal(expected: Array, got: Array, error: Array, dtype: DType) -> Array:
    """Where two arrays of one dtype agree within an error bound."""
    import numpy as np

    if not dtype.is_float:
        return np.asarray(expected == got)
    same = (expected == got) | (np.isnan(expected) & np.isnan(got))
    return np.asarray(same | (np.abs(expected - got) <= SLACK * error))
