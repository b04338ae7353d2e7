"""Dtypes as users name them: ours, by name, by Python's or NumPy's type."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, overload

from loomgrad.dtype.numpy_names import from_numpy_dtype
from loomgrad.dtype.types import DType, dtypes
from loomgrad.errors import DTypeError, did_you_mean

if TYPE_CHECKING:
    import numpy as np

    DTypeLike = DType | str | type[object] | np.dtype[np.generic]

_OF_PYTHON = {bool: dtypes.bool, int: dtypes.default_int, float: dtypes.default_float}


@overload
def dtype_argument(dtype: None) -> None: ...
@overload
def dtype_argument(dtype: DTypeLike) -> DType: ...
@overload
def dtype_argument(dtype: DTypeLike | None) -> DType | None: ...
def dtype_argument(dtype: DTypeLike | None) -> DType | None:
    """The dtype that an argument names: dtypes.float16, "float16", "half", float, numpy.float16.

    Every function with a dtype argument reads it here.  None stays None.

    **Raises** DTypeError for what names no dtype with storage.
    """
    if dtype is None or isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, str):
        return _of_name(dtype)
    if isinstance(dtype, type) and (found := _OF_PYTHON.get(dtype)) is not None:
        return found
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(dtype, numpy.dtype):
        return from_numpy_dtype(dtype)
    if numpy is not None and isinstance(dtype, type) and _is_concrete(dtype):
        return from_numpy_dtype(numpy.dtype(dtype))
    shown = dtype.__name__ if isinstance(dtype, type) else repr(dtype)
    raise DTypeError(f"{shown} is no dtype", fix='e.g. dtypes.float32, "float32" or float')


def _of_name(text: str) -> DType:
    name = text.removeprefix("dtypes.").casefold()
    found = getattr(dtypes, name, None)
    if isinstance(found, DType) and found.bits > 0:
        return found
    known = [
        name for name, value in vars(dtypes).items() if isinstance(value, DType) and value.bits > 0
    ]
    raise DTypeError(f"there is no dtype named {text!r}", fix=did_you_mean(name, known))


def _is_concrete(scalar: type[object]) -> bool:
    """Whether this is a type of NumPy's scalars, or of ml_dtypes', with one dtype: not numpy.floating."""
    numpy = sys.modules["numpy"]
    is_scalar = issubclass(scalar, numpy.generic) and not scalar.__subclasses__()
    return is_scalar or scalar.__module__ == "ml_dtypes"
