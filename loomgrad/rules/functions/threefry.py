"""THREEFRY: Threefry-2x32 with 20 rounds (Salmon et al., Parallel Random Numbers, SC 2011) in uint32 arithmetic."""

from __future__ import annotations

from loomgrad.dtype import dtypes
from loomgrad.ir import fold
from loomgrad.ir.uop import UOp


def threefry(counter: UOp, key: UOp) -> UOp:
    """The random bits of a counter under a key; the low half of each uint64 is its first word."""
    (x, y), (k0, k1) = _words(counter), _words(key)
    keys = (k0, k1, k0 ^ k1 ^ k0.const_like(fold.THREEFRY_PARITY))
    x, y = x + keys[0], y + keys[1]
    for group in range(fold.THREEFRY_GROUPS):
        for distance in fold.THREEFRY_ROTATIONS[group % 2]:
            x = x + y
            y = _rotated(y, distance) ^ x
        x = x + keys[(group + 1) % 3]
        y = y + (keys[(group + 2) % 3] + y.const_like(group + 1))
    wide = y.cast(dtypes.uint64)
    return (wide << wide.const_like(32)) | x.cast(dtypes.uint64)


def _words(x: UOp) -> tuple[UOp, UOp]:
    return x.cast(dtypes.uint32), (x >> x.const_like(32)).cast(dtypes.uint32)


def _rotated(x: UOp, distance: int) -> UOp:
    return (x << x.const_like(distance)) | (x >> x.const_like(32 - distance))
