"""Tensors among NumPy's arrays and Python's values, and dtypes by other names."""

from __future__ import annotations

import operator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from loomgrad import Tensor, dtypes
from loomgrad.dtype import DType, dtype_argument
from loomgrad.errors import ArgumentError, DTypeError, ShapeError

X: Any = Tensor([[1.0, 2.0], [3.0, 4.0]])
A = np.array([[1, 3], [2, 4]], np.float32)

# fmt: off
OPERATORS = (
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
    operator.matmul, operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
)
BITS = (operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift)
# fmt: on


def agrees(found: object, wanted: np.ndarray[Any, Any]) -> None:
    assert isinstance(found, Tensor)
    assert found.numpy().dtype == wanted.dtype
    np.testing.assert_allclose(found.numpy(), wanted, 1e-6)


@pytest.mark.parametrize("function", OPERATORS)
def test_arrays_are_operands_on_both_sides(function: Any) -> None:
    agrees(function(X, A), function(X.numpy(), A))
    agrees(function(A, X), function(A, X.numpy()))


@pytest.mark.parametrize("function", BITS)
def test_bits_beside_arrays(function: Any) -> None:
    x, a = np.array([1, 6, 5], np.int32), np.array([3, 1, 2], np.int32)
    agrees(function(Tensor(x), a), function(x, a))
    agrees(function(a, Tensor(x)), function(a, x))


def test_a_number_shifted_by_a_tensor() -> None:
    shift: Any = Tensor([1, 2])
    assert (2 << shift).tolist() == [4, 8] and (8 >> shift).tolist() == [4, 2]
    assert (2 << shift).dtype is dtypes.int32


@pytest.mark.parametrize("scalar", [np.float32(2), np.float64(2), np.int8(2), np.bool_(True)])
def test_scalars_keep_their_dtype(scalar: Any) -> None:
    """Also float64, which is a subclass of Python's float."""
    half = Tensor([1.5], dtype=dtypes.float16)
    wanted = (half + Tensor(scalar)).dtype
    assert (half + scalar).dtype is (scalar + half).dtype is wanted
    assert (half * scalar).tolist() == [1.5 * float(scalar)]


def test_arrays_in_functions() -> None:
    agrees(X.maximum(A), np.maximum(X.numpy(), A))
    agrees(X.minimum(A), np.minimum(X.numpy(), A))
    agrees((X > 2).where(A, 0), np.where(X.numpy() > 2, A, 0).astype(np.float32))
    agrees((X > 2).where(0, A), np.where(X.numpy() > 2, 0, A).astype(np.float32))
    agrees(X.linear(A, A[0]), X.numpy() @ A + A[0])
    assert 3 in X and 5 not in X


def test_asarray_shares_and_array_copies() -> None:
    shared, copied = np.asarray(X), np.array(X)
    assert shared.dtype == copied.dtype == np.float32
    assert not shared.flags.writeable and copied.flags.writeable
    assert np.asarray(X, np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="copy"):
        np.array(X, dtype=np.float64, copy=False)
    assert np.array([X.sum(), X.max()]).tolist() == [10, 4]


def test_a_ufunc_does_not_make_an_array_of_objects() -> None:
    with pytest.raises(TypeError, match="does not support ufuncs"):
        np.sin(X)
    assert np.sin(X.numpy()).dtype == np.float32


def test_other_operands_are_refused() -> None:
    for other, kind in (([1, 2], "list"), ("a", "str"), (None, "NoneType")):
        with pytest.raises(ArgumentError, match=f"a {kind} is no operand of a tensor"):
            X + other
        with pytest.raises(ArgumentError, match=f"a {kind} is no operand"):
            other * X
    with pytest.raises(ArgumentError, match=r"Fix: make a tensor of it: Tensor"):
        X @ [1, 2]
    with pytest.raises(ShapeError, match=r"needs axes: \(2, 2\) @ \(\)"):
        X @ 1
    assert (X == None) is False  # noqa: E711  # the operator is what is tested


def test_one_element_as_a_python_number() -> None:
    total = X.sum()
    assert (float(total), int(total), bool(total)) == (10.0, 10, True)
    assert f"{total:.2f}|{total:>6}|{Tensor(3):03d}" == "10.00|  10.0|003"
    assert f"{X}" == str(X)
    with pytest.raises(ShapeError, match=r"the format '.2f' needs one element, shape \(2, 2\)"):
        f"{X:.2f}"


def test_sizes_by_other_names() -> None:
    x: Any = Tensor.zeros(2, 3)
    assert (x.size(), x.size(-1), x.size(dim=0), x.dim()) == ((2, 3), 3, 2, 2)


# fmt: off
DTYPES = (
    ("float16", dtypes.float16), ("half", dtypes.float16), ("dtypes.int8", dtypes.int8), ("Float32", dtypes.float32),
    (float, dtypes.float32), (int, dtypes.int32), (bool, dtypes.bool), (dtypes.uint8, dtypes.uint8),
    (np.float64, dtypes.float64), (np.int64, dtypes.int64), (np.bool_, dtypes.bool), (np.dtype(">i2"), dtypes.int16),
    (ml_dtypes.bfloat16, dtypes.bfloat16), (np.dtype(ml_dtypes.float8_e5m2), dtypes.fp8e5m2),
)
# fmt: on


@pytest.mark.parametrize(("named", "dtype"), DTYPES)
def test_dtypes_by_name_and_type(named: Any, dtype: DType) -> None:
    assert dtype_argument(named) is dtype


@pytest.mark.parametrize("named", ["float64", float, np.float16, dtypes.float32])
def test_every_dtype_argument_takes_them(named: Any) -> None:
    """Whatever makes a tensor or converts one."""
    dtype, x = dtype_argument(named), Tensor([1.0, 2.0])
    makers: dict[str, tuple[Any, ...]] = {
        "zeros": (2,),
        "ones": (2,),
        "empty": (2,),
        "full": ((2,), 1),
        "arange": (3,),
        "linspace": (0, 1, 3),
        "eye": (2,),
        "rand": (2,),
        "randn": (2,),
        "uniform": (2,),
        "normal": (2,),
        "in_memory": (1.0,),
    }
    for name, arguments in makers.items():
        assert getattr(Tensor, name)(*arguments, dtype=named).dtype is dtype, name
    for made in (
        *(Tensor([1], dtype=named), x.full_like(1, named), x.zeros_like(named), x.ones_like(named)),
        *(x.cast(named), x.sum(dtype=named), x.matmul(x, dtype=named), x.dot(x, named)),
    ):
        assert made.dtype is dtype
    assert Tensor.randint(2, dtype="int64").dtype is dtypes.int64
    assert Tensor([1.0]).bitcast("int32").dtype is dtypes.int32


@pytest.mark.parametrize(
    ("named", "text"),
    [
        ("flaot32", "there is no dtype named 'flaot32'(.|\n)*did you mean float32"),
        ("complex128", "there is no dtype named 'complex128'(.|\n)*known: bfloat16"),
        ("weakfloat", "there is no dtype named 'weakfloat'"),
        (np.complex64, "NumPy dtype complex64 has no counterpart"),
        (np.floating, "floating is no dtype"),
        (str, "str is no dtype(.|\n)*e.g. dtypes.float32"),
        (7, "7 is no dtype"),
    ],
)
def test_what_is_no_dtype(named: Any, text: str) -> None:
    with pytest.raises(DTypeError, match=text):
        Tensor.zeros(2, dtype=named)
