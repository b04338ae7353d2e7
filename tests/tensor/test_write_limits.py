"""Writes that are refused, gradients of writes, captured writes, failures in the middle."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loomgrad import Tensor, dtypes, jit, no_grad
from loomgrad.backends.cpu.runtime import CPUProgram
from loomgrad.errors import (
    BroadcastWriteError,
    DTypeError,
    GradientError,
    OutOfMemoryError,
    ShapeError,
)
from loomgrad.memory.lru import LRUAllocator

Change = Callable[[Tensor], object]


def tensor(*shape: int) -> Tensor:
    """0, 1 ... in a shape, stored."""
    return Tensor(np.arange(np.prod(shape), dtype=np.float32).reshape(shape))


# ---- what is refused


def test_B070_a_write_into_a_broadcast_view_is_refused() -> None:
    x = Tensor([7])
    t = x.expand(3)
    changes: tuple[Change, ...] = (
        *(lambda t: t.__setitem__(-1, 3), lambda t: t.assign(1), lambda t: t.__iadd__(1)),
        *(lambda t: t.reshape(3, 1)[0].assign(1), lambda t: t.__setitem__(Tensor([0]), 1)),
        lambda t: t.__setitem__(Tensor([True, False, True]), 1),
    )
    for change in changes:
        with pytest.raises(BroadcastWriteError, match=r"LG202[\s\S]*contiguous"):
            change(t)
    t.realize()
    del x
    gc.collect()
    (t + 1).realize()
    with pytest.raises(ValueError, match="several places"):
        t[0] = 1
    copy = t.contiguous()
    copy[0] = 1
    assert (copy.tolist(), t.tolist()) == ([1, 7, 7], [7, 7, 7])


def test_B076_another_dtype_must_not_lose_data() -> None:
    t = Tensor.zeros(1)
    with pytest.raises(TypeError, match=r"LG203 · int64 cannot be assigned to float32"):
        t.assign(Tensor([16777217], dtype=dtypes.int64))
    t.assign(Tensor([3], dtype=dtypes.int8))
    assert t.tolist() == [3.0]


def test_numbers_that_do_not_fit_are_refused() -> None:
    small = Tensor([1, 2], dtype=dtypes.int8)
    for number in (300, -129, [1, 300]):
        with pytest.raises(OverflowError, match="does not fit int8"):
            small[:] = number
    for wrong in (1.5, float("nan"), [1.5, 2.0]):
        with pytest.raises(DTypeError, match="is no int8"):
            small.assign(wrong)
    with pytest.raises(DTypeError, match="2 is no bool"):
        Tensor([True]).assign(2)
    small[0] = 5.0  # an integer is an integer
    small[1] = True
    assert small.tolist() == [5, 1]


def test_shapes_that_do_not_fit_are_refused() -> None:
    x = tensor(2, 3)
    for key, value, message in (
        (slice(None), tensor(2), r"shape \(2,\) cannot be assigned to \(2, 3\)"),
        (0, tensor(2, 3), r"shape \(2, 3\) cannot be assigned to \(3,\)"),
        (Tensor([0, 1]), tensor(3, 3), r"shape \(3, 3\) cannot be assigned to \(2, 3\)"),
    ):
        with pytest.raises(ShapeError, match=message):
            x[key] = value
    x[0] = tensor(1, 1, 3)  # leading axes of size 1 are dropped, as in NumPy
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]


# ---- gradients


def test_a_leaf_is_not_written() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    changes: tuple[Change, ...] = (
        *(lambda w: w.__setitem__(0, 1), lambda w: w.__iadd__(1), lambda w: w[0].assign(1)),
        *(lambda w: w.__setitem__(Tensor([0]), 1), lambda w: w.reshape(2, 1).__setitem__(0, 1)),
    )
    for change in changes:
        with pytest.raises(GradientError, match=r"changed in place[\s\S]*no_grad"):
            change(w)
    assert w.tolist() == [1.0, 2.0]
    with no_grad():
        w[0] = 5
    w.detach()[1] = 6
    assert w.requires_grad and w.tolist() == [5.0, 6.0]
    (w * w).sum().backward()
    assert w.grad is not None and w.grad.tolist() == [10.0, 12.0]


def test_gradients_pass_a_write() -> None:
    w = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    v = Tensor([5.0, 6.0], requires_grad=True)
    h = w * 2
    h[1:] = v * v
    h.reshape(3, 1)[0] *= 3
    (h * Tensor([1.0, 10.0, 100.0])).sum().backward()
    assert w.grad is not None and w.grad.tolist() == [6.0, 0.0, 0.0]
    assert v.grad is not None and v.grad.tolist() == [100.0, 1200.0]


def test_gradients_reach_what_is_written_into_a_constant() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    x = Tensor.zeros(2, 2)
    x[1] = w
    x[Tensor([0]), Tensor([1])] = w[1:]
    (x * x).sum().backward()
    assert w.grad is not None and w.grad.tolist() == [2.0, 8.0]


def test_a_write_without_gradients_makes_a_constant() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    h = w * 2
    with no_grad():
        h[0] = 5
    with pytest.raises(GradientError, match="found no tensor"):
        h.sum().backward()


def test_assigning_a_leaf_takes_its_value_and_its_gradient() -> None:
    w, x = Tensor([1.0, 2.0], requires_grad=True), Tensor.zeros(2)
    x.assign(w)
    x.realize()
    (x * 3).sum().backward()
    assert w.grad is not None and w.grad.tolist() == [3.0, 3.0]
    s, t = Tensor([1.0, 2.0]), Tensor.zeros(2)
    t.assign(s)
    s.requires_grad = t.requires_grad = True
    (t * 3).sum().backward()
    assert s.grad is None and t.grad is not None and t.grad.tolist() == [3.0, 3.0]
    p = Tensor([0.0, 0.0], requires_grad=True)
    p.assign(w)
    assert [g.tolist() for g in (p * w).sum().gradient(p, w)] == [[1, 2], [1, 2]]


# ---- captured writes


def test_B072_B068_captured_functions_write_as_others_do() -> None:
    def reverse(x: Tensor) -> Tensor:
        made = x.zeros_like()
        made[::-1] = 2.0 * x[::-1]
        return made

    def replace(x: Tensor) -> Tensor:
        before = x.log()
        x.assign(x.log())
        return before

    reverse, replace = jit(reverse), jit(replace)
    for start in range(3):
        x = (Tensor.arange(6.0) + start).realize()
        assert reverse(x).tolist() == [2.0 * (start + i) for i in range(6)]
        y = Tensor.in_memory(3.0 + start)
        np.testing.assert_allclose([replace(y).item(), y.item()], np.log(3.0 + start), 1e-6)


def test_captured_state_and_its_views_are_written_in_every_call() -> None:
    state = Tensor.zeros(4).realize()
    middle = state[1:3]

    @jit
    def step(amount: Tensor) -> None:
        state[0] += amount
        middle.assign(middle + 1)

    for calls in range(1, 4):
        step(Tensor.in_memory(2.0))
        assert state.tolist() == [2.0 * calls, calls, calls, 0] and middle.tolist() == [calls] * 2


def test_a_captured_function_writes_through_its_argument() -> None:
    state = Tensor.zeros(4)

    @jit
    def step(part: Tensor) -> Tensor:
        part += 1
        return part * 2

    for calls in range(1, 4):
        part = state[1:3]
        assert step(part).tolist() == [2 * calls] * 2
        assert part.tolist() == [calls] * 2 and state.tolist() == [0, calls, calls, 0]


# ---- failures in the middle (S90)


def program(x: Tensor) -> list[Tensor]:
    """Values of several kernels, among them a written one."""
    y = (x * 2).contiguous()
    y[1:3] = x[:2] + 1
    total = (y * y).sum()
    return [x, y, total, y - total]


def after(tensors: list[Tensor]) -> list[Any]:
    return [value.tolist() for value in tensors]


@pytest.mark.parametrize("allowed", [0, 1])
def test_an_interrupt_leaves_all_tensors_as_they_were_S90(
    allowed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = after(program(tensor(5)))
    tensors = program(tensor(5))
    ran = 0
    call = CPUProgram.__call__

    def interrupted(self: CPUProgram, *arguments: Any) -> None:
        nonlocal ran
        ran += 1
        if ran > allowed:
            raise KeyboardInterrupt
        call(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(CPUProgram, "__call__", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Tensor.realize(*tensors)
    assert ran == allowed + 1
    assert after(tensors) == wanted


def test_running_out_of_memory_changes_nothing_S90(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = after(program(tensor(5)))
    tensors = program(tensor(5))

    def none(self: LRUAllocator, nbytes: int) -> None:
        raise OutOfMemoryError(f"no {nbytes} bytes")

    with monkeypatch.context() as patch:
        patch.setattr(LRUAllocator, "alloc", none)
        with pytest.raises(OutOfMemoryError):
            Tensor.realize(*tensors)
    tensors[1][0] = 0
    tensors[1][0] = tensors[0][0] * 2
    assert after(tensors) == wanted
