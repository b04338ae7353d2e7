"""Convolutions against sums of shifted products; their gradients; how many kernels they are."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from loomgrad import GlobalCounters, Tensor, dtypes
from loomgrad.errors import ShapeError
from tests.tensor.checks import Array, check_gradient, close, dtype_is

Pair = tuple[int, int]
Geometry = tuple[Pair, int | tuple[int, ...], Pair, int, Pair]


def numbers(*shape: int, dtype: type = np.float64) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def convolved(
    x: Array, w: Array, stride: Pair, pads: tuple[Pair, Pair], dilation: Pair, groups: int = 1
) -> Array:
    """One shifted product for each place of the window."""
    x = np.pad(x, ((0, 0), (0, 0), *pads))
    kernel = w.shape[2:]
    counts = [
        (x.shape[2 + a] - dilation[a] * (kernel[a] - 1) - 1) // stride[a] + 1 for a in range(2)
    ]
    inner, outer = w.shape[1], w.shape[0] // groups
    result = np.zeros((x.shape[0], w.shape[0], *counts))
    for g, i, j in itertools.product(range(groups), range(kernel[0]), range(kernel[1])):
        rows = slice(i * dilation[0], i * dilation[0] + (counts[0] - 1) * stride[0] + 1, stride[0])
        columns = slice(
            j * dilation[1], j * dilation[1] + (counts[1] - 1) * stride[1] + 1, stride[1]
        )
        part = x[:, g * inner : (g + 1) * inner, rows, columns]
        weight = w[g * outer : (g + 1) * outer, :, i, j]
        result[:, g * outer : (g + 1) * outer] += np.einsum("nchw,oc->nohw", part, weight)
    return result


# fmt: off
GEOMETRIES: dict[str, Geometry] = {
    #                  stride  padding             dilation groups kernel
    "plain":           ((1, 1), 0,                 (1, 1),  1,     (3, 3)),
    "padded":          ((1, 1), 1,                 (1, 1),  1,     (3, 3)),
    "strided":         ((2, 2), 1,                 (1, 1),  1,     (3, 3)),
    "dilated":         ((1, 1), 2,                 (2, 2),  1,     (3, 3)),
    "all at once":     ((3, 2), (2, 1),            (2, 1),  2,     (2, 3)),
    "one by one":      ((1, 1), 0,                 (1, 1),  1,     (1, 1)),
    "strided 1x1":     ((2, 3), 0,                 (1, 1),  1,     (1, 1)),
    "depthwise":       ((1, 1), 1,                 (1, 1),  4,     (3, 3)),
    "uneven":          ((1, 1), (1, 0, 2, 1),      (1, 1),  1,     (2, 4)),
    "whole":           ((1, 1), 0,                 (1, 1),  1,     (6, 7)),
    "stride > kernel": ((4, 3), 0,                 (1, 1),  1,     (2, 2)),
}
# fmt: on


def pads_of(padding: int | tuple[int, ...]) -> tuple[Pair, Pair]:
    if isinstance(padding, int):
        return (padding, padding), (padding, padding)
    if len(padding) == 2:
        return (padding[0], padding[0]), (padding[1], padding[1])
    left, right, top, bottom = padding
    return (top, bottom), (left, right)


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_values(geometry: Geometry) -> None:
    stride, padding, dilation, groups, kernel = geometry
    x, w, b = numbers(2, 4, 6, 7), numbers(4, 4 // groups, *kernel), numbers(4)
    ours = Tensor(x).conv2d(Tensor(w), Tensor(b), stride, padding, dilation, groups)
    wanted = convolved(x, w, stride, pads_of(padding), dilation, groups)
    np.testing.assert_allclose(ours.numpy(), wanted + b.reshape(-1, 1, 1), 1e-12, 1e-12)


@pytest.mark.parametrize("name", ["padded", "all at once", "uneven", "strided 1x1"])
def test_gradients(name: str) -> None:
    """Against sums over the same products: the convolution is linear in each operand."""
    stride, padding, dilation, groups, kernel = GEOMETRIES[name]
    x, w = numbers(1, 4, 6, 7), numbers(4, 4 // groups, *kernel)
    pads = pads_of(padding)
    tensors = Tensor(x), Tensor(w)
    result = tensors[0].conv2d(tensors[1], None, stride, padding, dilation, groups)
    weights = numbers(*result.shape)
    slopes = result.gradient(*tensors, gradient=Tensor(weights))
    for slope, array in zip(slopes, (x, w), strict=True):
        wanted = np.zeros(array.size)
        for place in range(array.size):
            unit = np.zeros(array.size)
            unit[place] = 1
            units = unit.reshape(array.shape)
            first, second = (units, w) if array is x else (x, units)
            moved = convolved(first, second, stride, pads, dilation, groups)
            wanted[place] = (moved * weights).sum()
        np.testing.assert_allclose(slope.numpy(), wanted.reshape(array.shape), 1e-10, 1e-10)


def test_second_gradients() -> None:
    """Of a function that is not linear in the result."""
    w = Tensor(numbers(1, 1, 2, 2))

    def slope(x: Tensor) -> Tensor:
        return x.conv2d(w, stride=2, padding=1).tanh().sum().gradient(x)[0]

    check_gradient(slope, [numbers(1, 1, 3, 3)], 1e-5)


def test_same_and_valid_padding() -> None:
    x, w = Tensor(numbers(1, 2, 5, 6)), Tensor(numbers(3, 2, 2, 3))
    same = x.conv2d(w, padding="same")
    assert same.shape == (1, 3, 5, 6)
    uneven = x.conv2d(w, padding=(1, 1, 0, 1))
    np.testing.assert_array_equal(same.numpy(), uneven.numpy())
    assert x.conv2d(w, padding="valid").shape == (1, 3, 4, 4)


def test_one_and_three_axes() -> None:
    x, w = numbers(2, 3, 8), numbers(4, 3, 3)
    ours = Tensor(x).conv1d(Tensor(w), stride=2, padding=1).numpy()
    wide = convolved(x[:, :, None], w[:, :, None], (1, 2), ((0, 0), (1, 1)), (1, 1))
    np.testing.assert_allclose(ours, wide[:, :, 0], 1e-12, 1e-12)
    cube = Tensor(numbers(1, 2, 3, 4, 5)).conv2d(Tensor(numbers(2, 2, 2, 2, 2)), padding=(1, 0, 0))
    assert cube.shape == (1, 2, 4, 3, 4)
    plane = Tensor(numbers(1, 2, 3, 4, 5))[:, :, 0].conv2d(Tensor(numbers(2, 2, 2, 2, 2))[:, :, 1])
    np.testing.assert_allclose(cube[:, :, 0].numpy(), plane.numpy(), 1e-12, 1e-12)


@pytest.mark.parametrize(
    ("stride", "padding", "output_padding", "dilation", "groups"),
    [(1, 0, 0, 1, 1), (2, 1, 1, 1, 2), ((3, 2), (1, 2), (2, 0), (1, 2), 1)],
)
def test_transposed_is_the_gradient(
    stride: int | Pair,
    padding: int | Pair,
    output_padding: int | Pair,
    dilation: int | Pair,
    groups: int,
) -> None:
    y, w = Tensor(numbers(2, 4, 3, 4)), Tensor(numbers(4, 3, 3, 2))
    result = y.conv_transpose2d(w, None, stride, padding, output_padding, groups, dilation)
    x = Tensor.zeros(*result.shape, dtype=dtypes.float64)
    forward = x.conv2d(w, None, stride, padding, dilation, groups)
    assert forward.shape == y.shape
    wanted = forward.gradient(x, gradient=y)[0]
    np.testing.assert_allclose(result.numpy(), wanted.numpy(), 1e-12, 1e-12)


def test_dtypes_have_room() -> None:
    ones = Tensor.ones(1, 16, 5, 5, dtype=dtypes.uint8) * 200
    total = ones.conv2d(Tensor.ones(1, 16, 5, 5, dtype=dtypes.uint8) * 100)
    dtype_is(total, dtypes.uint32)
    assert total.item() == 400 * 20000
    half = Tensor.ones(1, 1, 65, 65, dtype=dtypes.float16).conv2d(
        Tensor.full((1, 1, 65, 65), 0.0625, dtypes.float16)
    )
    dtype_is(half, dtypes.float16)
    close(half.numpy(), np.full((1, 1, 1, 1), 4225 / 16), 1)


def test_B141_convolution_to_one_element() -> None:
    w, b = Tensor(numbers(1, 1, 4, 4)), Tensor([0.0])
    result = Tensor.ones(1, 1, 4, 4).conv2d(w.float(), b).reshape(1, 1, 1, 1).sum()
    slopes = result.gradient(w, b)
    assert (slopes[0].numpy() == 1).all() and slopes[1].tolist() == [1.0]


def kernels(compute: Callable[[], Tensor]) -> int:
    before = GlobalCounters.kernel_count
    compute().realize()
    return GlobalCounters.kernel_count - before


def test_each_pass_is_one_kernel() -> None:
    """The input is not unfolded, neither forward nor in gradients, whatever the stride."""
    for stride in (1, 2):
        x, w, b = (
            Tensor(numbers(*s, dtype=np.float32)) for s in ((2, 3, 8, 8), (4, 3, 3, 3), (4,))
        )
        result = x.conv2d(w, b, stride, 1)
        slopes = result.gradient(x, w, gradient=Tensor(numbers(*result.shape, dtype=np.float32)))
        assert kernels(lambda result=result: result.relu()) == 1  # type: ignore[misc]
        assert kernels(lambda slopes=slopes: slopes[0]) == 1  # type: ignore[misc]
        assert kernels(lambda slopes=slopes: slopes[1]) == 1  # type: ignore[misc]


IMAGE, WEIGHT = Tensor.ones(1, 4, 5, 5), Tensor.ones(2, 4, 3, 3)
# fmt: off
# ruff: noqa: E501
MISTAKES: tuple[tuple[Callable[[], object], str], ...] = (
    (lambda: IMAGE.conv2d(Tensor.ones(2, 3, 3, 3)),         r"4 channels in 1 groups do not fit a weight of shape \(2, 3, 3, 3\)"),
    (lambda: IMAGE.conv2d(WEIGHT, groups=3),                "4 channels in 3 groups"),
    (lambda: IMAGE[0].conv2d(WEIGHT),                       r"a convolution of shape \(4, 5, 5\)"),
    (lambda: IMAGE.conv2d(Tensor.ones(2, 4, 6, 3)),         r"windows of sizes \(6, 3\) do not fit into axes of sizes \(5, 5\)"),
    (lambda: IMAGE.conv2d(WEIGHT, Tensor.ones(3)),          r"a bias of shape \(3,\) for 2 channels"),
    (lambda: IMAGE.conv2d(WEIGHT, stride=0),                "must be at least 1"),
    (lambda: IMAGE.conv2d(WEIGHT, stride=(1, 2, 3)),        r"stride \(1, 2, 3\) names 3 axes, there are 2"),
    (lambda: IMAGE.conv2d(WEIGHT, padding=(1, 2, 3)),       r"padding \(1, 2, 3\) does not fit 2 axes"),
    (lambda: IMAGE.conv2d(WEIGHT, padding=-1),              "padding -1 is negative"),
    (lambda: IMAGE.conv2d(WEIGHT, padding="full"),          "padding 'full' with strides"),
    (lambda: IMAGE.conv2d(WEIGHT, padding="same", stride=2), "padding 'same' with strides"),
    (lambda: IMAGE.conv_transpose2d(WEIGHT),                "4 channels in 1 groups do not fit"),
)
# fmt: on


@pytest.mark.parametrize(("mistake", "text"), MISTAKES, ids=[text for _, text in MISTAKES])
def test_mistakes(mistake: Callable[[], object], text: str) -> None:
    with pytest.raises(ShapeError, match=text):
        mistake()
