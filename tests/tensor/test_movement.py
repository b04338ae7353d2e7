"""Movement and indexing against NumPy: random chains, and the corners by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loomgrad import Tensor
from loomgrad.errors import DTypeError, IndexingError, ShapeError, UnsupportedError
from tests.tensor.checks import Array

CUBE = np.arange(24).reshape(2, 3, 4)
Step = tuple[Callable[[Tensor], Tensor], Callable[[Array], Array]]


@st.composite
def reshapes(draw: st.DrawFn, shape: tuple[int, ...]) -> Step:
    sizes: list[int] = []
    rest = int(np.prod(shape))
    while rest > 1 and len(sizes) < 4:
        divisors = [d for d in range(1, rest + 1) if rest % d == 0]
        sizes.append(draw(st.sampled_from(divisors)))
        rest //= sizes[-1]
    target = (*sizes, rest)
    return lambda x: x.reshape(target), lambda a: a.reshape(target)


@st.composite
def permutes(draw: st.DrawFn, shape: tuple[int, ...]) -> Step:
    order = tuple(draw(st.permutations(range(len(shape)))))
    return lambda x: x.permute(order), lambda a: a.transpose(order)


@st.composite
def flips(draw: st.DrawFn, shape: tuple[int, ...]) -> Step:
    axes = tuple(a for a in range(len(shape)) if draw(st.booleans()))
    return lambda x: x.flip(axes), lambda a: np.flip(a, axes)


@st.composite
def pads(draw: st.DrawFn, shape: tuple[int, ...]) -> Step:
    pairs = [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in shape]
    return lambda x: x.pad(pairs), lambda a: np.pad(a, pairs) if pairs else a


@st.composite
def slices(draw: st.DrawFn, shape: tuple[int, ...]) -> Step:
    steps = st.sampled_from([-2, -1, 1, 2, 3])
    key = tuple(draw(st.slices(size)) if size else slice(None) for size in shape)
    key = tuple(slice(s.start, s.stop, draw(steps)) for s in key)
    return lambda x: x[key], lambda a: a[key]


@st.composite
def expands(draw: st.DrawFn, shape: tuple[int, ...]) -> Step:
    target = tuple(draw(st.integers(1, 3)) if size == 1 else size for size in shape)
    lead = (draw(st.integers(1, 2)),) if len(shape) < 4 else ()
    return lambda x: x.expand(lead + target), lambda a: np.broadcast_to(a, lead + target)


MOVES = (reshapes, permutes, flips, pads, slices, expands)


@settings(max_examples=150)
@given(st.data())
def test_random_chains(data: st.DataObject) -> None:
    """Any chain of movements, then arithmetic, gives what NumPy gives."""
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3), label="shape"))
    array = np.arange(1, int(np.prod(shape)) + 1, dtype=np.int32).reshape(shape)
    tensor, wanted = Tensor(array), array
    for kind in data.draw(st.lists(st.sampled_from(MOVES), max_size=6), label="moves"):
        ours, theirs = data.draw(kind(wanted.shape))
        tensor, wanted = ours(tensor), theirs(wanted)
        assert tensor.shape == wanted.shape
        if wanted.size > 2000:
            break
    np.testing.assert_array_equal((tensor * 2 + 1).numpy(), wanted * 2 + 1)


@settings(max_examples=60)
@given(st.data())
def test_gradients_of_random_chains(data: st.DataObject) -> None:
    """A movement is linear: its gradient moves the weights back, adding up where it repeats."""
    array = np.arange(1, 13, dtype=np.float64).reshape(3, 1, 4)
    tensor = moved = Tensor(array)
    wanted = array
    places = np.arange(1, 13).reshape(array.shape)  # which element stands where; 0 is padding
    for kind in data.draw(st.lists(st.sampled_from(MOVES), max_size=4), label="moves"):
        ours, theirs = data.draw(kind(wanted.shape))
        moved, wanted, places = ours(moved), theirs(wanted), theirs(places)
        if wanted.size > 1000:
            break
    weights = np.arange(wanted.size, dtype=np.float64).reshape(wanted.shape)
    slope = moved.gradient(tensor, gradient=Tensor(weights))[0].numpy()
    counted = np.bincount(places.reshape(-1), weights.reshape(-1), 13)[1:]
    np.testing.assert_allclose(slope, counted.reshape(array.shape))


KEYS = (
    *((None,), (None, 1), (Ellipsis, 2), (0, Ellipsis, 1), (None, Ellipsis, None, 3)),
    *((1, None, slice(None, None, -1)), (-1, -1, -1), (slice(None, None, 2), slice(5, 0, -2))),
    *((slice(1, 1),), (slice(-2, None), slice(None), slice(None, None, 3)), (), (Ellipsis,)),
    *((np.int64(1), slice(0, 10)), (slice(None, None, -1), slice(None), slice(None, None, -3))),
)


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_basic_indexing(key: tuple[object, ...]) -> None:
    np.testing.assert_array_equal(Tensor(CUBE)[key].numpy(), CUBE[key])  # type: ignore[index]


def test_negative_steps_reach_the_first_element() -> None:
    np.testing.assert_array_equal(
        Tensor(CUBE)[::-1, 2::-1, 3:0:-2].numpy(), CUBE[::-1, 2::-1, 3:0:-2]
    )


def test_a_tensor_of_ints_gathers() -> None:
    picks = np.array([[1, 0], [-1, 1]], np.int32)
    cube = Tensor(CUBE)
    np.testing.assert_array_equal(cube[Tensor(picks)].numpy(), CUBE[picks])
    np.testing.assert_array_equal(cube[:, Tensor(picks)].numpy(), CUBE[:, picks])
    np.testing.assert_array_equal(cube[..., Tensor([3, 0, 0])].numpy(), CUBE[..., [3, 0, 0]])
    np.testing.assert_array_equal(cube[0, Tensor([2, 1])].numpy(), CUBE[0, [2, 1]])


def test_a_gather_keeps_special_values_and_reads_0_outside() -> None:
    data = np.array([np.inf, -np.inf, np.nan, 7.0], np.float32)
    found = Tensor(data)[Tensor([3, 0, 2, 4, -5])].numpy()
    np.testing.assert_array_equal(found, np.array([7, np.inf, np.nan, 0, 0], np.float32))


def test_a_gathers_gradient_adds_up() -> None:
    table = Tensor(np.ones((3, 2)))
    slope = table[Tensor([2, 0, 2])].sum().gradient(table)[0]
    np.testing.assert_array_equal(slope.numpy(), [[1, 1], [0, 0], [2, 2]])
    square = Tensor(np.ones((2, 3)))
    slope = (square[:, Tensor([[1, 1]])] * 2).sum().gradient(square)[0]
    np.testing.assert_array_equal(slope.numpy(), [[0, 4, 0], [0, 4, 0]])


def test_names_of_movements() -> None:
    x = Tensor(CUBE)
    assert x.view(6, 4).shape == (6, 4)
    assert x.flatten().shape == (24,)
    assert x.flatten(1).shape == (2, 12)
    assert Tensor(1).flatten().shape == (1,)
    assert x.unsqueeze(-1).shape == (2, 3, 4, 1)
    assert x.unsqueeze(0).squeeze(0).shape == x.unsqueeze(1).squeeze().shape == (2, 3, 4)
    assert x.squeeze(0).shape == x.shape
    assert x.T.shape == (2, 4, 3)
    assert x.transpose(0, 2).shape == (4, 3, 2)
    assert Tensor([1, 2]).T.shape == (2,)
    assert Tensor([[1], [2]]).expand_as(Tensor([[1, 2, 3]] * 2)).shape == (2, 3)
    one, other = Tensor([1, 2]).broadcasted(Tensor([[1], [2], [3]]))
    assert one.shape == other.shape == (3, 2)


def test_iteration_goes_over_the_first_axis() -> None:
    rows = list(Tensor(CUBE))
    assert len(rows) == len(Tensor(CUBE)) == 2
    np.testing.assert_array_equal(rows[1].numpy(), CUBE[1])


MISTAKES = (
    (lambda x: x[2], IndexingError, "index 2 is out of range for axis 0 of size 2"),
    (lambda x: x[0, 0, 0, 0], IndexingError, "4 indices for a tensor of 3 axes"),
    (lambda x: x["a"], IndexingError, "an index of type str"),
    (lambda x: x[True], IndexingError, "an index of type bool"),
    (lambda x: x[::0], IndexingError, "the step of a slice is 0"),
    (lambda x: x[Tensor([0.5])], DTypeError, "must have an integer dtype, not float32"),
    (lambda x: x[x > 3], UnsupportedError, "how many elements a mask chooses is not known"),
    (
        lambda x: x.reshape(5, 5),
        ShapeError,
        r"cannot reshape \(2, 3, 4\) \(24 elements\) to \(5, 5\)",
    ),
    (lambda x: x.permute(0, 0, 1), ShapeError, "must name each axis"),
    (lambda x: x.expand(3, 3, 4), ShapeError, r"cannot expand \(2, 3, 4\) to \(3, 3, 4\)"),
    (lambda x: x.flip(3), IndexingError, "axis 3 is out of range"),
    (lambda x: x + Tensor([1, 2]), ShapeError, r"\(2, 3, 4\) and \(2,\) does not broadcast"),
    (lambda x: len(x.sum()), IndexingError, "without axes has no length"),
    (lambda x: list(x.sum()), IndexingError, "without axes has no items"),
)


@pytest.mark.parametrize(("mistake", "error", "text"), MISTAKES)
def test_mistakes(mistake: Callable[[Tensor], object], error: type[Exception], text: str) -> None:
    """Raised at the user's line, with the shapes."""
    with pytest.raises(error, match=text) as caught:
        mistake(Tensor(CUBE))
    assert "test_movement.py" in str(caught.value)
