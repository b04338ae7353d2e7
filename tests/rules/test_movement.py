"""Movement of movement."""

from __future__ import annotations

import pytest

from loomgrad.dtype import dtypes
from loomgrad.ir.args import ParamArg
from loomgrad.ir.opcode import Op, Ops
from loomgrad.ir.rewrite import graph_rewrite
from loomgrad.ir.uop import UOp, shape_stack
from loomgrad.rules.movement import MOVEMENT

x = UOp(Ops.BUFFER, (), ParamArg(0, dtypes.float32, 24)).reshape(2, 3, 4)


def move(op: Op, source: UOp, *sizes: tuple[int, ...], arg: tuple[int, ...] | None = None) -> UOp:
    """A movement as it is, without what the methods leave out."""
    return UOp(op, (source, *map(shape_stack, sizes)), arg)


# fmt: off
FORMS = {
    "reshape twice":   (x.reshape(6, 4).reshape(24),                        x.src[0]),
    "reshape, two":    (x.permute(1, 0, 2).reshape(6, 4).reshape(8, 3),     x.permute(1, 0, 2).reshape(8, 3)),
    "same sizes":      (move(Ops.RESHAPE, x, (2, 3, 4)),                    x),
    "permute twice":   (x.permute(1, 2, 0).permute(1, 0, 2),                x.permute(2, 1, 0)),
    "permute back":    (x.permute(1, 2, 0).permute(2, 0, 1),                x),
    "flip twice":      (x.flip(0, 1).flip(1, 2),                            x.flip(0, 2)),
    "flip back":       (x.flip(1).flip(1),                                  x),
    "flip of one":     (move(Ops.FLIP, x.reshape(1, 24), arg=(0,)),         x.src[0].reshape(1, 24)),
    "expand twice":    (move(Ops.EXPAND, move(Ops.EXPAND, x, (5,)), (6, 7)), move(Ops.EXPAND, x, (6, 7, 5))),
    "expand to same":  (move(Ops.EXPAND, x, ()),                            x),
    "shrink twice":    (x.shrink(((0, 2), (1, 3), (1, 4))).shrink(((1, 2), None, (1, 2))),
                        x.shrink(((1, 2), (1, 3), (2, 3)))),
    "pad twice":       (x.pad(((1, 0), None, None)).pad(((1, 2), (0, 3), None)),
                        x.pad(((2, 2), (0, 3), None))),
    "pad nothing":     (move(Ops.PAD, x, (0, 0, 0), (2, 3, 4)),             x),
    "shrink nothing":  (move(Ops.SHRINK, x, (0, 0, 0), (2, 3, 4)),          x),
    "detach twice":    (UOp(Ops.DETACH, (UOp(Ops.DETACH, (x,)),)),          UOp(Ops.DETACH, (x,))),
}
# fmt: on


@pytest.mark.parametrize("name", FORMS)
def test_form(name: str) -> None:
    before, after = FORMS[name]
    assert before.shape == after.shape
    assert graph_rewrite(before, MOVEMENT) is after


def test_different_movements_stay() -> None:
    for kept in (
        x.pad(((1, 1), None, None)).shrink(((0, 2), None, None)),
        x.permute(1, 0, 2).reshape(24),
    ):
        assert graph_rewrite(kept, MOVEMENT) is kept
