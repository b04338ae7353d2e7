"""NumPy's dtypes and ours, without loading NumPy before someone asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loomgrad.dtype.types import DType, dtypes
from loomgrad.errors import DTypeError

if TYPE_CHECKING:
    import numpy as np

# What NumPy, or ml_dtypes where NumPy lacks the type, calls the dtypes whose name differs there.
_ML_DTYPES_NAMES = {
    "bfloat16": "bfloat16",
    "fp8e4m3": "float8_e4m3fn",
    "fp8e5m2": "float8_e5m2",
    "fp8e4m3fnuz": "float8_e4m3fnuz",
    "fp8e5m2fnuz": "float8_e5m2fnuz",
}
_FROM_NUMPY_NAMES = {_ML_DTYPES_NAMES.get(dtype.name, dtype.name): dtype for dtype in dtypes.all}


def numpy_dtype(dtype: DType) -> np.dtype[np.generic]:
    """The NumPy dtype with the same values, from ml_dtypes where NumPy has none."""
    import numpy as np

    if dtype.bits == 0:
        raise DTypeError(f"dtype {dtype.name} has no storage, so NumPy has no counterpart")
    if dtype.name not in _ML_DTYPES_NAMES:
        return np.dtype(dtype.name)
    import ml_dtypes

    scalar: type[np.generic] = getattr(ml_dtypes, _ML_DTYPES_NAMES[dtype.name])
    return np.dtype(scalar)


def from_numpy_dtype(dtype: np.dtype[np.generic]) -> DType:
    """The dtype with the values of a NumPy dtype, whatever its byte order."""
    if (found := _FROM_NUMPY_NAMES.get(dtype.name)) is not None:
        return found
    raise DTypeError(
        f"NumPy dtype {dtype.name} has no counterpart here",
        fix="convert first, e.g. array.astype(numpy.float32)",
    )
