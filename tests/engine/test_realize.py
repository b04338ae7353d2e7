"""Realising: what is computed, how often, and what stays when something fails."""

from __future__ import annotations

import dataclasses
import gc
import threading
import weakref

import numpy as np
import pytest

from loomgrad import Context, GlobalCounters, Tensor
from loomgrad.engine import compile as compiled
from loomgrad.engine import schedule, state
from loomgrad.engine.cache import Cache
from loomgrad.errors import CheckError, DeviceError


def kernels_run(make: Tensor) -> int:
    before = GlobalCounters.kernel_count
    make.realize()
    return GlobalCounters.kernel_count - before


def random(*shape: int) -> Tensor:
    return Tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


def test_a_value_is_computed_once() -> None:
    y = random(8, 8) * 2 + 1
    assert kernels_run(y) == 1
    assert kernels_run(y) == 0
    assert kernels_run(y.sum()) == 1


def test_equal_programs_share_a_schedule_and_a_kernel() -> None:
    (random(16, 16) @ random(16, 16)).relu().realize()
    schedules, kernels = len(schedule.schedules), len(compiled.kernels)
    for _ in range(3):
        (random(16, 16) @ random(16, 16)).relu().realize()
    assert len(schedule.schedules) == schedules and len(compiled.kernels) == kernels


def test_the_same_buffer_twice_is_another_program_than_two_buffers() -> None:
    x, y = random(8), random(8) + 1
    Tensor.realize(y)
    np.testing.assert_allclose((x * x).numpy(), x.numpy() ** 2)
    np.testing.assert_allclose((x * y).numpy(), x.numpy() * y.numpy())


def test_history_reads_what_was_computed() -> None:
    x = random(32, 32)
    w = random(32, 32).requires_grad_()
    loss = ((x @ w).exp() * 1e-3).sum()
    first = loss.item()
    loss.backward()
    assert loss.item() == first
    assert w.grad is not None
    expected = x.numpy().T @ (np.exp(x.numpy() @ w.numpy()) * 1e-3)
    np.testing.assert_allclose(w.grad.numpy(), expected, rtol=1e-4)


def test_a_stored_intermediate_is_used_again() -> None:
    x, w = random(32, 32), random(32, 32)
    hidden = (x @ w).relu()
    assert kernels_run((hidden @ w).sum(0)) >= 2
    assert kernels_run(hidden) == 0


def test_storage_goes_with_its_tensors() -> None:
    x = random(64, 64)
    gc.collect()
    used = GlobalCounters.mem_used
    y = (x + 1).realize()
    node = weakref.ref(y.uop)
    assert GlobalCounters.mem_used > used
    del y
    gc.collect()
    assert GlobalCounters.mem_used == used and node() is None


def test_ten_thousand_steps_leave_nothing_behind() -> None:
    x = random(4)
    for _ in range(50):
        x = (x * 0.5 + 1).realize()
    gc.collect()
    used, values = GlobalCounters.mem_used, len(state._values)
    for _ in range(300):
        x = (x * 0.5 + 1).realize()
    gc.collect()
    assert GlobalCounters.mem_used == used and len(state._values) == values


def test_views_of_storage_cost_nothing() -> None:
    x = random(4, 6)
    assert kernels_run(x.reshape(24)) == 0
    assert kernels_run(x.detach()) == 0
    assert kernels_run(x.permute(1, 0)) == 1


def test_contiguous_slices_of_storage_are_views() -> None:
    x = random(6, 4, 5).realize()
    for view in (x[2], x[1:3], x[2, 1:3], x[5, 3, 2], x.reshape(24, 5)[7:9], x[1:5][1]):
        assert kernels_run(view) == 0
    np.testing.assert_array_equal(x[1:5][1].numpy(), x.numpy()[2])
    np.testing.assert_array_equal(x.reshape(24, 5)[7:9].numpy(), x.numpy().reshape(24, 5)[7:9])
    assert kernels_run(x[:, 1]) == 1


def test_batches_of_one_tensor_share_their_kernel() -> None:
    x, w = random(64, 8).realize(), random(8, 8)
    (x[0:8] @ w).sum(0).realize()
    kernels = len(compiled.kernels)
    for start in range(8, 64, 8):
        got = (x[start : start + 8] @ w).sum(0).numpy()
        np.testing.assert_allclose(
            got, (x.numpy()[start : start + 8] @ w.numpy()).sum(0), rtol=1e-4
        )
    assert len(compiled.kernels) == kernels


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2)])
def test_nothing_is_computed_for_empty_values(shape: tuple[int, ...]) -> None:
    y = Tensor(np.zeros(shape, np.float32)) + 1
    assert kernels_run(y) == 0 and y.numpy().shape == shape


def test_reductions_of_nothing_are_the_identity() -> None:
    empty = Tensor(np.zeros((0, 3), np.float32))
    np.testing.assert_array_equal(empty.sum(0).numpy(), [0, 0, 0])
    np.testing.assert_array_equal((empty.sum() + 1).numpy(), 1)


def test_check_names_a_wrong_kernel() -> None:
    y = random(8) * 5
    wrong = random(8) * 7
    y.realize()
    wrong.realize()
    (key, five), (_, seven) = list(compiled.kernels._entries.items())[-2:]
    compiled.kernels.put(key, dataclasses.replace(five, program=seven.program))
    try:
        with Context(CHECK=True), pytest.raises(CheckError, match="element 0 of argument 0"):
            (random(8) * 5).realize()
    finally:
        compiled.kernels.clear()


def test_two_threads_compute_at_once() -> None:
    x = random(64, 64)
    expected = x.numpy() @ x.numpy()
    wrong: list[float] = []

    def work(factor: float) -> None:
        for step in range(20):
            result = ((x @ x) * (factor + step)).numpy() / (factor + step)
            wrong.append(float(np.abs(result - expected).max()))

    threads = [threading.Thread(target=work, args=(factor,)) for factor in (1.0, 1.5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wrong) == 40 and max(wrong) < 1e-3


def test_the_cache_keeps_what_was_used_last() -> None:
    cache: Cache[str, int] = Cache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c"), len(cache)) == (1, None, 3, 2)


def test_long_sums_stay_accurate() -> None:
    with Context(CHECK=False):
        mean = (Tensor.ones(1 << 23).contiguous() * 0.1).mean().item()
        columns = (Tensor.ones(1 << 20, 3).contiguous() * 0.1).sum(0).numpy()
    assert mean == pytest.approx(0.1, rel=1e-5)
    np.testing.assert_allclose(columns, 0.1 * (1 << 20), rtol=3e-5)


def test_the_state_of_the_process_can_be_cleared() -> None:
    x = random(4) + 1
    first = x.numpy().copy()
    names = state.reset()
    assert {"schedules", "kernels", "values of nodes"} <= set(names)
    assert len(schedule.schedules) == len(compiled.kernels) == 0
    np.testing.assert_array_equal(x.numpy(), first)
    np.testing.assert_array_equal((x + 0.5).numpy(), first + 0.5)


def test_operands_of_two_devices_are_named() -> None:
    x = Tensor([1.0, 2.0], device="CPU")
    y = Tensor([1.0, 2.0], device="CPU:1")
    with pytest.raises(DeviceError, match="CPU"):
        (x + y).realize()
