"""How many kernels a program becomes, and which."""

from __future__ import annotations

import time

import pytest

from loomgrad.dtype import dtypes
from loomgrad.ir.args import AxisType
from loomgrad.ir.counting import counting
from loomgrad.ir.opcode import Ops
from loomgrad.ir.shape import extent_of
from tests.schedule.lowering import Inputs, kernels_of, matmul, stores_of


def test_linear_layer_with_activation_is_one_kernel() -> None:
    new = Inputs()
    x, w, b = new(128, 64), new(64, 96), new(96)
    (kernel,) = kernels_of((matmul(x, w) + b).maximum(0))
    assert stores_of(kernel) == 1
    order = kernel.toposort()
    assert sum(node.op is Ops.REDUCE for node in order) == 1
    assert not any(node.op in (Ops.RESHAPE, Ops.PERMUTE, Ops.STAGE, Ops.BUFFER) for node in order)


def test_elementwise_chain_into_a_sum_is_one_kernel() -> None:
    new = Inputs()
    a, b, c = new(256, 256), new(256, 256), new(256, 256)
    assert len(kernels_of(((a + b) * c).sum())) == 1


def test_two_layers_are_two_kernels() -> None:
    new = Inputs()
    x, w1, w2 = new(128, 64), new(64, 128), new(128, 64)
    assert len(kernels_of(matmul(matmul(x, w1).maximum(0), w2))) == 2


def test_small_rows_normalise_in_one_kernel() -> None:
    x = Inputs()(64)
    assert len(kernels_of(x - x.sum() * 0.015625)) == 1


def test_a_sum_used_by_all_workers_is_computed_once() -> None:
    x = Inputs()(1 << 20)
    assert len(kernels_of(x - x.sum())) == 2


def test_softmax_keeps_nothing_but_its_exponentials() -> None:
    x = Inputs()(512, 1024)
    shifted = (x - x.max(1, keepdim=True)).exp()
    kernels = kernels_of(shifted / shifted.sum(1, keepdim=True))
    assert len(kernels) <= 2


def test_adam_joins_the_gradient_of_its_parameter() -> None:
    new = Inputs()
    x, dy, p, m, v = new(128, 64), new(128, 32), new(64, 32), new(64, 32), new(64, 32)
    g = matmul(x.permute(1, 0), dy)
    m_new = m * 0.9 + g * 0.1
    v_new = v * 0.99 + g * g * 0.01
    p_new = p - m_new / (v_new.sqrt() + 1e-8) * 0.001
    (kernel,) = kernels_of(p_new, m_new, v_new)
    assert stores_of(kernel) == 3


def test_outputs_that_need_each_other_do_not_share_a_kernel() -> None:
    x = Inputs()(8, 8)
    y = x * 2 + 1
    z = y + matmul(y, y)
    kernels = kernels_of(y, z)
    assert len(kernels) == 2


def test_equal_kernels_are_one_node() -> None:
    new = Inputs()
    x, w1, w2 = new(32, 32), new(32, 32), new(32, 32)
    first = matmul(x, w1).maximum(0)
    kernels = kernels_of(matmul(first, w2).maximum(0))
    assert len(kernels) == 2 and kernels[0] is kernels[1]


def test_one_hot_selection_has_no_loop_over_the_classes() -> None:
    new = Inputs()
    logits, labels = new(128, 1000), new(128, dtype=dtypes.int32)
    classes = counting(1000)
    hit = labels.reshape(128, 1).eq(classes.reshape(1, 1000))
    (kernel,) = kernels_of(hit.where(logits, 0).sum(1))
    loops = [n for n in kernel.toposort() if n.op is Ops.RANGE]
    assert [extent_of(loop) for loop in loops] == [128]
    assert all(loop.arg.kind is not AxisType.REDUCE for loop in loops)


def test_shared_values_do_not_multiply() -> None:
    x = Inputs()(64)
    for _ in range(60):
        x = x + x
    start = time.perf_counter()
    (kernel,) = kernels_of(x)
    assert time.perf_counter() - start < 3
    assert len(kernel.toposort()) < 200


def test_deep_chains_schedule_in_linear_time() -> None:
    def seconds(depth: int) -> float:
        new = Inputs()
        x, w = new(16, 16), new(16, 16)
        for _ in range(depth):
            x = matmul(x, w).maximum(0)
        start = time.perf_counter()
        assert len(kernels_of(x)) == depth
        return time.perf_counter() - start

    seconds(4)
    few, many = seconds(20), seconds(160)
    assert many < 30 * few


def test_an_activation_is_written_by_its_product() -> None:
    new = Inputs()
    x, w, v = new(128, 64), new(64, 128), new(128, 128)
    z = matmul(x, w)
    h = z.maximum(0)
    mask = (z > 0).where(v, 0)
    kernels = kernels_of(matmul(h, v), mask, matmul(h.permute(1, 0), mask))
    assert stores_of(kernels[0]) >= 2


def test_the_statistics_of_rows_are_one_kernel() -> None:
    new = Inputs()
    x, y = new(128, 10), new(128, 10)
    greatest = x.max(1, keepdim=True)
    total = (x - greatest).exp().sum(1, keepdim=True)
    log_total = total.log() + greatest
    kernels = kernels_of((x - log_total) * y, ((x - log_total) * y).sum(1))
    assert len(kernels) <= 2


def test_joining_never_makes_kernels_wait_for_each_other() -> None:
    new = Inputs()
    x, w = new(16, 16), new(16, 16)
    a = matmul(x, w)
    b = matmul(a, w)
    c = a + b
    kernels = kernels_of(a, b, c, matmul(c, a))
    assert sum(stores_of(kernel) for kernel in kernels) == 4


def test_a_reduction_under_repeated_elements_is_stored() -> None:
    new = Inputs()
    x, w, big = new(64, 64), new(64, 32), new(64, 64)
    repeated = matmul(x, w).reshape(64, 32, 1).expand(64, 32, 2).reshape(64, 64)
    kernels = kernels_of(repeated * big)
    assert len(kernels) == 2


def test_weak_values_are_stored_in_a_strong_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loomgrad.schedule.fuse._inline_is_cheaper", lambda *_: False)
    new = Inputs()
    x, y = new(4, 5, dtype=dtypes.int32), new(7, 4)
    counted = x.cast(dtypes.weakint).sum(1)
    kernels = kernels_of(y * counted.cast(dtypes.float32))
    stored = [n for k in kernels for n in k.toposort() if n.op is Ops.PARAM]
    assert len(kernels) == 2 and not any(param.dtype.is_weak for param in stored)
