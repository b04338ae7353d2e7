"""Elementary functions on every float32, which takes some minutes a function: python -m tests.rules.exhaustive [OP...]

Prints the largest error in last places and where it is, and fails if one is above what is allowed.
"""

from __future__ import annotations

import sys

import numpy as np

from loomgrad.dtype import dtypes
from loomgrad.ir.opcode import Op, Ops
from tests.rules.elementwise import compiled, floats_by_bits, last_places_off
from tests.rules.test_transcendental import FUNCTIONS

CHUNK = 1 << 22


def worst_of(op: Op) -> tuple[float, float]:
    """The largest error over all float32, and its argument."""
    worst, where = 0.0, 0.0
    for first in range(0, 1 << 32, CHUNK):
        x = floats_by_bits(1, first, first + CHUNK)
        with np.errstate(all="ignore"):
            truth = FUNCTIONS[op][0](x.astype(np.float64))
        error = last_places_off(compiled(op, dtypes.float32)(x), truth)
        place = int(np.argmax(error))
        if error[place] > worst:
            worst, where = float(error[place]), float(x[place])
    return worst, where


def main(names: list[str]) -> int:
    """1 if any function is off by more than allowed."""
    failed = 0
    for op in [Ops[name.upper()] for name in names] or FUNCTIONS:
        worst, where = worst_of(op)
        allowed = FUNCTIONS[op][1]
        failed |= worst > allowed
        sys.stdout.write(f"{op.name:5} {worst:.4f} last places at {where!r}, allowed {allowed}\n")
        sys.stdout.flush()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
