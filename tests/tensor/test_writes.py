"""Writes through views, in-place operators, assignment; what older readers see; what views keep alive."""

from __future__ import annotations

import copy
import gc
import operator
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loomgrad import Tensor, dtypes, no_grad
from loomgrad.errors import LossyWriteError
from loomgrad.ir.opcode import Ops
from tests.tensor.checks import Array


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


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_a_copy_is_a_value(duplicate: Callable[[Tensor], Tensor]) -> None:
    x = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    for source in (x, x.detach()[1:], x.detach().reshape(3, 1).realize()):
        before = source.tolist()
        made = duplicate(source)
        with no_grad():
            made[0] = 9.0
        assert x.tolist() == [1, 2, 3] and source.tolist() == before != made.tolist()
    leaf = duplicate(x)
    (leaf * 2).sum().backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [2, 2, 2] and x.grad is None


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
