"""How Tensors are compared with NumPy: values, dtypes, gradients by finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loomgrad import Tensor
from loomgrad.dtype import DType, dtypes, numpy_dtype

Array = NDArray[Any]
FLOATS = (dtypes.float32, dtypes.float64)
SIGNED = (dtypes.int8, dtypes.int32, dtypes.int64)
UNSIGNED = (dtypes.uint8, dtypes.uint32)
INTS = SIGNED + UNSIGNED
BOOL = (dtypes.bool,)
NUMBERS = FLOATS + INTS


def close(found: Array, wanted: Array, tolerance: float) -> None:
    """Equal shapes, NaNs and infinities; else within `tolerance` units of the found dtype's precision."""
    assert found.shape == wanted.shape, f"shape {found.shape}, not {wanted.shape}"
    if found.dtype.kind != "f":
        np.testing.assert_array_equal(found, wanted)
        return
    info = np.finfo(found.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = wanted.astype(found.dtype)
    relative = tolerance * float(info.eps)
    np.testing.assert_allclose(found, rounded, relative, tolerance * float(info.tiny))


def dtype_is(tensor: Tensor, dtype: DType) -> None:
    """The dtype that is promised and the one that arrives."""
    assert tensor.dtype is dtype, f"{tensor.dtype}, not {dtype}"
    assert tensor.numpy().dtype == numpy_dtype(dtype)


def finite_differences(
    function: Callable[..., Tensor], arrays: Sequence[Array], weights: Array, step: float = 1e-6
) -> list[Array]:
    """The gradients of sum(weights * function(arrays)), by central differences in float64."""

    def value(changed: Sequence[Array]) -> float:
        # One compiled program serves all steps, as only the contents of its inputs differ.
        return float((function(*map(Tensor, changed)).numpy() * weights).sum())

    found = []
    for position, array in enumerate(arrays):
        slopes = np.zeros(array.size)
        for index in range(array.size):
            ends = []
            for sign in (1, -1):
                changed = array.copy().reshape(-1)
                changed[index] += sign * step
                moved = [*arrays[:position], changed.reshape(array.shape), *arrays[position + 1 :]]
                ends.append(value(moved))
            slopes[index] = (ends[0] - ends[1]) / (2 * step)
        found.append(slopes.reshape(array.shape))
    return found


def check_gradient(
    function: Callable[..., Tensor], arrays: Sequence[Array], tolerance: float = 1e-6
) -> None:
    """Gradients against finite differences, with weights that differ from element to element."""
    tensors = [Tensor(array) for array in arrays]
    result = function(*tensors)
    weights = np.cos(np.arange(result.numel(), dtype=np.float64)).reshape(result.shape) + 0.5
    slopes = result.gradient(*tensors, gradient=Tensor(weights))
    wanted = finite_differences(function, arrays, weights)
    for slope, expected in zip(slopes, wanted, strict=True):
        np.testing.assert_allclose(slope.numpy(), expected, tolerance, tolerance)


def check_second_gradient(function: Callable[..., Tensor], array: Array) -> None:
    """Gradients of gradients, by differences of gradients."""
    check_gradient(lambda x: function(x).sum().gradient(x)[0], [array], 1e-5)
