"""Reads by lists, arrays, masks and several index tensors: NumPy's rules."""

from __future__ import annotations

import numpy as np
import pytest

from loomgrad import Tensor, dtypes
from loomgrad.errors import DTypeError, IndexingError, UnsupportedError
from tests.tensor.checks import Array

CUBE = np.arange(120).reshape(2, 3, 4, 5)
I, J = np.array([[1, 0], [-1, 1]]), np.array([2, 0])
WHOLE = slice(None)

# fmt: off
KEYS = {
    "list":              ([1, 0, 1],),
    "nested list":       ([[1, 0], [0, 0]],),
    "array":             (I,),
    "two neighbours":    (WHOLE, J, J),
    "two apart":         (WHOLE, J, WHOLE, J),
    "two broadcast":     (I, J),
    "three":             (J - 1, WHOLE, I, J),
    "int beside":        (0, J),
    "int apart":         (0, WHOLE, J),
    "int at the end":    (WHOLE, J, WHOLE, 1),
    "int behind":        (..., J, 3),
    "new axis between":  (WHOLE, J, None, J),
    "new axis in front": (None, J - 1, J),
    "slices around":     (WHOLE, slice(1, None), J, slice(None, None, -2)),
    "steps":             (slice(None, None, -1), J, J, slice(1, 5, 2)),
    "a range":           (range(2),),
    "a tuple":           ((1, 1), (0, 2)),
    "nothing":           ([],),
    "mask":              (np.array([True, False]),),
    "mask in a list":    (WHOLE, [True, False, True]),
    "mask of two axes":  (np.array([[True, False, True], [False, False, True]]), J[:, None]),
    "mask apart":        (np.array([False, True]), WHOLE, WHOLE, J[:1]),
    "no axes":           (np.array(1), J),
}
# fmt: on


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_concrete_indices(key: tuple[object, ...]) -> None:
    theirs = tuple(list(part) if isinstance(part, range) else part for part in key)
    np.testing.assert_array_equal(Tensor(CUBE)[key].numpy(), CUBE[theirs])  # type: ignore[index]


@pytest.mark.parametrize("name", [name for name in KEYS if "mask" not in name])
def test_tensors_of_indices(name: str) -> None:
    def ours(part: object) -> object:
        return Tensor(part) if isinstance(part, np.ndarray) else part

    key = KEYS[name]
    theirs = tuple(list(part) if isinstance(part, range) else part for part in key)
    found = Tensor(CUBE)[tuple(map(ours, key))]
    np.testing.assert_array_equal(found.numpy(), CUBE[theirs])  # type: ignore[index]


def test_of_a_view() -> None:
    turned = Tensor(CUBE).permute(3, 1, 0, 2)
    wanted: Array = CUBE.transpose(3, 1, 0, 2)
    np.testing.assert_array_equal(turned[J, :, [1, 0]].numpy(), wanted[J, :, [1, 0]])
    doubled = (Tensor(CUBE) * 2)[:, J, J]
    np.testing.assert_array_equal(doubled.numpy(), (CUBE * 2)[:, J, J])


def test_gradients_add_up() -> None:
    x = Tensor(np.zeros((2, 3)))
    slope = x[[0, 1, 0], Tensor([2, 0, -1])].sum().gradient(x)[0]
    np.testing.assert_array_equal(slope.numpy(), [[0, 0, 2], [1, 0, 0]])
    slope = x[:, [0, 0]].sum().gradient(x)[0]
    np.testing.assert_array_equal(slope.numpy(), [[2, 0, 0]] * 2)


def test_B113_an_element_beyond_two_to_the_31() -> None:
    big = Tensor([1], dtype=dtypes.uint8).expand(2**31 + 3)
    assert big[Tensor([0, 2**31 + 2], dtype=dtypes.int64)].tolist() == [1, 1]


def test_B118_indices_out_of_range() -> None:
    """Concrete ones are errors, those in tensors select 0."""
    data = Tensor.arange(4.0)
    for wrong in (4, -5, [1, 9], np.array([0, -5])):
        with pytest.raises(IndexingError, match="is out of range for axis 0 of size 4"):
            data[wrong]
    assert data[Tensor([1, 9, -5])].tolist() == [1, 0, 0]
    assert data.reshape(2, 2)[Tensor([1, 2]), Tensor([1, 0])].tolist() == [3, 0]


def test_B121_new_axes_and_ellipsis_with_integers() -> None:
    data = np.arange(24).reshape(2, 3, 4)
    for key in (
        (None,),
        (None, 1),
        (..., 2),
        (0, ..., 1),
        (None, ..., None, 3),
        (1, None, slice(None, None, -1)),
    ):
        np.testing.assert_array_equal(Tensor(data)[key].numpy(), data[key])


def test_mistakes() -> None:
    x = Tensor(CUBE)
    with pytest.raises(UnsupportedError, match="how many elements a mask chooses"):
        x[x > 3]
    with pytest.raises(
        IndexingError, match=r"index tensors of shapes \(2,\) and \(3,\) do not broadcast"
    ):
        x[[0, 1], [0, 1, 2]]
    with pytest.raises(
        IndexingError, match=r"a mask of shape \(3,\) cannot choose from axes of shape \(2,\)"
    ):
        x[[True, False, True]]
    with pytest.raises(IndexingError, match="5 indices for a tensor of 4 axes"):
        x[J, J, J, J, J]
    with pytest.raises(DTypeError, match="must have an integer dtype"):
        x[[0.5, 1.0]]
