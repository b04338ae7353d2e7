"""FLOORDIV and FLOORMOD by division toward zero, shifts and masks; the latter two also for CDIV and CMOD.

Division of constants by multiplication is left to LLVM.  What it cannot know is that an operand is not negative,
which is what most of this is about.
"""

from __future__ import annotations

import math

from loomgrad.ir.opcode import Ops
from loomgrad.ir.uop import UOp


def floor_divide(a: UOp, b: UOp) -> UOp:
    """a // b, 0 for b = 0."""
    if (power := _power_of_two(b)) is not None:
        return a >> a.const_like(power)
    if _nonnegative(a, b):
        return a.alu(Ops.CDIV, b)
    if (shift := _shift_to_positive(a, b)) is not None:
        return (a + a.const_like(shift * b.val)).alu(Ops.CDIV, b) - a.const_like(shift)
    return a.alu(Ops.CDIV, b) - _rounds_up(a.alu(Ops.CMOD, b), b).cast(a.dtype)


def floor_modulo(a: UOp, b: UOp) -> UOp:
    """a % b, 0 for b = 0."""
    if (power := _power_of_two(b)) is not None:
        return a & a.const_like((1 << power) - 1)
    if _nonnegative(a, b):
        return a.alu(Ops.CMOD, b)
    if (shift := _shift_to_positive(a, b)) is not None:
        return (a + a.const_like(shift * b.val)).alu(Ops.CMOD, b)
    rest = a.alu(Ops.CMOD, b)
    return rest + _rounds_up(rest, b).where(b, b.const_like(0))


def truncated_divide(a: UOp, b: UOp) -> UOp | None:
    """CDIV as a shift, for a that is nowhere negative and b a power of two."""
    power = _power_of_two(b)
    return None if power is None or not _nonnegative(a) else a >> a.const_like(power)


def truncated_modulo(a: UOp, b: UOp) -> UOp | None:
    """CMOD as a mask, for a that is nowhere negative and b a power of two."""
    power = _power_of_two(b)
    return None if power is None or not _nonnegative(a) else a & a.const_like((1 << power) - 1)


def _rounds_up(rest: UOp, b: UOp) -> UOp:
    """Whether a quotient rounded toward zero is one too large, by its remainder, which is 0 for b = 0."""
    zero = b.const_like(0)
    return rest < zero if b.vmin > 0 else rest.ne(zero) & ((rest ^ b) < zero)


def _power_of_two(b: UOp) -> int | None:
    """n where b is the constant 2**n."""
    if not b.is_const() or b.val <= 0 or b.val & (b.val - 1):
        return None
    return int(b.val).bit_length() - 1


def _nonnegative(*nodes: UOp) -> bool:
    return all(0 <= node.vmin <= node.vmax for node in nodes)


def _shift_to_positive(a: UOp, b: UOp) -> int | None:
    """How many b to add to a so that it is nowhere negative, if b is a constant above 0 and the sum fits."""
    low, high = a.bounds
    if not b.is_const() or b.val <= 0 or not low <= high or math.inf in (-low, high):
        return None
    count = -(int(low) // int(b.val))
    return count if high + count * b.val <= a.dtype.max else None
