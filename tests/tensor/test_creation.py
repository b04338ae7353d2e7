"""Making Tensors: dtypes, shapes, what does not fit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from loomgrad import Tensor, dtypes
from loomgrad.dtype import DType
from loomgrad.errors import DeviceError, DTypeError, ShapeError
from tests.tensor.checks import dtype_is

# fmt: off
PYTHON_DATA: tuple[tuple[object, DType, tuple[int, ...]], ...] = (
    (3,                          dtypes.int32,   ()),
    (3.5,                        dtypes.float32, ()),
    (True,                       dtypes.bool,    ()),
    ([1, 2, 3],                  dtypes.int32,   (3,)),
    ([1, 2.5],                   dtypes.float32, (2,)),
    ([True, False],              dtypes.bool,    (2,)),
    ([True, 2],                  dtypes.int32,   (2,)),
    ([[1.0], [2.0]],             dtypes.float32, (2, 1)),
    ([],                         dtypes.float32, (0,)),
    ([[], []],                   dtypes.float32, (2, 0)),
    ((1, (2)),                   dtypes.int32,   (2,)),
    (b"\x01\xff",                dtypes.uint8,   (2,)),
    ([np.float32(1.5), 2],       dtypes.float32, (2,)),
)
# fmt: on


@pytest.mark.parametrize(("data", "dtype", "shape"), PYTHON_DATA, ids=repr)
def test_python_data(data: object, dtype: DType, shape: tuple[int, ...]) -> None:
    tensor = Tensor(data)
    assert tensor.shape == shape
    dtype_is(tensor, dtype)
    wanted = list(data) if isinstance(data, bytes) else data
    np.testing.assert_array_equal(tensor.numpy(), np.array(wanted).reshape(shape))


@pytest.mark.parametrize("dtype", dtypes.ints + (dtypes.bool, dtypes.float32, dtypes.float64))
def test_every_dtype_goes_in_and_out(dtype: DType) -> None:
    ends = [dtype.min, dtype.max] if not dtype.is_float else [-1.5, 2.5]
    tensor = Tensor(ends, dtype=dtype)
    dtype_is(tensor, dtype)
    assert tensor.tolist() == ends
    again = Tensor(tensor.numpy())
    assert again.dtype is dtype and again.tolist() == ends


def test_short_floats_round_to_nearest_even() -> None:
    half = Tensor([65504.0, 65519.9, 65520.0, 1 / 3, -math.inf], dtype=dtypes.float16)
    assert half.dtype is dtypes.float16
    assert half.tolist() == [65504.0, 65504.0, math.inf, 0.333251953125, -math.inf]
    assert Tensor([1e40, 1e-46, 16777217]).tolist() == [math.inf, 0.0, 16777216.0]


def test_numpy_arrays_are_copied_with_their_dtype() -> None:
    array = np.arange(6, dtype=np.int64).reshape(2, 3)
    tensor = Tensor(array)
    array[:] = 0
    assert tensor.dtype is dtypes.int64
    assert tensor.tolist() == [[0, 1, 2], [3, 4, 5]]
    swapped = np.array([1.5, -2.0], dtype=">f8")
    assert Tensor(swapped).tolist() == [1.5, -2.0]
    strided = np.arange(12.0).reshape(3, 4)[::2, ::-1]
    np.testing.assert_array_equal(Tensor(strided).numpy(), strided)
    assert Tensor(np.float32(2.5)).item() == 2.5
    assert Tensor(np.array([300, -1]), dtype=dtypes.uint8).tolist() == [44, 255]
    assert Tensor.from_numpy(swapped).shape == (2,)


def test_a_tensor_of_a_tensor_has_its_value() -> None:
    x = Tensor([1.0, 2.0])
    assert Tensor(x).tolist() == [1.0, 2.0]
    assert Tensor(x, dtype=dtypes.int32).tolist() == [1, 2]


def test_constants() -> None:
    assert Tensor.zeros(2, 3).tolist() == [[0.0] * 3] * 2
    assert Tensor.ones((2,), dtype=dtypes.int8).tolist() == [1, 1]
    assert Tensor.full((2, 1), 7).tolist() == [[7], [7]]
    assert Tensor.full((), 2.5).item() == 2.5
    dtype_is(Tensor.full((2,), 7), dtypes.int32)
    dtype_is(Tensor.full((2,), True), dtypes.bool)
    dtype_is(Tensor.zeros(1), dtypes.float32)
    x = Tensor([[1, 2]])
    assert x.zeros_like().tolist() == [[0, 0]]
    assert x.ones_like(dtypes.float32).tolist() == [[1.0, 1.0]]
    assert x.full_like(-3).tolist() == [[-3, -3]]
    dtype_is(x.full_like(-3), dtypes.int32)
    assert Tensor.empty(2, 3, dtype=dtypes.int64).numpy().shape == (2, 3)
    assert Tensor.in_memory(2.5).item() == 2.5
    assert Tensor.in_memory(1, dtypes.int8, shape=(2, 2)).tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize(
    "arguments",
    [(5,), (0,), (2, 9), (9, 2, -3), (-3, 3, 2), (200,), (1000, 0, -7), (3, 3), (5, 0)],
    ids=str,
)
def test_arange_counts_like_numpy(arguments: tuple[int, ...]) -> None:
    counted = Tensor.arange(*arguments)
    dtype_is(counted, dtypes.int32)
    np.testing.assert_array_equal(counted.numpy(), np.arange(*arguments))


def test_arange_of_floats_rounds_once() -> None:
    np.testing.assert_array_equal(
        Tensor.arange(0, 1, 0.1).numpy(), np.arange(0, 1, 0.1).astype(np.float32)
    )
    dtype_is(Tensor.arange(3.0), dtypes.float32)
    dtype_is(Tensor.arange(3, dtype=dtypes.float64), dtypes.float64)
    assert Tensor.arange(3, dtype=dtypes.uint8).tolist() == [0, 1, 2]
    wide = Tensor.arange(2**40, 2**40 + 3)
    assert wide.dtype is dtypes.int64 and wide.tolist() == [2**40, 2**40 + 1, 2**40 + 2]


def test_other_counts() -> None:
    np.testing.assert_array_equal(
        Tensor.linspace(-1, 1, 7).numpy(), np.linspace(-1, 1, 7).astype(np.float32)
    )
    assert Tensor.linspace(3, 4, 1).tolist() == [3.0]
    np.testing.assert_array_equal(Tensor.eye(3).numpy(), np.eye(3))
    np.testing.assert_array_equal(Tensor.eye(2, 4).numpy(), np.eye(2, 4))


def test_ints_that_do_not_fit_are_refused() -> None:
    with pytest.raises(OverflowError, match="8589934592 does not fit int32"):
        Tensor([2**33])
    with pytest.raises(OverflowError, match="-1 does not fit uint32, which holds 0 to 4294967295"):
        Tensor([-1], dtype=dtypes.uint32)
    with pytest.raises(OverflowError, match="does not fit int8"):
        Tensor.full((2,), 200, dtypes.int8)
    with pytest.raises(OverflowError, match=r"200 does not fit dtypes.int8"):
        Tensor([1], dtype=dtypes.int8) + 200
    assert Tensor([2**33], dtype=dtypes.int64).tolist() == [2**33]


def test_mistakes() -> None:
    with pytest.raises(ShapeError, match=r"nested lists of lengths \[1, 2\]") as caught:
        Tensor([[1], [2, 3]])
    assert "test_creation.py" in str(caught.value)
    with pytest.raises(DTypeError, match="cannot hold a str"):
        Tensor(["a"])
    with pytest.raises(DTypeError, match="cannot hold a list"):
        Tensor([1, [2]])
    with pytest.raises(ShapeError, match="negative sizes"):
        Tensor.zeros(2, -1)
    with pytest.raises(ShapeError, match=r"shape \(3,\) cannot fill \(2,\)"):
        Tensor.in_memory([1, 2, 3], shape=(2,))
    with pytest.raises(ShapeError, match="never ends"):
        Tensor.arange(0, 5, 0)
    with pytest.raises(DeviceError, match="there is no device TOASTER"):
        Tensor([1.0], device="TOASTER").numpy()
