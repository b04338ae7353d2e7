"""Pooling against windows cut out one by one."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from loomgrad import GlobalCounters, Tensor, dtypes
from loomgrad.errors import ShapeError
from tests.tensor.checks import Array, check_gradient, dtype_is

Pair = tuple[int, int]
IMAGE = np.random.default_rng(5).standard_normal((2, 3, 7, 8))


def pooled(
    x: Array,
    how: Callable[[Array], float],
    kernel: Pair,
    stride: Pair,
    padding: Pair,
    dilation: Pair = (1, 1),
    fill: float = 0.0,
) -> Array:
    pads = ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2)
    x = np.pad(x, pads, constant_values=fill)
    spans = [dilation[a] * (kernel[a] - 1) + 1 for a in range(2)]
    counts = [(x.shape[2 + a] - spans[a]) // stride[a] + 1 for a in range(2)]
    result = np.empty((*x.shape[:2], *counts), x.dtype)
    for place in itertools.product(*map(range, result.shape)):
        n, c, i, j = place
        rows = slice(i * stride[0], i * stride[0] + spans[0], dilation[0])
        columns = slice(j * stride[1], j * stride[1] + spans[1], dilation[1])
        result[place] = how(x[n, c, rows, columns])
    return result


# fmt: off
GEOMETRIES = {
    #               kernel  stride  padding dilation
    "tiles":        ((2, 2), (2, 2), (0, 0), (1, 1)),
    "uneven tiles": ((3, 2), (3, 2), (0, 0), (1, 1)),
    "overlapping":  ((3, 3), (1, 1), (0, 0), (1, 1)),
    "padded":       ((3, 3), (2, 2), (1, 1), (1, 1)),
    "dilated":      ((2, 3), (1, 2), (1, 0), (2, 2)),
    "gaps":         ((1, 2), (5, 3), (0, 1), (1, 1)),
}
# fmt: on


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_max(geometry: tuple[Pair, Pair, Pair, Pair]) -> None:
    kernel, stride, padding, dilation = geometry
    ours = Tensor(IMAGE).max_pool2d(kernel, stride, padding, dilation).numpy()
    wanted = pooled(IMAGE, np.max, kernel, stride, padding, dilation, -np.inf)
    np.testing.assert_array_equal(ours, wanted)


@pytest.mark.parametrize("name", [name for name in GEOMETRIES if name != "dilated"])
def test_average(name: str) -> None:
    kernel, stride, padding, _ = GEOMETRIES[name]
    ours = Tensor(IMAGE).avg_pool2d(kernel, stride, padding).numpy()
    wanted = pooled(IMAGE, np.mean, kernel, stride, padding)
    np.testing.assert_allclose(ours, wanted, 1e-12, 1e-12)
    inside = Tensor(IMAGE).avg_pool2d(kernel, stride, padding, count_include_pad=False).numpy()
    wanted = pooled(IMAGE, np.nanmean, kernel, stride, padding, fill=np.nan)
    np.testing.assert_allclose(inside, wanted, 1e-12, 1e-12)


@pytest.mark.parametrize("name", ["tiles", "padded", "dilated"])
def test_gradients(name: str) -> None:
    kernel, stride, padding, dilation = GEOMETRIES[name]
    image = IMAGE[:1, :1, :5, :5]
    check_gradient(lambda x: x.max_pool2d(kernel, stride, padding, dilation), [image])
    check_gradient(lambda x: x.avg_pool2d(kernel, stride, padding), [image])


def test_ties_share_and_what_is_not_chosen_gets_nothing() -> None:
    x = Tensor([[[1.0, 1.0, 0.0], [0.0, 1.0, -np.inf], [0.0, 0.0, -np.inf]]])
    slope = x.max_pool2d(2, 1).sum().gradient(x)[0]
    third = 1 / 3
    wanted: list[list[list[float]]] = [
        [[third, third + 0.5, 0], [0, third + 0.5 + 2, 0], [0, 0, 0]]
    ]
    np.testing.assert_allclose(slope.numpy(), wanted, 1e-6)


def test_integers_keep_their_dtype() -> None:
    data = np.array([[-5, -7], [-6, -8]], np.int8)
    greatest = Tensor(data).max_pool2d(2, 1, 1)
    dtype_is(greatest, dtypes.int8)
    assert greatest.tolist() == [[-5, -5, -7], [-5, -5, -7], [-6, -6, -8]]
    dtype_is(Tensor(data).avg_pool2d(2), dtypes.float32)
    assert Tensor(data).avg_pool2d(2).tolist() == [[-6.5]]


def test_other_axes_stay() -> None:
    assert Tensor(IMAGE).max_pool1d(2).shape == (2, 3, 7, 4)
    assert Tensor(IMAGE[0, 0]).max_pool2d().shape == (3, 4)


def test_B140_average_pooling_with_a_clipped_last_window() -> None:
    x = Tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    result = x.avg_pool1d(3, 2, ceil_mode=True)
    np.testing.assert_allclose(result.numpy(), [2.0, 3.5], 1e-6)
    slope = result.sum().gradient(x)[0]
    np.testing.assert_allclose(slope.numpy(), [1 / 3, 1 / 3, 1 / 3 + 1 / 2, 1 / 2], 1e-6)


def test_B169_ceil_mode_makes_no_window_beyond_the_input() -> None:
    x = Tensor(IMAGE[:, :, :6, :7])
    result = x.max_pool2d(1, 2, ceil_mode=True)
    assert result.shape == (2, 3, 3, 4)
    np.testing.assert_array_equal(result.numpy(), IMAGE[:, :, :6:2, :7:2])
    clipped = x.max_pool2d(2, 2, ceil_mode=True).numpy()
    np.testing.assert_array_equal(
        clipped[:, :, :, 3], IMAGE[:, :, :6, 6].reshape(2, 3, 3, 2).max(3)
    )


def test_B170_strides_larger_than_the_window() -> None:
    result = Tensor.ones(1, 1, 8, 8).avg_pool2d((1, 2), (5, 1), (0, 1))
    assert result.shape == (1, 1, 2, 9)
    np.testing.assert_array_equal(result.numpy()[0, 0], [[0.5, *[1] * 7, 0.5]] * 2)


def test_pooling_is_one_kernel() -> None:
    x = Tensor(IMAGE.astype(np.float32))
    for result in (x.max_pool2d(2), x.max_pool2d(3, 2, 1), x.avg_pool2d(3, 1, 1)):
        before = GlobalCounters.kernel_count
        result.realize()
        assert GlobalCounters.kernel_count == before + 1


def test_mistakes() -> None:
    with pytest.raises(ShapeError, match=r"pooling over 2 axes of shape \(3,\)"):
        Tensor([1.0, 2.0, 3.0]).max_pool2d()
    with pytest.raises(ShapeError, match="do not fit into axes"):
        Tensor(IMAGE).max_pool2d(9)
