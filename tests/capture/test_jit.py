"""Captured functions: what is read anew, what is written, what is guarded, what is refused."""

from __future__ import annotations

import gc
import math
import warnings
from typing import Any

import numpy as np
import pytest

from loomgrad import GlobalCounters, Tensor, TinyJit, jit
from loomgrad.engine import schedule
from loomgrad.errors import CaptureError
from loomgrad.nn.optim import SGD, Adam


def array(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_later_calls_run_the_kernels_on_their_own_arguments() -> None:
    calls = []

    @jit
    def f(x: Tensor, y: Tensor) -> Tensor:
        calls.append(1)
        return (x @ y).relu() + x.sum()

    for seed in range(5):
        a, b = array(4, 4, seed=seed), array(4, 4, seed=seed + 10)
        expected = np.maximum(a @ b, 0) + a.sum()
        np.testing.assert_allclose(f(Tensor(a), Tensor(b)).numpy(), expected, rtol=1e-4)
    assert len(calls) == f.captures == 1


def test_results_are_not_overwritten() -> None:
    f = jit(lambda x: x * 2 + 1)
    kept = [f(Tensor([float(i)])) for i in range(6)]
    assert [k.item() for k in kept] == [2.0 * i + 1 for i in range(6)]


def test_a_new_shape_or_dtype_or_number_is_captured_anew() -> None:
    f = jit(lambda x, n: x * n)
    for x, n in ((Tensor([1.0]), 2), (Tensor([1.0, 2.0]), 2), (Tensor([1]), 2), (Tensor([1.0]), 3)):
        for _ in range(2):
            assert f(x, n).tolist() == (x * n).tolist()
    assert f.captures == 4


def test_captured_tensors_are_read_as_they_are() -> None:
    w = Tensor([1.0, 2.0])
    f = jit(lambda x: x * w)
    assert f(Tensor([1.0, 1.0])).tolist() == [1.0, 2.0]
    w.assign(Tensor([5.0, 6.0]))
    assert f(Tensor([1.0, 1.0])).tolist() == [5.0, 6.0]
    w.assign(w + 1)  # lazy
    assert f(Tensor([1.0, 1.0])).tolist() == [6.0, 7.0]


def test_assignments_happen_in_every_call() -> None:
    count = Tensor([0.0])

    @jit
    def step(x: Tensor) -> Tensor:
        count.assign(count + 1)
        return x + count

    assert [step(Tensor([10.0])).item() for _ in range(5)] == [11.0, 12.0, 13.0, 14.0, 15.0]
    assert count.item() == 5.0


def test_an_argument_can_be_assigned_to() -> None:
    @jit
    def grow(state: Tensor) -> None:
        state.assign(state * 2)

    state = Tensor([1.0])
    for _ in range(4):
        grow(state)
    assert state.item() == 16.0


def test_a_result_can_be_an_argument_again() -> None:
    f = jit(lambda x: x * 0.5 + 1)
    x = Tensor([8.0])
    for _ in range(4):
        x = f(x)
    assert x.item() == pytest.approx(8 * 0.5**4 + 1 + 0.5 + 0.25 + 0.125)


def test_the_same_tensor_twice_and_then_two() -> None:
    f = jit(lambda x, y: x - y)
    x, y = Tensor([3.0]), Tensor([1.0])
    assert [f(x, x).item(), f(x, y).item(), f(y, x).item()] == [0.0, 2.0, -2.0]
    g = jit(lambda a: a + x)
    assert [g(x).item(), g(y).item(), g(x).item()] == [6.0, 4.0, 6.0]


def test_one_tensor_at_two_places_is_written_once() -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        x.assign(x + 1)
        y.assign(y * 10)
        return x + y

    run = jit(f)
    for _ in range(3):
        x, a, b = Tensor([1.0]), Tensor([1.0]), Tensor([2.0])
        assert run(x, x).item() == 40.0 and x.item() == 20.0
        assert run(a, b).item() == 22.0 and (a.item(), b.item()) == (2.0, 20.0)


def test_a_written_tensor_is_argument_or_captured_but_not_both() -> None:
    w = Tensor([1.0, 2.0])

    @jit
    def f(x: Tensor) -> Tensor:
        w.assign(w + 10)
        return x + w

    assert f(Tensor([0.0, 0.0])).tolist() == [11.0, 12.0]
    with pytest.raises(CaptureError, match="also used from outside"):
        f(w)


def test_the_same_result_twice_is_one_tensor() -> None:
    f = jit(lambda x: (x * 2,) * 2)
    for _ in range(3):
        a, b = f(Tensor([1.0, 2.0]))
        assert a is b


def test_gradients_of_each_step_are_read() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    optimizer = SGD([w], lr=1.0)

    @jit
    def step() -> Tensor:
        optimizer.step()
        return w.sum()

    found = []
    for factor in range(1, 5):
        optimizer.zero_grad()
        (w * factor).sum().backward()
        found.append(step().item())
    assert found == [1.0, -3.0, -9.0, -17.0]


def test_signs_of_zero_and_types_of_keys_are_told_apart() -> None:
    f = jit(lambda x, s: x * s)
    assert [math.copysign(1, f(Tensor([1.0]), s).item()) for s in (-0.0, 0.0)] == [-1.0, 1.0]
    g = jit(lambda x, d: x + len(str(next(iter(d)))))
    assert [g(Tensor([0.0]), d).item() for d in ({1: 0}, {1.0: 0}, {True: 0})] == [1.0, 3.0, 4.0]


def test_a_frozen_parameter_is_noticed() -> None:
    w = Tensor([1.0], requires_grad=True)
    f = jit(lambda x: x * w if w.requires_grad else x)
    assert f(Tensor([3.0])).item() == 3.0
    w.assign(Tensor([2.0]))
    assert f(Tensor([3.0])).item() == 6.0
    w.requires_grad = False
    assert f(Tensor([3.0])).item() == 3.0


def test_an_identity_gives_the_argument_back() -> None:
    f = jit(lambda x: x)
    x, y = Tensor([1.0]), Tensor([2.0])
    assert f(x) is x and f(y) is y


def test_values_computed_before_are_computed_again() -> None:
    w, x = Tensor([1.0, 2.0]), Tensor([1.0, 1.0])
    early = (w + 1).realize()
    f = jit(lambda x: x * (w + 1) + early)
    assert f(x).tolist() == [4.0, 6.0]
    w.assign(Tensor([10.0, 20.0]))
    assert f(x).tolist() == [13.0, 24.0]


def test_realising_a_tensor_from_outside_is_no_part_of_the_capture() -> None:
    lazy = Tensor([1.0]) + 1

    @jit
    def f(x: Tensor) -> Tensor:
        return (x + lazy.realize()).realize()

    assert f(Tensor([1.0])).item() == 3.0
    lazy.assign(Tensor([7.0]))
    assert [f(Tensor([1.0])).item(), f(Tensor([2.0])).item(), lazy.item()] == [8.0, 9.0, 7.0]


def test_slices_of_captured_tensors_and_arguments_move_with_them() -> None:
    w = Tensor(array(8, 4))
    w[2:4].realize()
    f = jit(lambda x: x[1:3] @ w[0:4] + w[2:4])
    for seed in range(3):
        a, b = array(4, 4, seed=seed), array(8, 4, seed=seed + 5)
        w.assign(Tensor(b))
        np.testing.assert_allclose(f(Tensor(a)).numpy(), a[1:3] @ b[0:4] + b[2:4], rtol=1e-4)


def test_random_numbers_are_new_in_every_call_and_the_same_as_outside() -> None:
    f = jit(lambda x: x + Tensor.rand(3))
    Tensor.manual_seed(5)
    inside = [f(Tensor([0.0, 0.0, 0.0])).tolist() for _ in range(4)]
    Tensor.manual_seed(5)
    assert inside == [Tensor.rand(3).tolist() for _ in range(4)]


def test_training_is_the_same_with_and_without() -> None:
    def losses(captured: bool) -> list[float]:
        w, b = Tensor(array(5, 3), requires_grad=True), Tensor(array(3), requires_grad=True)
        optimizer = Adam([w, b], lr=0.1)

        def step(x: Tensor, y: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = (x @ w + b).cross_entropy(y).backward()
            return loss.realize(*optimizer.schedule_step())

        run = jit(step) if captured else step
        batches = [(array(8, 5, seed=i), np.arange(8) % 3) for i in range(6)]
        return [run(Tensor(x), Tensor(y.astype(np.int32))).item() for x, y in batches]

    np.testing.assert_allclose(losses(True), losses(False), rtol=1e-5)


def test_a_replay_schedules_nothing() -> None:
    def trained(captured: bool) -> list[float]:
        w = Tensor(array(4, 4), requires_grad=True)
        optimizer = SGD([w], lr=0.05, momentum=0.9)

        def step(x: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = ((x @ w) ** 2).mean().backward()
            optimizer.step()
            return loss

        run = jit(step) if captured else step
        x = Tensor(array(2, 4))
        losses = [run(x).item(), run(x).item()]
        known, kernels = len(schedule.schedules), GlobalCounters.kernel_count
        losses += [run(x).item() for _ in range(10)]
        assert len(schedule.schedules) == known and GlobalCounters.kernel_count > kernels
        assert w.grad is None or not captured
        return losses

    np.testing.assert_allclose(trained(True), trained(False), rtol=1e-4)


def test_containers_and_other_values() -> None:
    @TinyJit
    def f(batch: dict[str, Tensor], pair: tuple[Tensor, list[Tensor]]) -> dict[str, Any]:
        total = batch["a"] + pair[0] + pair[1][0]
        return {"total": total, "twice": (total * 2, "text"), "n": 3}

    for value in (1.0, 2.0, 3.0):
        t = Tensor([value])
        out = f({"a": t}, pair=(t, [t]))
        assert out["n"] == 3
        assert out["total"].item() == 3 * value
        twice, text = out["twice"]
        assert twice.item() == 6 * value and text == "text"


def test_reading_a_value_inside_is_refused_at_the_line() -> None:
    f = jit(lambda x: x * 2 if x.sum().item() > 0 else x)
    with pytest.raises(CaptureError, match="while its function is being captured") as caught:
        f(Tensor([1.0]))
    assert "test_jit.py" in str(caught.value)
    assert jit(lambda x: x + 1)(Tensor([1.0])).item() == 2.0


def test_numpy_arguments_are_refused() -> None:
    with pytest.raises(CaptureError, match="NumPy array"):
        jit(lambda x: x)(np.zeros(3))


def test_a_failing_call_leaves_nothing_behind() -> None:
    w = Tensor([1.0])

    @jit
    def f(x: Tensor) -> Tensor:
        raise KeyError(str((x + w).shape))

    with pytest.raises(KeyError):
        f(Tensor([1.0]))
    assert f.captures == 0 and (w + 1).item() == 2.0


def test_methods_have_captures_of_their_own() -> None:
    class Model:
        def __init__(self, scale: float) -> None:
            self.scale = Tensor([scale])

        @jit
        def __call__(self, x: Tensor) -> Tensor:
            return x * self.scale

        @jit
        def run(self, x: Tensor) -> Tensor:
            return x * self.scale

    a, b = Model(2.0), Model(3.0)
    for _ in range(3):
        assert (a.run(Tensor([1.0])).item(), b.run(Tensor([1.0])).item()) == (2.0, 3.0)


def test_a_captured_function_inside_of_another_is_a_part_of_it() -> None:
    inner = jit(lambda x: x + 1)
    outer = jit(lambda x: inner(x) * 2)
    assert [outer(Tensor([float(i)])).item() for i in range(3)] == [2.0, 4.0, 6.0]
    assert inner.captures == 0


def test_many_captures_are_told() -> None:
    f = jit(lambda x, n: x + n)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for n in range(10):
            f(Tensor([0.0]), n)
    assert len(told) == 1 and "captured 8 times" in str(told[0].message)


def test_replays_leave_no_memory_behind() -> None:
    f = jit(lambda x: (x @ x).relu() @ x)
    x = Tensor(array(16, 16))
    f(x)
    f(x)
    gc.collect()
    used = GlobalCounters.mem_used
    for _ in range(50):
        f(x)
    gc.collect()
    assert GlobalCounters.mem_used == used
