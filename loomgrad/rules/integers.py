"""Integer operations that machines lack: division downward, whole powers, random bits."""

from __future__ import annotations

from loomgrad.dtype import dtypes
from loomgrad.ir.constant import is_constant
from loomgrad.ir.fold import THREEFRY_GROUPS, THREEFRY_PARITY, THREEFRY_ROTATIONS
from loomgrad.ir.opcode import Ops
from loomgrad.ir.pattern import UPat
from loomgrad.ir.rule import rewrites
from loomgrad.ir.uop import UOp

x, y = UPat.var("x"), UPat.var("y")


@rewrites(UPat(Ops.FLOORDIV, src=(x, y), name="node"))
def divide_down(node: UOp, x: UOp, y: UOp) -> UOp:
    """Before: FLOORDIV(x, y).   After: CDIV(x, y), less 1 where there is a remainder of the other sign.

    Because: division toward zero and downward differ just there.  By 0 both give 0, with the remainder 0.
    """
    quotient = UOp(Ops.CDIV, (x, y))
    if _same_signs(x, y):
        return quotient
    return _rounds_up(x, y).where(quotient - 1, quotient)


@rewrites(UPat(Ops.FLOORMOD, src=(x, y), name="node"))
def remain_down(node: UOp, x: UOp, y: UOp) -> UOp:
    """Before: FLOORMOD(x, y).   After: CMOD(x, y), plus y where it has the other sign.

    Because: the remainder of division downward has the sign of the divisor.
    """
    remainder = UOp(Ops.CMOD, (x, y))
    if _same_signs(x, y):
        return remainder
    return _rounds_up(x, y).where(remainder + y, remainder)


def _same_signs(x: UOp, y: UOp) -> bool:
    """Whether the quotient is never negative, as far as the bounds show."""
    return x.dtype.is_unsigned or (x.vmin >= 0 and y.vmin >= 0) or (x.vmax <= 0 and y.vmax <= 0)


def _rounds_up(x: UOp, y: UOp) -> UOp:
    """Where division toward zero rounds up: a remainder is left, and its sign is not the divisor's."""
    remainder = UOp(Ops.CMOD, (x, y))
    if is_constant(y) and y.vmin > 0:
        return remainder < 0
    return remainder.ne(0) & ((remainder < 0) ^ (y < 0))


@rewrites(UPat(Ops.POW, src=(x, y), name="node"))
def whole_power(node: UOp, x: UOp, y: UOp) -> UOp | None:
    """Before: POW(x, y) of ints.   After: the product of x**(2**k) over the bits k of y; 0 for negative y.

    Because: y is the sum of 2**k over its bits.  Products wrap as the power itself does.
    """
    if not node.dtype.is_int or node.dtype.is_weak:
        return None
    result, square = x.const_like(1), x
    for bit in range(max(int(y.vmax), 0).bit_length()):
        taken = ((y >> y.const_like(bit)) & y.const_like(1)).ne(0)
        result = taken.where(result * square, result)
        square = square * square
    return result if y.vmin >= 0 else (y < 0).where(x.const_like(0), result)


@rewrites(UPat(Ops.THREEFRY, src=(x, y), name="node"))
def random_bits(node: UOp, x: UOp, y: UOp) -> UOp:
    """Before: THREEFRY(counter, key).   After: 20 rounds on two words of 32 bits.

    Because: that is its definition (Salmon et al., SC 2011, section 3.3).
    """
    first, second = _words(y)
    keys = (first, second, first ^ second ^ first.const_like(THREEFRY_PARITY))
    low, high = (word + key for word, key in zip(_words(x), keys, strict=False))
    for group in range(THREEFRY_GROUPS):
        for distance in THREEFRY_ROTATIONS[group % 2]:
            low = low + high
            turned = high << high.const_like(distance) | high >> high.const_like(32 - distance)
            high = turned ^ low
        low = low + keys[(group + 1) % 3]
        high = high + keys[(group + 2) % 3] + high.const_like(group + 1)
    wide = high.cast(dtypes.uint64)
    return wide << wide.const_like(32) | low.cast(dtypes.uint64)


def _words(block: UOp) -> tuple[UOp, UOp]:
    """The low and the high half of 64 bits."""
    return block.cast(dtypes.uint32), (block >> block.const_like(32)).cast(dtypes.uint32)
