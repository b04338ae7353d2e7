"""From graphs to Python: realize, numpy, item, printing, truth; assignment."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import numpy as np
import pytest

from loomgrad import GlobalCounters, Tensor, dtypes, no_grad
from loomgrad.errors import DTypeError, GradientError, ShapeError


def kernels(compute: Callable[[], object]) -> int:
    """How many kernels a computation runs."""
    before = GlobalCounters.kernel_count
    compute()
    return GlobalCounters.kernel_count - before


def test_nothing_runs_before_a_value_is_asked_for() -> None:
    x = Tensor([1.0, 2.0])
    assert kernels(lambda: (x * 2 + 1).exp().sum()) == 0


def test_a_value_is_computed_once() -> None:
    y = Tensor([1.0, 2.0]) * 3
    assert kernels(y.realize) == 1
    assert kernels(y.tolist) == kernels(y.realize) == 0
    assert y.is_realized


def test_several_are_realised_together() -> None:
    x = Tensor([1.0, 2.0])
    a, b = x + 1, x * 2
    assert Tensor.realize(a, b) is a
    assert a.is_realized and b.is_realized
    assert (a.tolist(), b.tolist()) == ([2.0, 3.0], [2.0, 4.0])


def test_numpy_shows_the_memory_itself_read_only() -> None:
    x = Tensor([[1.0, 2.0]])
    array = x.numpy()
    assert not array.flags.writeable
    assert np.shares_memory(array, x.numpy())
    del x
    assert array.tolist() == [[1.0, 2.0]]
    assert Tensor.zeros(0, 3).numpy().shape == (0, 3)


def test_lists_and_items() -> None:
    assert Tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert Tensor.ones(2, 0).tolist() == [[], []]
    assert Tensor.ones(0, 2).tolist() == []
    assert Tensor([[[7]]]).item() == 7
    assert Tensor(2.5).tolist() == 2.5
    assert float(Tensor([1.5])) == 1.5 and int(Tensor(3)) == 3
    assert bool(Tensor([True])) and not Tensor(0.0)
    with pytest.raises(ShapeError, match=r"item\(\) needs one element, shape \(2,\) has 2"):
        Tensor([1, 2]).item()
    with pytest.raises(ShapeError, match=r"the truth of a tensor of shape \(2,\) is ambiguous"):
        bool(Tensor([1, 2]) == Tensor([1, 2]))


def test_printing_computes_nothing() -> None:
    x = Tensor([1.0, 2.5])
    assert repr(x) == "Tensor([1.0, 2.5], dtype=float32)"
    y = x + 1
    assert kernels(lambda: repr(y)) == 0
    assert repr(y) == "<Tensor of shape (2,) on CPU, dtype=float32, not computed>"
    y.realize()
    assert repr(y) == "Tensor([2.0, 3.5], dtype=float32)"
    assert repr(Tensor.in_memory([0.0] * 50)).endswith("dtype=float32, realised>")
    assert "requires_grad=True" in repr(Tensor([1.0], requires_grad=True))


def test_facts() -> None:
    x = Tensor([[1.0, 2.0, 3.0]])
    assert (x.ndim, x.numel(), x.nbytes(), x.element_size()) == (2, 3, 12, 4)
    assert x.device == "CPU"
    assert len({x, x, Tensor([1.0])}) == 2
    text: object = "a"
    assert operator.eq(x, text) is False and operator.ne(x, None) is True


def test_other_devices_get_copies() -> None:
    x = Tensor([1.0, 2.0])
    assert x.to("cpu:0") is x
    there = x.to("CPU:1")
    assert there.device == "CPU:1" and (there + 1).tolist() == [2.0, 3.0]
    assert (there.to() + x).tolist() == [2.0, 4.0]


def test_contiguous_is_a_value_of_its_own() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    turned = x.T.contiguous()
    assert turned.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert (turned * 2).sum().gradient(turned)[0].tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert (x.contiguous() * 2).sum().gradient(x)[0].tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_arithmetic_has_names() -> None:
    x = Tensor([1.0, -2.0])
    assert [v.tolist() for v in (x.add(1), x.sub(1), x.mul(x), x.div(2), x.neg())] == [
        *([2.0, -1.0], [0.0, -3.0], [1.0, 4.0], [0.5, -1.0], [-1.0, 2.0])
    ]
    assert Tensor([0, 2]).logical_not().tolist() == [True, False]


def test_training_is_a_context() -> None:
    seen = [Tensor.training]
    with Tensor.train():
        seen.append(Tensor.training)
        with Tensor.train(False):
            seen.append(Tensor.training)
        seen.append(Tensor.training)
    assert [*seen, Tensor.training] == [False, True, False, True, False]


# ---- assignment


def test_assign_gives_another_value() -> None:
    x = Tensor([1.0, 2.0])
    y = x + 1
    assert x.assign(Tensor([5.0, 6.0])) is x
    assert (x.tolist(), y.tolist()) == ([5.0, 6.0], [2.0, 3.0])
    assert x.assign(x * 2).realize().tolist() == [10.0, 12.0]
    assert x.assign(7).tolist() == [7.0, 7.0]
    assert x.assign([1, 2]).tolist() == [1.0, 2.0]
    assert x.assign(np.array([3.0, 4.0], np.float32)).tolist() == [3.0, 4.0]


def test_in_place_operators_assign() -> None:
    x = same = Tensor([1.0, 2.0])
    x += 1
    x *= Tensor([2.0, 3.0])
    x -= 1
    x /= 2
    assert x is same and x.tolist() == [1.5, 4.0]


def test_an_assigned_number_is_no_part_of_the_program() -> None:
    rate, x = Tensor.in_memory(0.5), Tensor([1.0, 2.0])
    (x * rate).realize()
    for value in (0.25, math.pi):
        rate.assign(value)
        assert rate.is_realized
        np.testing.assert_array_equal((x * rate).numpy(), np.float32(value) * x.numpy())


def test_assignments_that_lose_something_are_refused() -> None:
    ints = Tensor([1, 2])
    assert ints.assign(Tensor([3, 4], dtype=dtypes.int8)).tolist() == [3, 4]
    with pytest.raises(DTypeError, match="float32 cannot be assigned to int32 without loss"):
        ints.assign(Tensor([1.0, 2.0]))
    with pytest.raises(DTypeError, match=r"1\.5 is no int32"):
        ints.assign(1.5)
    with pytest.raises(DTypeError, match="in-place operation on int32 gives float32"):
        ints /= 2
    with pytest.raises(ShapeError, match=r"shape \(3,\) cannot be assigned to \(2,\)"):
        ints.assign(Tensor([1, 2, 3]))


def test_a_parameter_stays_a_leaf_when_assigned() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(GradientError, match="cannot be changed in place"):
        w += 1
    with no_grad():
        w += 1
    w.assign(w * 2)
    assert w.requires_grad and w.tolist() == [4.0, 6.0]
    (w * w).sum().backward()
    assert w.grad is not None and w.grad.tolist() == [8.0, 12.0]
