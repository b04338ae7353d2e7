"""Graphs as text: the tree reads well and stays linear, the Python builds the same node."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomgrad.dtype import Number, dtypes
from loomgrad.errors import UnsupportedError
from loomgrad.ir.args import AddrSpace, Invalid, ParamArg
from loomgrad.ir.opcode import Op, Ops
from loomgrad.ir.text import NAMES, line, pyrender, tree
from loomgrad.ir.uop import UOp
from loomgrad.memory import Buffer
from tests.ir.graphs import buffer, loop, matmul_kernel, tensor
from tests.ir.samples import samples

MATMUL = """\
SINK test
  END
    STORE
      INDEX : float32[]
        PARAM 0 CPU : float32[6]
        ADD : weakint[]
          MUL (., 3) : weakint[]
            %0 = RANGE 0 WEAK (2) : weakint[]
          %1 = RANGE 1 WEAK (3) : weakint[]
      MAX (., 0) : float32[]
        ADD : float32[]
          REDUCE ADD 0 : float32[]
            MUL : float32[]
              INDEX : float32[]
                PARAM 1 CPU : float32[8]
                ADD : weakint[]
                  MUL (., 4) : weakint[]
                    %0
                  %2 = RANGE 2 REDUCE (4) : weakint[]
              INDEX : float32[]
                PARAM 2 CPU : float32[12]
                ADD : weakint[]
                  MUL (., 3) : weakint[]
                    %2
                  %1
            %2
          INDEX : float32[]
            PARAM 3 CPU : float32[3]
            %1
    %0
    %1"""


def rebuilt(node: UOp) -> object:
    return eval(pyrender(node), dict(NAMES))


def test_the_tree_of_a_kernel() -> None:
    assert tree(matmul_kernel(2, 4, 3)) == MATMUL


def test_lines() -> None:
    x = tensor(0, (2, 3))
    register = ParamArg(2, dtypes.float32, 96, addrspace=AddrSpace.REG, shape=(6, 16))
    bound = ParamArg(1, dtypes.int8, 4, "CPU", buffer=Buffer("CPU", 4, dtypes.int8))
    typed = UOp.const(2, dtypes.float32)
    cases = {
        "RESHAPE (., [2, 3]) : float32[2,3]": x,
        "PERMUTE (1, 0) : float32[3,2]": x.permute(1, 0),
        "PAD (., [1, 0], [3, 3]) : float32[3,3]": x.pad(((1, 0), None)),
        "CAST int32 : int32[2,3]": x.cast(dtypes.int32),
        "MUL (., 2:float32) : float32[2,3]": x.alu(Ops.MUL, typed),
        "BUFFER 2 REG : float32[6,16]": UOp(Ops.BUFFER, (), register),
        "BUFFER 1 CPU bound : int8[4]": UOp(Ops.BUFFER, (), bound),
        "WHERE (., ., Invalid) : weakint[]": UOp(
            Ops.WHERE, (loop(3, 0) < 2, loop(3, 0), UOp.const(Invalid))
        ),
        "NOOP : float32[2,3] #5": UOp(Ops.NOOP, (x,), None, 5),
        "ADD : illtyped[2,3]": x.alu(Ops.ADD, tensor(1, (2, 3), dtypes.int32)),
        "ADD : float32[?]": x.alu(Ops.ADD, tensor(1, (2,))),
        "CONST 3 : weakint[]": UOp.const(3),
        "CAST float32 (2) : float32[]": typed,
        "STAGE CPU keep (., .) : float32[3]": UOp.const(1.0, dtypes.float32).stage(
            "CPU", loop(3, 0), removable=False
        ),
    }
    for expected, node in cases.items():
        if node.op is not Ops.STAGE:
            assert line(node) == expected
    assert (
        line(loop(3, 0).stage("CPU", loop(3, 0), removable=False)) == "STAGE CPU keep : weakint[3]"
    )


def test_every_operation_prints_and_renders() -> None:
    for node in samples(2).values():
        assert node.op.name in tree(node).splitlines()[0]
        assert rebuilt(node) is node


def test_a_shared_node_is_written_once() -> None:
    shared = tensor(0, (2,)).exp()
    lines = tree(shared + shared.sin()).splitlines()
    assert [text.strip() for text in lines].count("%0") == 1
    assert sum("%0 = EXP" in text for text in lines) == 1
    assert sum("BUFFER" in text for text in lines) == 1


def test_doubled_graphs_stay_small() -> None:
    node = tensor(0, (2,))
    for _ in range(60):
        node = node + node
    assert len(tree(node).splitlines()) == 121
    assert len(tree(node)) < 9_000
    assert len(pyrender(node).splitlines()) == 63
    assert rebuilt(node) is node


def test_deep_graphs_stay_linear() -> None:
    node = tensor(0, (2,))
    for number in range(10_000):
        node = node + number
    text = tree(node)
    assert len(text) < 150 * 10_000
    assert "(9999) " in text and "  " * 41 not in text
    assert rebuilt(node) is node


def constants(draw: st.DrawFn) -> UOp:
    kinds = (st.integers(-(2**70), 2**70), st.floats(), st.booleans(), st.just(math.nan))
    if draw(st.integers(0, 9)) == 0:
        return UOp.const(Invalid)
    value: Number = draw(st.one_of(*kinds))
    return UOp.const(value)


@st.composite
def graphs(draw: st.DrawFn) -> UOp:
    """Random graphs with all kinds of constants, args and tags."""
    pool = [tensor(draw(st.integers(0, 9)), (2, 2)), constants(draw)]
    for _ in range(draw(st.integers(1, 12))):
        x, y = draw(st.sampled_from(pool)), draw(st.sampled_from(pool))
        kind = draw(st.integers(0, 4))
        if kind == 0:
            pool.append(constants(draw))
        elif kind == 1:
            pool.append(
                UOp(Ops.NOOP, (x,), None, draw(st.sampled_from([1, "a'b", (1, True), 1.5])))
            )
        elif kind == 2:
            pool.append(UOp(Ops.CAST, (x,), draw(st.sampled_from(dtypes.all))))
        else:
            op: Op = draw(st.sampled_from([Ops.ADD, Ops.MUL, Ops.CMPLT, Ops.STACK]))
            pool.append(UOp(op, (x, y)))
    return UOp(Ops.SINK, tuple(pool), None, draw(st.sampled_from([None, "CPU"])))


@given(graphs())
def test_python_builds_the_same_node(node: UOp) -> None:
    assert rebuilt(node) is node
    assert len(tree(node).splitlines()) <= 3 * len(node.toposort())


def test_memory_cannot_be_written_as_python() -> None:
    memory = Buffer("CPU", 4, dtypes.float32)
    node = UOp(Ops.BUFFER, (), ParamArg(3, dtypes.float32, 4, "CPU", buffer=memory)) + 1
    with pytest.raises(UnsupportedError, match="BUFFER with memory cannot be written as Python"):
        pyrender(node)
    assert "bound" in tree(node)
    assert rebuilt(buffer(3, 4) + 1) is buffer(3, 4) + 1
