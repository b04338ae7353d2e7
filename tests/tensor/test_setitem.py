"""`x[...] = value` by NumPy's rules: ints, slices, None, Ellipsis, index tensors, masks; the cases of old bugs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from loomgrad import Tensor, dtypes
from loomgrad.dtype import can_cast_lossless
from loomgrad.engine.compile import kernels
from loomgrad.errors import DTypeError, IndexingError
from tests.tensor.checks import Array


def counted(shape: Sequence[int]) -> Array:
    return np.arange(np.prod(shape), dtype=np.int32).reshape(shape)


def as_keys(key: Any, wrap: Any) -> Any:
    """A key with its index arrays and masks made by `wrap`."""
    parts = key if isinstance(key, tuple) else (key,)
    return tuple(wrap(part) if isinstance(part, np.ndarray) else part for part in parts)


def check(shape: Sequence[int], key: Any, wrap: Any = Tensor) -> None:
    """Numbers, a full slot of values, and values that broadcast, as NumPy writes them."""
    full = counted(shape)[key].shape
    thin = tuple(1 if axis % 2 else size for axis, size in enumerate(full))
    for slot in ((), full, thin, full[1:], (1, *full)):
        values = -1 - counted(slot)
        array = counted(shape)
        array[key] = np.broadcast_to(values.reshape(slot[max(0, len(slot) - len(full)) :]), full)
        x = Tensor(counted(shape))
        x[as_keys(key, wrap)] = Tensor(values) if slot else int(values)
        np.testing.assert_array_equal(x.numpy(), array)


A, B, LAST = np.array([2, 0]), np.array([[0], [-1]]), np.array([1, 1, -3, 1])
F = np.array([True, False, True])
BASIC = (
    *(0, -1, slice(1, None), slice(None, None, -1), slice(None, None, 2), slice(-1, 0, -2)),
    *(..., (), None, (None, -1), (..., 0), (1, ..., 2), (slice(0, 0), 1), (slice(2), None, 1, ...)),
    *((0, slice(0, 2), 3), (slice(None), slice(None, None, 3), slice(2, 0, -1))),
)
ADVANCED = (
    *(A, (slice(None), A), (A, A), (A, B), (slice(None), A, B), (..., A), (A, ..., 1), (0, A)),
    *((A, slice(None), A), (slice(1, None), A), (slice(None, None, 2), B, 1), (None, A, 2)),
    *((A, None, B), (0, slice(None), B), (A, slice(1, 3), 1), LAST, (LAST, LAST - 0), np.array(1)),
    *((1, B, ..., A), (np.array([], np.int64),), (A[:, None, None], B, A), (A, 1, slice(None))),
)
MASKS = (
    *(F, (slice(None), F), counted((3, 3)) % 2 == 0, (F, slice(1, None)), (None, F), (..., F)),
    *(
        (F, 1),
        (F, A),
        counted((3, 3, 3)) % 4 == 0,
        np.zeros((3, 3), bool),
        (slice(None, None, 2), F),
    ),
)


@pytest.mark.parametrize("key", BASIC, ids=str)
def test_basic_keys(key: Any) -> None:
    check((3, 3, 4), key)


@pytest.mark.parametrize("key", ADVANCED, ids=str)
def test_index_tensors(key: Any) -> None:
    check((3, 3, 3), key)


@pytest.mark.parametrize("key", MASKS, ids=lambda key: str(key).replace("\n", ""))
def test_masks(key: Any) -> None:
    check((3, 3, 3), key)


@pytest.mark.parametrize("wrap", [lambda a: a, lambda a: a.tolist()], ids=["arrays", "lists"])
def test_arrays_and_lists(wrap: Any) -> None:
    for key in ((A, slice(None), A), (slice(None), A, B), F, (LAST, LAST)):
        check((3, 3, 3), key, wrap)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint32])
def test_dtypes_of_indices(dtype: Any) -> None:
    """A narrow dtype need not hold the size of the axis."""
    x, array = Tensor(counted((300,))), counted((300,))
    indices = np.array([100, 7], dtype)
    x[Tensor(indices)] = Tensor([1, 2])
    array[indices] = [1, 2]
    np.testing.assert_array_equal(x.numpy(), array)


def test_indices_out_of_range() -> None:
    x = Tensor(counted((4,)))
    for key in (4, -5, [1, 9], np.array([-5]), (slice(None), 0)):
        with pytest.raises(IndexError):
            x[key] = 1
    y = Tensor(counted((2, 2)))
    y[Tensor([0, 0, 5]), Tensor([0, 2, 0])] = -1  # what tensors hold is not known yet
    assert y.tolist() == [[-1, 1], [2, 3]]
    with pytest.raises(IndexingError, match=r"index 9 is out of range for axis 1 of size 2"):
        y[[0, 1], [0, 9]] = 1


def test_keys_that_are_none() -> None:
    x = Tensor(counted((2, 3)))
    for key, message in (
        ("a", "index of type str"),
        ((0, 0, 0), "3 indices for a tensor of 2 axes"),
        ((..., 0, ...), "for a tensor of 2 axes"),
        (([0], ..., [0], ...), "for a tensor of 2 axes"),
        (([0, 1], [0, 1, 2]), r"shapes \(2,\) and \(3,\) do not broadcast"),
        ([True, False, True], r"mask of shape \(3,\) cannot choose from axes of shape \(2,\)"),
        (([0], 2.5), "index of type float"),
    ):
        with pytest.raises(IndexingError, match=message):
            x[key] = 1
    with pytest.raises(DTypeError, match="must have an integer dtype or be a mask, not float32"):
        x[Tensor([0.5])] = 1
    assert x.tolist() == counted((2, 3)).tolist()


def test_the_slot_of_a_lazy_expression_and_of_an_index_that_is_computed() -> None:
    x = Tensor(counted((5,))) * 2
    x[Tensor([1, 2]) + 1] = x[:2] + 100
    assert x.tolist() == [0, 2, 100, 102, 8]


def test_indices_through_an_old_view() -> None:
    x = Tensor(counted((4,)))
    view, masked = x[1:], x[1:]
    x.assign(9)
    view[Tensor([0])] = 5
    masked[Tensor([False, True, False])] = 6
    assert x.tolist() == [9, 5, 6, 9]


def test_operators_through_indices() -> None:
    x = Tensor(counted((4,)))
    x[Tensor([1, 1, 3])] += 10  # once for each element, as in NumPy
    assert x.tolist() == [0, 11, 2, 13]


def test_writes_at_other_places_are_the_same_program() -> None:
    x = Tensor(counted((7, 5))).realize()
    x[0] = -1
    x.realize()
    known = len(kernels)
    for place in range(1, 7):
        x[place] = -1
        x.realize()
    assert len(kernels) == known and x.tolist() == [[-1] * 5] * 7


def test_many_writes_in_a_row() -> None:
    """More than one kernel could hold."""
    x, array = Tensor.zeros(40), np.zeros(40, np.float32)
    for place in range(40):
        x[place] = float(place)
        array[place] = place
    np.testing.assert_array_equal(x.numpy(), array)


# ---- cases of CASES: what went wrong elsewhere


def test_B052_the_last_of_duplicates_wins_also_when_it_is_zero() -> None:
    t = Tensor([1, 2, 3, 4])
    t[[1, 1]] = Tensor([1, 0])
    assert t.tolist() == [1, 0, 3, 4]


def test_B054_index_arrays_separated_by_a_slice() -> None:
    t, n = Tensor.zeros(10, 4, 5, 3), np.zeros((10, 4, 5, 3))
    v = Tensor.arange(2 * 2 * 10 * 5).reshape(2, 2, 10, 5).float()
    t[:, [3, 1], :, [[0], [2]]] = v
    n[:, [3, 1], :, [[0], [2]]] = v.numpy()
    np.testing.assert_array_equal(t.numpy(), n)


@pytest.mark.parametrize("shift", [1, 1000])
def test_B056_overlapping_shifts(shift: int) -> None:
    count = 100_000
    a, b, r = Tensor.arange(count), Tensor.arange(count).realize(), np.arange(count)
    a[shift:] = a[: count - shift]
    b[: count - shift] = b[shift:]
    np.testing.assert_array_equal(a.numpy(), np.r_[r[:shift], r[: count - shift]])
    np.testing.assert_array_equal(b.numpy(), np.r_[r[shift:], r[count - shift :]])


def test_B060_two_tensors_from_each_others_old_values() -> None:
    a, b = Tensor([0.0, 1.0, 2.0]), Tensor([4.0, 5.0, 6.0])
    na, nb = a + b, a * 2
    a.assign(na)
    b.assign(nb)
    assert (a.tolist(), b.tolist()) == ([4, 6, 8], [0, 2, 4])


def test_B061_swapping_halves() -> None:
    b = Tensor([1, 2, 3, 4, 5, 6])
    left, right = b[:3].contiguous(), b[3:].contiguous()
    b[:3] = right
    b[3:] = left
    assert b.tolist() == [4, 5, 6, 1, 2, 3]
    b[:3], b[3:] = b[3:], b[:3]
    assert b.tolist() == [1, 2, 3, 4, 5, 6]


def test_B062_state_that_is_read_and_updated_in_a_step() -> None:
    b, m, p = Tensor([0.5]), Tensor([0.0]), Tensor([1.0])
    for _ in range(10):
        m.assign(0.9 * m + 0.1)
        p.assign(p - m / (1 - b))
        b *= 0.9
        Tensor.realize(p, m, b)
    found = [p.item(), m.item(), b.item()]
    np.testing.assert_allclose(found, [-4.8637868, 0.6513216, 0.1743392], 1e-5)


def test_B063_disjoint_views_of_a_flat_buffer() -> None:
    big = Tensor.zeros(12)
    views = [big[i * 4 : (i + 1) * 4].reshape(2, 2) for i in range(3)]
    for k, x in enumerate(views):
        x.assign(x + k + 1)
    Tensor.realize(*views)
    assert big.tolist() == [1] * 4 + [2] * 4 + [3] * 4
    assert [view.tolist() for view in views] == [[[k, k], [k, k]] for k in (1, 2, 3)]


def test_B064_chained_caches() -> None:
    c = [Tensor.zeros(3) for _ in range(3)]
    c[0][0:1] = Tensor([10.0])
    s = c[0].sum(keepdim=True)
    c[1][1:2] = s
    u = c[1].sum(keepdim=True)
    c[2][2:3] = u
    assert c[2].sum().item() == 10 and c[1].sum().item() == 10


def test_B065_permuted_flipped_detached_and_chained_views() -> None:
    t = Tensor.zeros(2, 3)
    t.T[1, 0] = 5
    assert t.tolist() == [[0, 5, 0], [0, 0, 0]]
    t = Tensor.zeros(3)
    t[::-1][0] = 5
    assert t.tolist() == [0, 0, 5]
    t = Tensor.zeros(3, 3)
    t[1][2] = 5
    t.detach()[2, 2] = 6
    assert t.tolist() == [[0, 0, 0], [0, 0, 5], [0, 0, 6]]


def test_B066_part_of_a_result_that_is_not_computed_yet() -> None:
    c = Tensor([1, 2, 3, 4]) + Tensor([5, 6, 7, 8])
    c[:2] = Tensor([99, 99])
    assert c.tolist() == [99, 99, 10, 12]
    r = Tensor([[1, 2], [3, 4]]).sum(0)
    r[:1] = Tensor([99])
    assert r.tolist() == [99, 6]
    k = Tensor.full((2, 2), 5)
    k[:, 1:] = Tensor.ones(2, 1, dtype=dtypes.int32)
    assert k.tolist() == [[5, 1], [5, 1]]


def test_B067_equal_fresh_tensors() -> None:
    a, b = Tensor.zeros(4), Tensor.zeros(4)
    a.assign(Tensor.ones(4))
    a.realize()
    assert b.tolist() == [0, 0, 0, 0]


def test_B068_an_earlier_result_stays() -> None:
    x = Tensor.in_memory(3.0)
    y = x.log()
    x.assign(x.log())
    x.realize()
    np.testing.assert_allclose(y.item(), 1.0986123, 1e-6)


def test_B072_an_expression_into_a_reversed_slice() -> None:
    x = Tensor.arange(6.0)
    b = x.zeros_like()
    b[::-1] = 2.0 * x[::-1]
    assert b.tolist() == [0, 2, 4, 6, 8, 10]


def test_B073_a_new_axis_before_a_negative_index() -> None:
    a = Tensor.zeros(3, 4)
    a[None, -1] = 9
    assert a.tolist() == [[0] * 4, [0] * 4, [9] * 4]


def test_B074_slices_and_ints() -> None:
    a, b = Tensor.ones(2, 6, 6, 6), Tensor.zeros(3, 4, 4, 4)
    b[0, 0:4, 3, 0:4] = a[0, 1:5, 5, 1:5]
    assert b.sum().item() == 16
    c = Tensor.zeros(2, 3)
    c[..., 0] = 1
    assert c.tolist() == [[1, 0, 0], [1, 0, 0]]


@pytest.mark.parametrize("source", ["int8", "int64", "uint8", "float16", "float64", "bool"])
@pytest.mark.parametrize("target", ["int8", "int32", "float32", "bool"])
def test_values_of_other_dtypes_are_written_where_nothing_is_lost(source: str, target: str) -> None:
    x = Tensor([1, 0], dtype=getattr(dtypes, target))
    value = Tensor([1], dtype=getattr(dtypes, source))
    if can_cast_lossless(value.dtype, x.dtype):
        x[1:] = value
        assert x.tolist() == [1, 1]
    else:
        with pytest.raises(TypeError, match="without loss"):
            x[1:] = value
