"""Nodes: interning, derived facts, keys, deep graphs, pickling, and that nothing is kept alive."""

from __future__ import annotations

import copy
import gc
import math
import os
import pickle
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from loomgrad.dtype import dtypes
from loomgrad.ir import args, uop
from loomgrad.ir.args import AxisType, Invalid, KernelInfo, ParamArg, RangeArg, ReduceArg
from loomgrad.ir.opcode import Ops
from loomgrad.ir.uop import UOp
from loomgrad.memory import Buffer
from tests.ir.graphs import buffer, loop, param, reduction, tensor
from tests.ir.samples import facts_of, samples

DEEP = 100_000
ROOT = Path(__file__).parents[2]


@contextmanager
def collector_off() -> Iterator[None]:
    """Garbage of earlier tests is gone, and from here on only reference counts free."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def table_sizes() -> tuple[int, int]:
    return len(uop._nodes), len(args._interned)


# ---- identity


def test_samples_cover_every_operation() -> None:
    assert set(samples()) == set(Ops)
    assert all(op is node.op for op, node in samples().items())


def test_equal_nodes_are_one() -> None:
    for first, second in zip(samples(3).values(), samples(3).values(), strict=True):
        assert first is second


def test_nodes_differ_by_each_part() -> None:
    x, y = tensor(0, (2,)), tensor(1, (2,))
    nodes = [
        UOp(Ops.ADD, (x, y)),
        UOp(Ops.SUB, (x, y)),
        UOp(Ops.ADD, (y, x)),
        UOp(Ops.NOOP, (x,)),
        UOp(Ops.NOOP, (x,), None, 1),
        UOp(Ops.NOOP, (x,), None, 2),
        UOp(Ops.CAST, (x,), dtypes.int32),
        UOp(Ops.CAST, (x,), dtypes.int64),
    ]
    assert len(set(nodes)) == len(nodes)


def test_constants_differ_by_type_and_sign() -> None:
    values = (1, 1.0, True, 0, 0.0, -0.0, False, Invalid, math.inf, math.nan)
    nodes = [UOp.const(value) for value in values]
    assert len(set(nodes)) == len(values)
    assert UOp.const(math.nan) is UOp.const(-math.nan) is UOp.const(float("nan"))
    assert math.copysign(1, UOp.const(-0.0).val) == -1 and math.copysign(1, UOp.const(0.0).val) == 1


def test_types_count_inside_of_args_and_tags() -> None:
    x = tensor(0, (2, 3))
    assert UOp(Ops.PERMUTE, (x,), (1, 0)) is not UOp(Ops.PERMUTE, (x,), (True, False))
    assert UOp(Ops.PERMUTE, (x,), (1, 0)) is UOp(Ops.PERMUTE, (x,), (1, 0))
    assert UOp(Ops.NOOP, (x,), None, 1) is not UOp(Ops.NOOP, (x,), None, True)
    assert UOp.const(1) is not UOp(Ops.CONST, (), 1, tag=1) is not UOp(Ops.CONST, (), 1, tag=1.0)
    assert ParamArg(1, dtypes.int8, 3) is ParamArg(1, dtypes.int8, 3)
    assert ParamArg(1, dtypes.int8, 3) is not ParamArg(True, dtypes.int8, 3)
    assert RangeArg((0,), AxisType.LOOP) is not RangeArg((False,), AxisType.LOOP)
    assert ReduceArg(Ops.ADD, 1) is not ReduceArg(Ops.MUL, 1)


def test_equality_and_hash_are_identity() -> None:
    a, b = UOp.const(1), UOp.const(2)
    assert a == a and a != b
    assert {a: 1}[UOp.const(1)] == 1
    assert (a + b).op is Ops.ADD and a.eq(b).op is Ops.CMPEQ and a.ne(b).op is Ops.CMPNE


def test_copies_are_the_node() -> None:
    node = samples()[Ops.REDUCE]
    assert copy.copy(node) is node and copy.deepcopy(node) is node
    assert copy.deepcopy([node, node])[1] is node


# ---- constants


def test_constants_of_a_dtype() -> None:
    assert UOp.const(3).dtype is dtypes.weakint and UOp.const(3.0).dtype is dtypes.weakfloat
    assert UOp.const(True).dtype is dtypes.bool and UOp.const(Invalid).dtype is dtypes.bool
    typed = UOp.const(3, dtypes.int8)
    assert typed.op is Ops.CAST and typed.src[0] is UOp.const(3) and typed.val == 3
    assert typed.is_const() and typed.dtype is dtypes.int8
    assert UOp.const(1, dtypes.bool) is UOp.const(True)
    assert UOp.const(0.0, dtypes.bool) is UOp.const(False)
    assert UOp.const(2, dtypes.weakfloat) is UOp.const(2.0)
    assert UOp.const(2.0, dtypes.weakint) is UOp.const(2)
    assert UOp.const(Invalid, dtypes.int32) is UOp.const(Invalid)


def test_const_like_has_the_dtype() -> None:
    assert tensor(0, (2,), dtypes.int8).const_like(5) is UOp.const(5, dtypes.int8)
    assert (loop(3, 0) < 2).const_like(True) is UOp.const(True)
    assert loop(3, 0).const_like(2) is UOp.const(2)


def test_only_constants_have_a_value() -> None:
    assert not loop(3, 0).is_const()
    with pytest.raises(ValueError, match="is not a constant"):
        _ = loop(3, 0).val


# ---- derived facts


def test_open_ranges() -> None:
    i, j, k = loop(4, 0), loop(5, 1), reduction(6, 2)
    x = param(0, 120).index((i * 5 + j) * 6 + k)
    assert x.ranges == {i, j, k} and i.ranges == {i}
    total = x.fold_ranges(Ops.ADD, k)
    assert total.ranges == {i, j}
    assert total.stage("CPU", j).ranges == {i}
    store = param(1, 20).index(i * 5 + j).store(total)
    assert store.ranges == {i, j} and store.end(i, j).ranges == frozenset()
    assert store.end(j).ranges == {i}
    read = param(1, 20).after(store.end(j)).index(0)
    assert read.ranges == {i}
    assert UOp.sink(store.end(i, j)).call(buffer(0, 1)).ranges == frozenset()


def test_an_ended_expression_closes_the_ranges_inside() -> None:
    i, j = loop(4, 0), loop(5, 1)
    assert UOp(Ops.REDUCE, ((i + j), i * 2), ReduceArg(Ops.ADD, 0)).ranges == {j}


def test_source_mask_is_the_union_of_the_sources_ops() -> None:
    for node in samples().values():
        assert node.source_mask == sum({s.op.bit for s in node.src})


def test_device_is_that_of_the_first_storage() -> None:
    assert (tensor(0, (2,)) + 1).device == "CPU"
    assert (UOp.const(1) + 2).device is None


def test_toposort_lists_sources_first_and_each_node_once() -> None:
    node = samples()[Ops.CALL]
    order = node.toposort()
    place = {item: index for index, item in enumerate(order)}
    assert len(place) == len(order) and order[-1] is node
    assert all(place[source] < place[item] for item in order for source in item.src)
    top = node.toposort(lambda item: item is node)
    assert set(top) == {node, *node.src}


def test_replace_and_alu() -> None:
    x, y = tensor(0, (2,)), tensor(1, (2,))
    node = x + y
    assert node.replace(src=(y, x)) is y + x
    assert node.replace(op=Ops.SUB) is x - y
    assert node.replace(tag="t").tag == "t" and node.replace(tag="t") is not node
    assert x.alu(Ops.ADD, y) is node


def test_repr_names_op_dtype_shape_and_arg() -> None:
    assert (
        repr(tensor(0, (2, 3)).sum(0))
        == "<REDUCE dtypes.float32 (3,), ReduceArg(op=Ops.ADD, count=1)>"
    )


# ---- keys


def test_keys_tell_nodes_apart() -> None:
    nodes = [*samples(0).values(), *samples(5).values()]
    by_key = {node.key: node for node in nodes}
    for node in nodes:
        same = by_key[node.key]
        assert same is node or (same.op is node.op is Ops.NOOP)
    constants = [UOp.const(value) for value in (1, 1.0, True, 0.0, -0.0, math.nan, Invalid)]
    assert len({node.key for node in constants}) == len(constants)
    assert UOp(Ops.PERMUTE, (nodes[0],), (1, 0)).key != UOp(Ops.PERMUTE, (nodes[0],), (0, 1)).key


def test_tag_and_bound_memory_are_no_part_of_the_key() -> None:
    x = tensor(0, (2,))
    assert UOp(Ops.NOOP, (x,), None, 1).key == UOp(Ops.NOOP, (x,), None, 2).key
    bound = [
        UOp(
            Ops.BUFFER, (), ParamArg(0, dtypes.int8, 2, "CPU", buffer=Buffer("CPU", 2, dtypes.int8))
        )
        for _ in range(2)
    ]
    assert bound[0] is not bound[1] and bound[0].key == bound[1].key


PRINT_KEYS = """
from tests.ir.samples import samples
import math
from loomgrad.ir.uop import UOp
print(*(node.key.hex() for node in samples(7).values()), UOp.const(-math.nan).key.hex())
"""


def test_keys_are_equal_in_every_process() -> None:
    here = [node.key.hex() for node in samples(7).values()] + [UOp.const(math.nan).key.hex()]
    for seed in ("0", "1", "random"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", PRINT_KEYS]
        printed = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        assert printed.stdout.split() == here


# ---- pickling


def test_pickling_gives_the_same_nodes() -> None:
    nodes = list(samples(4).values())
    assert all(a is b for a, b in zip(pickle.loads(pickle.dumps(nodes)), nodes, strict=True))
    for value in (args.AddrSpace.REG, AxisType.LOOP, Invalid, Ops.ADD, KernelInfo("k", ("a",))):
        assert pickle.loads(pickle.dumps(value)) is value


def test_pickled_nodes_can_be_built_anew() -> None:
    node = tensor(91, (2,)) + 1
    key, data = node.key, pickle.dumps(node)
    del node
    assert pickle.loads(data).key == key


# ---- size


def chain(length: int) -> UOp:
    node = tensor(0, (2,), dtypes.int32)
    for number in range(length):
        node = UOp(Ops.ADD, (node, UOp.const(number & 1)))
    return node


def test_deep_graphs() -> None:
    node = chain(DEEP)
    assert node.shape == (2,) and node.ranges == frozenset() and len(node.key) == 32
    assert node.bounds == (dtypes.int32.min, dtypes.int32.max)
    assert len(node.toposort()) == DEEP + 3
    assert pickle.loads(pickle.dumps(node)) is node
    deep_range: UOp = loop(4, 0)
    for _ in range(DEEP):
        deep_range = deep_range + 1
    assert deep_range.bounds == (DEEP, DEEP + 3) and len(deep_range.ranges) == 1


def test_doubled_graphs() -> None:
    i = loop(3, 0)
    node: UOp = i
    for _ in range(60):
        node = node + node
    assert node.bounds == (0, 2 << 60) and node.ranges == {i}
    assert len(node.toposort()) == 62 and len(node.key) == 32
    assert pickle.loads(pickle.dumps(node)) is node


# ---- lifetime


def test_dropped_nodes_are_gone_without_the_collector() -> None:
    with collector_off():
        before = table_sizes()
        alive = samples(1000)
        for node in alive.values():
            facts_of(node)
        assert table_sizes()[0] > before[0]
        alive.clear()
        del node, alive
        assert table_sizes() == before


def test_memory_goes_with_its_node() -> None:
    with collector_off():
        memory = Buffer("CPU", 4, dtypes.float32)
        gone = weakref.ref(memory)
        node = UOp(Ops.BUFFER, (), ParamArg(1001, dtypes.float32, 4, "CPU", buffer=memory)) + 1
        facts_of(node)
        del memory
        assert gone() is not None
        del node
        assert gone() is None


def test_many_dropped_nodes_are_gone() -> None:
    with collector_off():
        before = table_sizes()
        node = chain(DEEP)
        facts_of(node)
        assert table_sizes()[0] > before[0] + DEEP
        del node
        assert table_sizes() == before


def test_threads_agree_on_equal_nodes() -> None:
    start = threading.Barrier(2)
    results: list[list[UOp]] = [[], []]

    def work(found: list[UOp]) -> None:
        start.wait()
        for number in range(20_000):
            found.append(UOp(Ops.CONST, (), number + 10**6) * 3)

    threads = [threading.Thread(target=work, args=(found,)) for found in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(a is b for a, b in zip(*results, strict=True))
