"""Joining and taking apart, gathering, running sums: against NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from loomgrad import GlobalCounters, Tensor, dtypes
from loomgrad.errors import DTypeError, IndexingError, ShapeError
from tests.tensor.checks import Array, check_gradient, close, dtype_is

CUBE = np.arange(24.0).reshape(2, 3, 4) - 7.5
PLANE = np.arange(12.0).reshape(3, 4) - 5.5


def same(found: Tensor, wanted: Array) -> None:
    np.testing.assert_array_equal(found.numpy(), wanted)


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_cat(dim: int) -> None:
    parts = [np.take(CUBE, range(count), dim) + 100 * count for count in (1, 2, 0, 2)]
    wanted = np.concatenate(parts, dim)
    first, *rest = map(Tensor, parts)
    same(first.cat(*rest, dim=dim), wanted)
    same(Tensor.cat(first, *rest, dim=dim), wanted)


def test_cat_of_many_is_one_kernel_and_keeps_every_bit() -> None:
    data = np.array([[-0.0, np.nan, np.inf]] * 9, np.float32)
    parts = [Tensor(row.reshape(1, 3)) for row in data]
    joined = parts[0].cat(*parts[1:])
    before = GlobalCounters.kernel_count
    joined.realize()
    assert GlobalCounters.kernel_count == before + 1
    assert bytes(joined.data()) == data.tobytes()


def test_cat_has_the_dtype_that_holds_all() -> None:
    joined = Tensor([True]).cat(Tensor([2], dtype=dtypes.int8), Tensor([0.5]))
    dtype_is(joined, dtypes.float32)
    assert joined.tolist() == [1.0, 2.0, 0.5]
    dtype_is(Tensor([True]).cat(Tensor([False])), dtypes.bool)
    assert Tensor([]).cat(Tensor([])).shape == (0,)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_stack(dim: int) -> None:
    same(
        Tensor(PLANE).stack(Tensor(PLANE + 1), Tensor(-PLANE), dim=dim),
        np.stack([PLANE, PLANE + 1, -PLANE], dim),
    )
    assert Tensor(3).stack(Tensor(4)).tolist() == [3, 4]


def test_split_and_chunk() -> None:
    for parts, wanted in (
        (Tensor(CUBE).split(3, 2), np.split(CUBE, [3], 2)),
        (Tensor(CUBE).split([1, 0, 2], dim=1), np.split(CUBE, [1, 1], 1)),
        (Tensor(CUBE).chunk(2, dim=-1), np.split(CUBE, 2, 2)),
        (Tensor(CUBE).chunk(2, dim=1), np.split(CUBE, [2], 1)),
        (Tensor(CUBE).chunk(7), np.split(CUBE, 2)),
    ):
        assert len(parts) == len(wanted)
        for part, piece in zip(parts, wanted, strict=True):
            same(part, piece)


def test_repeat() -> None:
    same(Tensor(PLANE).repeat(2, 3), np.tile(PLANE, (2, 3)))
    same(Tensor(PLANE).repeat((2, 1, 3)), np.tile(PLANE, (2, 1, 3)))
    assert Tensor(PLANE).repeat(0, 2).shape == (0, 8)
    same(Tensor(PLANE).repeat_interleave(2, 1), np.repeat(PLANE, 2, 1))
    same(Tensor(PLANE).repeat_interleave(3), np.repeat(PLANE, 3))


def test_roll() -> None:
    for shifts, dims in ((1, 0), (-5, 1), ((2, 1), (0, 1)), (7, None), (0, 0)):
        same(Tensor(PLANE).roll(shifts, dims), np.roll(PLANE, shifts, dims))


def test_triangles() -> None:
    for diagonal in (-3, -1, 0, 1, 5):
        same(Tensor(CUBE).tril(diagonal), np.tril(CUBE, diagonal))
        same(Tensor(CUBE).triu(diagonal), np.triu(CUBE, diagonal))
    dtype_is(Tensor.ones(2, 2, dtype=dtypes.bool).tril(), dtypes.bool)
    same(Tensor([[np.inf, np.nan]] * 2).tril(), np.array([[np.inf, 0], [np.inf, np.nan]]))


def test_meshgrid() -> None:
    found = Tensor([1, 2]).meshgrid(Tensor([3, 4, 5]))
    for ours, theirs in zip(found, np.meshgrid([1, 2], [3, 4, 5], indexing="ij"), strict=True):
        same(ours, theirs)


def test_B125_small_shapes() -> None:
    assert Tensor.ones(3, 2).repeat_interleave(2, -1).shape == (3, 4)
    assert len(Tensor.arange(3).meshgrid()) == 1


def test_B122_nothing_in_ordinary_operations() -> None:
    assert Tensor.zeros(2, 0, 3).roll(1, 0).shape == (2, 0, 3)
    assert Tensor.zeros(2, 0, 3).roll(1, 1).tolist() == [[], []]
    assert Tensor.zeros(0).sum().item() == 0
    assert Tensor.ones(2, 0).tolist() == [[], []]
    assert Tensor.ones(0, 2).tolist() == []
    assert Tensor([], dtype=dtypes.int32).numpy().itemsize == 4
    assert Tensor.zeros(0, 3).cumsum(0).shape == (0, 3)


# ---- gathering


def test_gather() -> None:
    index = np.array([[[3, 0], [-1, 1]]], np.int64)
    same(Tensor(CUBE).gather(2, Tensor(index)), np.take_along_axis(CUBE[:1, :2], index, 2))
    rows = np.array([[2, 0, 1, 1], [0, 0, 0, 2]], np.int32)
    same(Tensor(PLANE).gather(0, Tensor(rows)), np.take_along_axis(PLANE, rows, 0))


def test_take_along_axis_broadcasts() -> None:
    index = np.array([[[3, 0, -2]]])
    same(
        Tensor(CUBE).take_along_axis(Tensor(index), 2),
        np.take_along_axis(CUBE, np.broadcast_to(index, (2, 3, 3)), 2),
    )
    places = CUBE.argmin(1, keepdims=True)
    same(Tensor(CUBE).take_along_axis(Tensor(places), 1), CUBE.min(1, keepdims=True))


def test_B116_gathers_keep_special_values() -> None:
    data = Tensor([np.inf, -np.inf, np.nan, 7.0])
    same(data[Tensor([3, 0, 2])], np.array([7.0, np.inf, np.nan]))
    same(
        data.reshape(1, 4)[:, :2].take_along_axis(Tensor([[1, 0, 1]]), 1),
        np.array([[-np.inf, np.inf, -np.inf]]),
    )


def test_B117_gather_along_a_negative_axis_and_by_a_longer_index() -> None:
    x = Tensor.arange(6).reshape(2, 3)
    assert x.gather(-1, Tensor([[2, 0], [1, 1]])).tolist() == [[2, 0], [4, 4]]
    assert Tensor([1.0, 2.0, 3.0]).gather(0, Tensor([2, 1, 0, 1, 2])).tolist() == [3, 2, 1, 2, 3]


def test_small_index_dtypes_name_large_axes() -> None:
    """Wrapping -1 and counting to the size happen in a dtype that holds the size."""
    data = np.arange(300)
    for dtype in (np.int8, np.uint8, np.uint32, np.uint64):
        index = np.array([0, 5, 255 if dtype != np.int8 else -1], dtype)
        same(Tensor(data)[Tensor(index)], data[index])
        same(Tensor(data).gather(0, Tensor(index)), data[index])


def test_masked_fill() -> None:
    mask = np.array([True, False, True, False])
    same(Tensor(PLANE).masked_fill(Tensor(mask), -np.inf), np.where(mask, -np.inf, PLANE))
    with pytest.raises(DTypeError, match="a mask must be of bools, not int32"):
        Tensor(PLANE).masked_fill(Tensor([1, 0, 1, 0]), 0)


# ---- running reductions


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_running(axis: int) -> None:
    x = CUBE / 4
    close(Tensor(x).cumsum(axis).numpy(), np.cumsum(x, axis), 16)
    close(Tensor(x).cumprod(axis).numpy(), np.cumprod(x, axis), 16)
    same(Tensor(x[:, ::-1].copy()).cummax(axis), np.maximum.accumulate(x[:, ::-1], axis))
    close(Tensor(x).logcumsumexp(axis).numpy(), np.logaddexp.accumulate(x, axis), 16)


def test_running_over_blocks() -> None:
    whole = np.arange(1, 301, dtype=np.int32)
    found = Tensor(whole).cumsum(0)
    same(found, np.cumsum(whole))
    dtype_is(found, dtypes.int32)
    rows = np.random.default_rng(1).standard_normal((2, 259))
    np.testing.assert_allclose(Tensor(rows).cumsum(1).numpy(), np.cumsum(rows, 1), 1e-9, 1e-12)
    same(Tensor(rows).cummax(1), np.maximum.accumulate(rows, 1))


def test_B089_running_sums_without_axes() -> None:
    x = Tensor(5.0)
    assert x.cumsum(0).item() == x.cumsum(-1).item() == x.cumprod(0).item() == 5
    with pytest.raises(IndexingError, match="axis 1 is out of range"):
        x.cumsum(1)


def test_B090_running_logsumexp_of_infinities() -> None:
    x = Tensor([-np.inf, 0.0, -np.inf, np.inf, 1.0])
    same(x.logcumsumexp(0), np.array([-np.inf, 0, 0, np.inf, np.inf]))
    assert Tensor.ones(4, 6).logsumexp(1, keepdim=True).shape == (4, 1)


# ---- gradients and mistakes

# fmt: off
GRADIENTS: dict[str, Callable[..., Tensor]] = {
    "cat":            lambda x: x.cat(x * 2, x[:, :1], dim=1),
    "stack":          lambda x: x.stack(x * x, dim=1),
    "split":          lambda x: x.split([1, 2], 1)[1] * x.chunk(3, 1)[0],
    "repeat":         lambda x: x.repeat(2, 1, 2).square(),
    "roll":           lambda x: x.roll(1, 1) * x,
    "tril":           lambda x: x.tril().exp(),
    "gather":         lambda x: x.gather(1, Tensor([[2, 0, 2, -1], [1, 1, 0, 0]])).square(),
    "take":           lambda x: x.take_along_axis(Tensor([[1], [2]]), 1).exp(),
    "points":         lambda x: x[[1, 0, 1], Tensor([2, 0, 2])].square(),
    "masked_fill":    lambda x: x.masked_fill(x.detach() > 0, 0.5).square(),
    "cumsum":         lambda x: x.cumsum(1).square(),
    "cumprod":        lambda x: x.cumprod(1),
    "cummax":         lambda x: x.cummax(1),
    "logcumsumexp":   lambda x: x.logcumsumexp(1),
}
X = Tensor(PLANE)
MISTAKES: tuple[tuple[Callable[[], object], str], ...] = (
    (lambda: X.cat(Tensor.ones(3, 3)),              r"cannot join shapes \(3, 4\) and \(3, 3\) along axis 0"),
    (lambda: X.cat(Tensor.ones(3)),                 r"cannot join shapes \(3, 4\) and \(3,\)"),
    (lambda: X.stack(Tensor.ones(4, 3)),            r"cannot stack shapes"),
    (lambda: X.split([1, 1]),                       r"sizes \(1, 1\) do not add up to 3"),
    (lambda: X.split(0),                            "cannot split into parts of size 0"),
    (lambda: X.chunk(0),                            "cannot split into 0 parts"),
    (lambda: X.repeat(2),                           r"repeat\(2,\) of shape \(3, 4\)"),
    (lambda: X.roll((1, 2), 0),                     "2 shifts for 1 axes"),
    (lambda: Tensor([1.0]).tril(),                  r"a triangle of shape \(1,\)"),
    (lambda: X.gather(1, Tensor([1])),              r"an index of shape \(1,\) cannot gather along axis 1 of \(3, 4\)"),
    (lambda: X.gather(1, Tensor([[1]] * 4)),        "cannot gather along axis 1"),
    (lambda: X.take_along_axis(Tensor([[1]] * 2)),  "do not broadcast"),
)
# fmt: on


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    check_gradient(GRADIENTS[name], [np.array([[0.7, -1.3, 0.4], [1.9, -0.2, 1.1]])])


@pytest.mark.parametrize(("mistake", "text"), MISTAKES, ids=[text for _, text in MISTAKES])
def test_mistakes(mistake: Callable[[], object], text: str) -> None:
    with pytest.raises(ShapeError, match=text):
        mistake()
