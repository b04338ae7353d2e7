"""Writes through views, in-place operators, assignment; what older readers see; failures in the middle."""

from __future__ import annotations

import gc
import operator
import weakref
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
    LossyWriteError,
    OutOfMemoryError,
    ShapeError,
)
from loomgrad.ir.opcode import Ops
from loomgrad.memory.lru import LRUAllocator
from loomgrad.tensor import views
from tests.tensor import write_fuzzer
from tests.tensor.checks import Array

Change = Callable[[Tensor], object]


def tensor(*shape: int) -> Tensor:
    """0, 1 ... in a shape, stored."""
    return Tensor(np.arange(np.prod(shape), dtype=np.float32).reshape(shape))


# ---- every step of a view has an inverse


VIEWS: tuple[tuple[Callable[[Any], Any], Callable[[Array], Array]], ...] = (
    (lambda x: x.reshape(2, 6), lambda a: a.reshape(2, 6)),
    (lambda x: x.permute(1, 0), lambda a: a.transpose(1, 0)),
    (lambda x: x.T.flip(0), lambda a: a.T[::-1]),
    (lambda x: x.shrink(((1, 3), (0, 2))), lambda a: a[1:3, 0:2]),
    (lambda x: x.unsqueeze(1).squeeze(1), lambda a: a[:, None][:, 0]),
    (lambda x: x.flatten(), lambda a: a.reshape(-1)),
    (lambda x: x.detach(), lambda a: a[:]),
    (lambda x: x.transpose(), lambda a: a.T),
    (lambda x: x[:], lambda a: a[:]),
    (lambda x: x[1], lambda a: a[1]),
    (lambda x: x[-1, 1:], lambda a: a[-1, 1:]),
    (lambda x: x[::2, ::-2], lambda a: a[::2, ::-2]),
    (lambda x: x[None, ..., 2], lambda a: a[None, ..., 2]),
    (lambda x: x[1:][0].reshape(3, 1)[::-1], lambda a: a[1:][0].reshape(3, 1)[::-1]),
    (lambda x: x[3:], lambda a: a[3:]),
    (lambda x: x.expand(4, 3), lambda a: a[:]),
)


@pytest.mark.parametrize(("view", "same"), VIEWS)
@pytest.mark.parametrize("lazy", [False, True])
def test_a_write_through_a_view_reaches_its_root(
    view: Callable[[Tensor], Tensor], same: Callable[[Array], Array], lazy: bool
) -> None:
    x = tensor(4, 3) + 1 if lazy else tensor(4, 3)
    array = x.numpy().copy() if not lazy else np.arange(12, dtype=np.float32).reshape(4, 3) + 1
    seen, wanted = view(x), same(array)
    number = np.arange(wanted.size, dtype=np.float32).reshape(wanted.shape) * 10
    seen.assign(number)
    wanted[...] = number
    np.testing.assert_array_equal(x.numpy(), array)
    np.testing.assert_array_equal(seen.numpy(), number)


def test_a_write_through_a_view_of_a_constant() -> None:
    x = Tensor.ones(2, 2)
    other = Tensor.ones(2, 2)
    x[0] = 5
    assert (x.tolist(), other.tolist()) == ([[5, 5], [1, 1]], [[1, 1], [1, 1]])


def test_bits_are_written_as_the_other_dtype() -> None:
    x = Tensor([1.0, 2.0])
    x.bitcast(dtypes.int32)[0] = 0x40400000
    assert x.tolist() == [3.0, 2.0]


def test_padding_belongs_to_the_padded_tensor() -> None:
    x = Tensor([1.0, 2.0])
    padded = x.pad([(1, 1)])
    padded += 5
    assert (padded.tolist(), x.tolist()) == ([5, 6, 7, 5], [1, 2])


# ---- what is a value


@pytest.mark.parametrize(
    "compute",
    [
        *(lambda x: x.float(), lambda x: x.clip(), lambda x: x.contiguous(), lambda x: x + 0),
        *(lambda x: x.sum(0), lambda x: x.max(0, keepdim=True), lambda x: x.mean(0), Tensor),
        *(lambda x: x**1, lambda x: x[Tensor([0])], lambda x: x.pad([(0, 0), (1, 0)])),
        *(lambda x: x.int().abs(), lambda x: x.int().floor(), lambda x: x.int().ceil()),
        *(lambda x: x.bool().max(0), lambda x: x.bool().abs()),
    ],
)
def test_what_is_computed_is_a_value(compute: Callable[[Tensor], Tensor]) -> None:
    """Also where nothing had to be computed."""
    x = Tensor([[1.0, 2.0, 3.0]])
    value = compute(x)
    before = value.tolist()
    x.assign(0)
    assert value.tolist() == before
    x.assign([[1.0, 2.0, 3.0]])
    value.assign(0 if not value.dtype.is_bool else False)
    assert x.tolist() == [[1.0, 2.0, 3.0]]


# ---- snapshot-read


@pytest.mark.parametrize("realised", [False, True])
def test_views_and_expressions_keep_what_they_read(realised: bool) -> None:
    x = tensor(4)
    row, whole, moved, doubled = x[1:3], x[:], x.reshape(4), x * 2
    if realised:
        Tensor.realize(row, whole, moved, doubled)
    x.assign(9)
    assert row.tolist() == [1, 2] and whole.tolist() == moved.tolist() == [0, 1, 2, 3]
    assert doubled.tolist() == [0, 2, 4, 6]


def test_a_lazy_reader_outside_of_what_is_realised_sees_the_old_value_S86() -> None:
    w = tensor(3)
    y = w + 1
    w.assign(0)
    w.realize()
    assert y.tolist() == [1, 2, 3]


def test_an_old_view_writes_into_what_its_root_holds_now() -> None:
    x = tensor(4)
    view = x[1:3]
    x.assign(9)
    view[0] = 5
    assert x.tolist() == [9, 5, 9, 9]
    assert view.tolist() == [5, 9]  # a view that is written shows what is there now


def test_views_of_a_lost_tensor_see_each_others_writes() -> None:
    x = tensor(4)
    left, all_of_it = x[:2], x[:]
    del x
    gc.collect()
    Tensor.realize(left, all_of_it)
    left.assign(7)
    all_of_it[3] = 8
    assert all_of_it.tolist() == [7, 7, 2, 8]


def test_tensors_between_a_view_and_its_root_are_written() -> None:
    x = tensor(2, 3)
    row = x[1]
    end = row[1:]
    other = x[1]
    end.assign(0)
    assert (x.tolist(), row.tolist()) == ([[0, 1, 2], [3, 0, 0]], [3, 0, 0])
    assert other.tolist() == [3, 4, 5]


def test_equal_expressions_are_different_tensors_S85() -> None:
    x = tensor(3)
    a, b = x + 1, x + 1
    Tensor.realize(a, b)
    a[0] = 9
    assert (a.tolist(), b.tolist()) == ([9, 2, 3], [1, 2, 3])
    c = x.contiguous()
    c.assign(0)
    assert x.tolist() == [0, 1, 2]


def test_an_exported_array_is_not_written_S89() -> None:
    x = tensor(3)
    array = x.numpy()
    x += 1
    x.realize()
    assert array.tolist() == [0, 1, 2] and not array.flags.writeable


# ---- memory


def test_a_computed_view_does_not_keep_the_graph_of_its_root() -> None:
    x = tensor(3)
    temporary = x * 2 + 1
    node = weakref.ref(temporary.uop)
    view = temporary.reshape(3, 1)
    view.realize()
    assert node() is not None  # somebody could write through the other tensor
    del temporary
    (x + 1).realize()
    gc.collect()
    assert node() is None and view.tolist() == [[1], [3], [5]]
    view[0] = 0
    assert view.tolist() == [[0], [3], [5]]


def test_losses_that_are_kept_do_not_keep_their_graphs() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    kept, nodes = [], []
    for _ in range(4):
        loss = (w * w).sum()
        nodes.append(weakref.ref(loss.uop))
        kept.append(loss.detach().realize())
    del loss
    (w + 1).realize()
    gc.collect()
    assert [node() for node in nodes] == [None] * 4


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


# ---- operators

OPERATORS: tuple[tuple[Callable[[Any, Any], Any], Array, Any], ...] = (
    *((f, np.array([1.0, 2.5, -3.0]), 2.0) for f in (operator.iadd, operator.isub, operator.imul)),
    *((f, np.array([1.0, 2.5, -3.0]), 2.0) for f in (operator.itruediv, operator.ifloordiv)),
    *((f, np.array([5, 6, -7]), 3) for f in (operator.imod, operator.ifloordiv, operator.ipow)),
    *((f, np.array([5, 6, 7]), 3) for f in (operator.iand, operator.ior, operator.ixor)),
    *((f, np.array([5, 6, 7]), 2) for f in (operator.ilshift, operator.irshift)),
)


@pytest.mark.parametrize(("change", "values", "operand"), OPERATORS)
def test_in_place_operators_write(
    change: Callable[[Any, Any], Any], values: Array, operand: float
) -> None:
    x, array = Tensor(values), values.copy()
    view = x[1:]
    assert change(view, operand) is view
    array[1:] = change(array[1:], operand)
    np.testing.assert_array_equal(x.numpy(), array)


def test_in_place_matrix_product() -> None:
    x = same = Tensor([[1.0, 2.0], [3.0, 4.0]])
    x @= Tensor([[0.0, 1.0], [1.0, 0.0]])
    assert x is same and x.tolist() == [[2, 1], [4, 3]]


def test_an_operator_through_an_index_writes_once() -> None:
    x = tensor(6)
    x[2:4] += 1
    assert sum(n.op is Ops.WHERE for n in x.uop.toposort()) == 1
    assert x.tolist() == [0, 1, 3, 4, 4, 5]


def test_an_operator_of_another_dtype_is_refused() -> None:
    x = Tensor([1, 2])
    with pytest.raises(LossyWriteError, match="on int32 gives float32"):
        x[0:1] /= 2
    with pytest.raises(LossyWriteError, match="on int32 gives float32"):
        x += 0.5
    assert x.tolist() == [1, 2]


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


# ---- random programs

PROGRAMS = (
    """
x1 = lazy((4,), 7)
x1[...] += x1[::-1]
x2 = x1 + 1
x3 = x2.sum(0)
x4 = x2.sum(0)
x5 = x1[...]
x1[None] += x4 + 1
realize(x3, x5, x1, x2, x4)
check(x1)
""",
    """
x1 = stored((3, 4), 2)
x2 = x1.expand(2, 3, 4)
del x1
realize(x2)
x2[:, 0:-2:2, 3::2, ...] = 8
check(x2)
""",
)


@pytest.mark.parametrize("part", range(4))
def test_random_programs_of_writes(part: int) -> None:
    for seed in range(20_000 + part * 10, 20_010 + part * 10):
        assert (found := write_fuzzer.failure(seed)) is None, found


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_that_were_wrong_once(program: str) -> None:
    assert (found := write_fuzzer.run(program.strip().split("\n"))) is None, found


def test_the_fuzzer_finds_a_wrong_inverse_and_shortens_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(views.Moved, "undo", lambda self, written, source, device: source)
    found = next(f for seed in range(9) if (f := write_fuzzer.failure(seed)) is not None)
    assert found.count("\n    ") <= 5
