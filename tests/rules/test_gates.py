"""Gates: how they move, merge, and what they let simplify."""

from __future__ import annotations

from loomgrad.dtype import dtypes
from loomgrad.ir.args import Invalid, ParamArg, StageArg
from loomgrad.ir.opcode import Ops
from loomgrad.ir.uop import UOp
from loomgrad.rules import simplify
from tests.rules.test_fuzz import check_everywhere

INVALID = UOp.const(Invalid)
i, j, r = UOp.range(10, 0), UOp.range(4, 1), UOp.range(28, 2)
label = UOp(Ops.PARAM, (), ParamArg(0, dtypes.int32, 10)).index(i)


def gated(gate: UOp, index: UOp) -> UOp:
    return UOp(Ops.WHERE, (gate, index, INVALID))


def test_arithmetic_moves_inside() -> None:
    index = gated(i < 5, i)
    assert simplify(index * 4 + j) is gated(i < 5, i * 4 + j)
    assert simplify(j - index) is gated(i < 5, simplify(j - i))
    assert simplify(gated(i < 5, i) + gated(j < 2, j)).src[1] is i + j
    assert simplify(index * 0).op is Ops.WHERE, "a gate is not lost to x * 0"


def test_what_is_no_index_drops_the_gate() -> None:
    index = gated(i < 5, i)
    assert simplify(index < 3) is (i < 3)
    assert simplify(index.cast(dtypes.float32)) is i.cast(dtypes.float32)
    assert simplify(index.cast(dtypes.int32)) is gated(i < 5, i.cast(dtypes.int32))


def test_invalid_spreads() -> None:
    assert simplify(UOp(Ops.ADD, (i, INVALID))) is INVALID
    assert simplify(UOp(Ops.MUL, (INVALID, UOp.const(0)))) is INVALID
    assert simplify(gated(i < 0, i)) is INVALID, "no value of i is below 0"
    assert simplify(gated(i < 10, i)) is i


def test_nested_gates_become_one() -> None:
    both = simplify(gated(i < 5, gated(j < 2, i * 4 + j)))
    assert both.src[1] is i * 4 + j and both.src[0].op is Ops.AND
    assert simplify(gated(i < 5, gated(i < 5, i))) is gated(i < 5, i)


def test_invalid_stays_in_the_else_arm() -> None:
    turned = simplify(UOp(Ops.WHERE, (i < 5, INVALID, i)))
    assert turned is gated(UOp.const(4) < i, i)
    chosen = UOp(Ops.WHERE, (j < 2, gated(i < 5, i), j))
    result = check_everywhere(chosen)
    assert result.src[2] is INVALID and result.src[1] is UOp(Ops.WHERE, (j < 2, i, j))
    check_everywhere(UOp(Ops.WHERE, (j < 2, j, gated(i < 5, i))))


def test_an_index_is_simplified_under_its_gate() -> None:
    assert check_everywhere(gated(r < 4, r % 4)) is gated(r < 4, r)
    assert check_everywhere(gated(r < 4, r // 4 * 9 + r)) is gated(r < 4, r)
    shifted = r + i - 3
    gate = ~(shifted < 0) & (shifted < 28)
    assert check_everywhere(gated(gate, shifted % 28)).src[1] is i + r + -3
    assert check_everywhere(gated(gate, (shifted * 5 + j) // 5 % 28)).src[1] is i + r + -3
    assert check_everywhere(gated((r // 4).eq(3), r // 4 * 7)).src[1] is UOp.const(21)


def test_gates_that_cannot_hold() -> None:
    assert simplify(gated((r < 4) & (UOp.const(8) < r), r)) is INVALID
    assert simplify((r + i < 4) & (UOp.const(8) < r + i)) is UOp.const(False)


def test_implied_clauses_go() -> None:
    assert check_everywhere((r < 4) & (r < 9)) is (r < 4)
    assert check_everywhere((r < 4) & (r * 2 + j < 40)) is (r < 4)
    assert check_everywhere(~(r + i < 3) & (UOp.const(1) < r + i)) is (UOp.const(2) < i + r)
    kept = check_everywhere((r < 4) & (i < 5))
    assert set(kept.src) == {r < 4, i < 5}


def test_clauses_are_simplified_under_the_others() -> None:
    assert set(check_everywhere((r < 8) & (r % 8 < 4)).toposort()) >= {r < 4}
    assert check_everywhere((r < 8) & (r % 8 < 4)) is (r < 4)


def test_one_value_is_put_in_place() -> None:
    assert check_everywhere(gated(r.eq(0), i // 2 * 8 + r)).src[1] is simplify(i // 2 * 8)
    assert check_everywhere(gated(r.eq(5) & i.eq(r), i * 3 + r % 4)).src[1] is UOp.const(16)


def test_quotients_are_exact_where_the_remainder_is_known() -> None:
    distance = r - j + 3
    even = (distance % 2).eq(0)
    assert check_everywhere(gated(even, distance // 2 * 2 + j)).src[1] is simplify(r + 3)
    assert check_everywhere(gated((r % 3).eq(2), r // 3 * 6)).src[1] is simplify(r * 2 - 4)
    kept = check_everywhere(gated(even, distance // 2 * 3 + j))
    assert any(part.op is Ops.FLOORDIV for part in kept.toposort())


def test_what_lies_below_a_load_is_not_touched() -> None:
    """A bound holds for the gated index, not for what another loop of the same name stored."""
    stored = UOp(Ops.STAGE, ((r // 4 + r % 4).cast(dtypes.int32), r), StageArg("CPU"))
    loaded = stored.index(r).cast(dtypes.weakint)
    index = loaded * 32 + r % 4
    result = simplify(gated(r < 4, index))
    assert stored in result.toposort()
    assert result.src[1] is simplify(loaded * 32 + r)


def test_bounds_inside_of_bounds_use_loops_of_their_own() -> None:
    inner = ((r < 4) & (i + r < 4)).where(r % 4 + (i + r) % 4, r)
    check_everywhere(gated((r < 8) & (i < 4) & (i + r < 8), inner + r % 8))


def test_gates_of_lanes_keep_their_shape() -> None:
    column = UOp.stack(UOp.const(k) for k in range(4)).reshape(4, 1)
    row = UOp.stack(UOp.const(k) for k in range(3)).reshape(1, 3)
    wide = UOp(Ops.WHERE, (row < 2, column * 3, INVALID))
    for node in (
        wide + 1,
        wide < 5,
        wide.cast(dtypes.float32),
        UOp(Ops.ADD, (column + row, INVALID)),
    ):
        assert simplify(node).shape == (4, 3)
    assert simplify(UOp(Ops.WHERE, (row < 3, column * 3, INVALID))).shape == (4, 3)


def test_gates_of_data_stay() -> None:
    gate = ~(label < 0) & (label < 10)
    index = simplify(gated(gate, label.cast(dtypes.weakint) * 4 + j))
    assert index.op is Ops.WHERE and len(index.src[0].src) == 2
    assert label in index.toposort()
