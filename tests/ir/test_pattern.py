"""What patterns match, by the interpreter; that generated code agrees is in test_matcher.py."""

import math
import pickle

import pytest

from loomgrad.dtype import DType, dtypes
from loomgrad.errors import LoomError
from loomgrad.ir.args import AxisType, Invalid, KernelInfo, ParamArg, RangeArg, ReduceArg
from loomgrad.ir.match_interpreted import Bindings, bindings
from loomgrad.ir.opcode import GroupOp, Op, Ops, OpSet
from loomgrad.ir.pattern import UPat, where
from loomgrad.ir.uop import UOp

x, y, z = UPat.var("x"), UPat.var("y"), UPat.var("z")
c, c0 = UPat.cvar("c"), UPat.cvar("c0")
i, j = UOp.range(10, 0), UOp.range(7, 1)


def strong(dtype: DType, slot: int = 0) -> UOp:
    """A scalar of a strong dtype that is no constant."""
    return UOp(Ops.PARAM, (), ParamArg(slot, dtype, 1, shape=()))


def found(pattern: UPat, node: UOp) -> list[Bindings]:
    return list(bindings(pattern, node))


def test_B029_commutative_matching_is_nested() -> None:
    pattern = x + y * 2
    for node in (i + j * 2, i + 2 * j, j * 2 + i, 2 * j + i):
        assert {"x": i, "y": j} in found(pattern, node)
    assert not found(pattern, i + j * 3)


def test_bindings_come_in_the_order_of_the_sources_then_swapped() -> None:
    assert found(x + y, i + j) == [{"x": i, "y": j}, {"x": j, "y": i}]
    assert found(x - y, i - j) == [{"x": i, "y": j}]
    nested = found((x + y) * z, (i + j) * 3)
    assert [bound["x"] for bound in nested] == [i, j]
    other = found((x + y) * z, UOp(Ops.MUL, (i + 1, j + 1)))
    first_sum = {"x": i, "y": UOp.const(1), "z": j + 1}
    second_sum = {"x": j, "y": UOp.const(1), "z": i + 1}
    assert other[0] == first_sum and other[2] == second_sum and len(other) == 4


def test_the_same_name_is_the_same_node() -> None:
    assert found(x + x, i + i) == [{"x": i}]
    assert not found(x + x, i + j)
    assert found(x * c + x, i * 3 + i) == [{"x": i, "c": UOp.const(3)}]


def test_a_tuple_is_ordered_a_list_is_not() -> None:
    ordered = UPat(Ops.ADD, src=(UPat(Ops.MUL), x))
    assert found(ordered, i * j + i) and not found(ordered, i + i * j)
    either = UPat(Ops.SUB, src=[UPat(Ops.MUL), x])
    assert found(either, i * j - i) and found(either, i - i * j)


def test_number_of_sources() -> None:
    stack = UOp.stack([i, j, i + j])
    assert not found(UPat(Ops.STACK, src=(x, y)), stack)
    assert found(UPat(Ops.STACK, src=(x, y), allow_more=True), stack) == [{"x": i, "y": j}]
    assert found(UPat(Ops.STACK, src=()), UOp.stack([])) and not found(
        UPat(Ops.STACK, src=()), stack
    )
    assert found(UPat(Ops.STACK), stack)


def test_one_pattern_for_every_source() -> None:
    pattern = UPat(Ops.STACK, src=UPat((Ops.RANGE, Ops.ADD)))
    assert found(pattern, UOp.stack([i, j, i + j])) and found(pattern, UOp.stack([]))
    assert not found(pattern, UOp.stack([i, i * j]))
    with pytest.raises(LoomError, match="cannot name one: x"):
        UPat(Ops.STACK, src=x)


@pytest.mark.parametrize(
    ("literal", "node", "matches"),
    [
        (0, UOp.const(0), True),
        (0, UOp.const(0, dtypes.int32), True),
        (0, UOp.const(0.0), True),
        (0, UOp.const(0.0, dtypes.float32), True),
        (0, UOp.const(0, dtypes.float32), True),
        (0, UOp.const(-0.0), False),
        (-0.0, UOp.const(-0.0, dtypes.float32), True),
        (-0.0, UOp.const(0.0), False),
        (-0.0, UOp.const(0), False),
        (0, UOp.const(False), False),
        (False, UOp.const(False), True),
        (False, UOp.const(0), False),
        (1, UOp.const(True), False),
        (1, UOp.const(True, dtypes.int32), True),
        (True, UOp.const(1), False),
        (True, UOp.const(1, dtypes.bool), True),
        (-1, UOp.const(255, dtypes.uint8), True),
        (-1, UOp.const(-1, dtypes.uint8), True),
        (-1, UOp.const(255), False),
        (255, UOp.const(-1, dtypes.int8), True),
        (0.5, UOp.const(0.5), True),
        (0.5, UOp.const(0), False),
        (2.0, UOp.const(2), True),
        (2.0, UOp.const(2, dtypes.int32), False),
        (0.1, UOp.const(0.1, dtypes.float16), True),
        (0.1, UOp.const(0.1 + 1e-9, dtypes.float16), True),
        (0.1, UOp.const(0.1 + 1e-9), False),
        (math.nan, UOp.const(math.nan, dtypes.float32), True),
        (math.inf, UOp.const(math.inf), True),
        (0, UOp.const(Invalid), False),
        (0, i, False),
    ],
)
def test_literals_match_by_value_in_the_dtype_they_stand_in(
    literal: bool | int | float, node: UOp, matches: bool
) -> None:
    assert bool(found(UPat.const(literal), node)) is matches


def test_constants() -> None:
    for node in (UOp.const(3), UOp.const(0.5, dtypes.float32), UOp.const(True)):
        assert found(c, node) == [{"c": node}]
    for node in (i, i.cast(dtypes.int32), UOp.const(Invalid)):
        assert not found(c, node)
    assert found(UPat.cvar("c", dtypes.int32), UOp.const(3, dtypes.int32))
    assert not found(UPat.cvar("c", dtypes.int32), UOp.const(3))
    assert found(UPat.const(3, dtypes.is_int), UOp.const(3))
    assert not found(UPat.const(3, dtypes.is_float), UOp.const(3))


def test_dtypes() -> None:
    node = strong(dtypes.int8)
    several = UPat.var("x", (dtypes.int8, dtypes.int16))
    for pattern in (UPat.var("x", dtypes.int8), several, UPat.var("x", dtypes.is_int)):
        assert found(pattern, node) and not found(pattern, strong(dtypes.bool))


def test_operations() -> None:
    assert found(UPat(GroupOp.Comparison), i < j) and not found(UPat(GroupOp.Comparison), i + j)
    assert found(UPat((Ops.ADD, Ops.MUL)), i + j) and not found(UPat(Ops.MUL), i + j)


def test_args_by_value_set_fields_and_predicate() -> None:
    total = i.fold_ranges(Ops.ADD, i)
    pattern_of = {
        "value": UPat(Ops.REDUCE, arg=ReduceArg(Ops.ADD, 0)),
        "set": UPat(Ops.REDUCE, arg={ReduceArg(Ops.ADD, 0), ReduceArg(Ops.MAX, 0)}),
        "fields": UPat(Ops.REDUCE, arg={"op": Ops.ADD}),
        "predicate": UPat(Ops.REDUCE, arg=lambda arg: arg.op is Ops.ADD),
    }
    for kind, pattern in pattern_of.items():
        assert found(pattern, total), kind
        assert not found(pattern, i.fold_ranges(Ops.MUL, i)), kind
    assert not found(UPat(Ops.REDUCE, arg={"kind": 1}), total)
    assert found(UPat(Ops.RANGE, arg={"kind": AxisType.WEAK, "axis": (0,)}), i)
    assert not found(UPat(Ops.RANGE, arg={"kind": AxisType.WEAK, "axis": (False,)}), j)
    assert not found(UPat(Ops.CONST, arg=1), UOp.const(True)), "args are compared with their types"
    assert found(UPat(Ops.CONST, arg=Invalid), UOp.const(Invalid))


def test_tags() -> None:
    tagged = i.replace(tag="loop")
    assert found(UPat(Ops.RANGE, tag="loop"), tagged) and not found(UPat(Ops.RANGE, tag="loop"), i)
    assert found(UPat(tag={"loop", "x"}), tagged) and not found(UPat(tag={"x"}), tagged)


def test_alternatives_in_order() -> None:
    pattern = UPat.any(x * c, UPat.var("x")).named("term")
    node = i * 3
    assert found(pattern, node) == [
        {"term": node, "x": i, "c": UOp.const(3)},
        {"term": node, "x": node},
    ]
    assert pattern.names == {"term", "x", "c"} and pattern.sure_names == {"term", "x"}
    assert UPat.any(UPat(Ops.ADD), UPat(Ops.MUL)).ops == OpSet(Ops.ADD, Ops.MUL)


def test_or_casted_and_or_after() -> None:
    node, loaded = strong(dtypes.int8), UPat(Ops.PARAM, name="p")
    for pattern, wrapped in (
        (loaded.or_casted(), node.cast(dtypes.int32)),
        (loaded.or_bitcasted(), node.bitcast(dtypes.uint8)),
        (loaded.or_after(), node.after(UOp.sink())),
    ):
        assert found(pattern, node) == [{"p": node}] == found(pattern, wrapped)
        assert not found(pattern, i)


def test_early_reject_demands_operations_among_the_sources() -> None:
    pattern = UPat(Ops.SINK, early_reject=[Ops.ADD])
    assert found(pattern, UOp.sink(i + j)) and not found(pattern, UOp.sink(i * j))


@pytest.mark.parametrize(
    ("pattern", "op"),
    [
        (x + y, Ops.ADD),
        (x - 1, Ops.SUB),
        (1 - x, Ops.SUB),
        (2 * x, Ops.MUL),
        (x / y, Ops.FDIV),
        (1 / x, Ops.FDIV),
        (x // 2, Ops.FLOORDIV),
        (2 // x, Ops.FLOORDIV),
        (x % 2, Ops.FLOORMOD),
        (2 % x, Ops.FLOORMOD),
        (x**2, Ops.POW),
        (-x, Ops.NEG),
        (x & y, Ops.AND),
        (x | y, Ops.OR),
        (x ^ y, Ops.XOR),
        (x << 1, Ops.SHL),
        (x >> 1, Ops.SHR),
        (x < y, Ops.CMPLT),
        (x > y, Ops.CMPLT),
        (x > 1, Ops.CMPLT),
        (x.eq(y), Ops.CMPEQ),
        (x.ne(y), Ops.CMPNE),
        (~x, Ops.CMPNE),
        (x.maximum(0), Ops.MAX),
        (where(x, y, 0), Ops.WHERE),
        (x.mulacc(y, z), Ops.MULACC),
        (x.cdiv(2), Ops.CDIV),
        (x.cmod(2), Ops.CMOD),
        (x.exp(), Ops.EXP),
        (x.exp2(), Ops.EXP2),
        (x.log(), Ops.LOG),
        (x.log2(), Ops.LOG2),
        (x.sin(), Ops.SIN),
        (x.cos(), Ops.COS),
        (x.tanh(), Ops.TANH),
        (x.sqrt(), Ops.SQRT),
        (x.reciprocal(), Ops.RECIPROCAL),
        (x.trunc(), Ops.TRUNC),
        (x.cast(), Ops.CAST),
        (x.bitcast(), Ops.BITCAST),
        (x.reduce(), Ops.REDUCE),
        (x.index(y), Ops.INDEX),
        (x.load(), Ops.LOAD),
        (x.store(y), Ops.STORE),
        (x.after(), Ops.AFTER),
        (x.end(), Ops.END),
    ],
)
def test_words_build_one_operation(pattern: UPat, op: Op) -> None:
    assert pattern.ops == OpSet(op) and pattern.src is not None and len(pattern.src) >= 1


def test_operand_order_of_words() -> None:
    assert found(x > y, i > j) == [{"x": i, "y": j}]
    assert found(x > 1, i > 1) == [{"x": i}]
    assert found(5 - x, 5 - i) == [{"x": i}]
    assert found(~x, ~(i < j)) == [{"x": i < j}]


def test_reduce_and_effects() -> None:
    total = (i * j).fold_ranges(Ops.ADD, i, j)
    assert found(x.reduce(Ops.ADD), total) == [{"x": i * j}]
    assert not found(x.reduce(Ops.MAX), total)
    assert found(x.reduce(Ops.ADD, y, z), total) == [{"x": i * j, "y": i, "z": j}]
    assert not found(x.reduce(Ops.ADD, y), total)
    place = UOp(Ops.PARAM, (), ParamArg(0, dtypes.int32, 10)).index(i)
    effect = place.store(UOp.const(1)).end(i)
    assert found(UPat(Ops.INDEX).store(y).end(x), effect) == [{"x": i, "y": UOp.const(1)}]
    assert found(x.load(), place.load()) == [{"x": place}]


def test_ill_typed_nodes_match_nothing() -> None:
    bad = UOp(Ops.ADD, (strong(dtypes.int8), strong(dtypes.float32)))
    assert bad.dtype is dtypes.illtyped
    assert not found(x, bad) and not found(UPat(Ops.ADD), bad)


def test_equal_patterns_are_equal_and_pickle() -> None:
    one = where(x < c, UPat(Ops.REDUCE, arg={"op": Ops.ADD}, tag={"a"}), 1).named("n")
    two = where(x < c, UPat(Ops.REDUCE, arg={"op": Ops.ADD}, tag={"a"}), 1).named("n")
    assert one == two and hash(one) == hash(two)
    assert one != where(x < c, UPat(Ops.REDUCE, arg={"op": Ops.ADD}, tag={"a"}), 1.0).named("n")
    assert UPat.const(1) != UPat.const(True) and UPat.const(0.0) != UPat.const(-0.0)
    for pattern in (
        one,
        UPat.any(x, y),
        UPat(Ops.SINK, arg=_is_named),
        c,
        UPat(Ops.STACK, src=[x]),
    ):
        assert pickle.loads(pickle.dumps(pattern)) == pattern


def _is_named(arg: KernelInfo | None) -> bool:
    return arg is not None and arg.name != ""


def test_short_lambdas_pickle_by_code_and_closures_are_refused() -> None:
    pattern = pickle.loads(pickle.dumps(UPat(Ops.RANGE, arg=lambda arg: arg.axis == (1,))))
    assert found(pattern, j) and not found(pattern, i)
    wanted = RangeArg((1,), AxisType.WEAK)
    with pytest.raises(LoomError, match=r"must not be a closure.*remembers wanted"):
        UPat(Ops.RANGE, arg=lambda arg: arg is wanted)


def test_printing() -> None:
    pattern = where(x < c, UPat.any(x + 1, -x), 0.5).named("choice")
    assert repr(pattern) == "choice:WHERE(CMPLT(x, c:constant), ADD(x, 1) or NEG(x), 0.5)"
    assert repr(UPat(Ops.STACK, src=UPat(Ops.CONST))) == "STACK(CONST each)"
    assert repr(UPat(Ops.REDUCE, dtypes.int8, (x,), {"op": Ops.ADD}, allow_more=True)) == (
        "REDUCE(x, ...) of dtypes.int8 with {'op': Ops.ADD}"
    )
