"""Dtypes: the types themselves, promotion, values as a dtype stores them, NumPy's names for them."""

from loomgrad.dtype.argument import dtype_argument as dtype_argument
from loomgrad.dtype.number import Number as Number
from loomgrad.dtype.number import cast_value as cast_value
from loomgrad.dtype.number import dtype_of as dtype_of
from loomgrad.dtype.number import holds as holds
from loomgrad.dtype.number import truncate as truncate
from loomgrad.dtype.numpy_names import from_numpy_dtype as from_numpy_dtype
from loomgrad.dtype.numpy_names import numpy_dtype as numpy_dtype
from loomgrad.dtype.promotion import can_cast_lossless as can_cast_lossless
from loomgrad.dtype.promotion import commit_dtype as commit_dtype
from loomgrad.dtype.promotion import least_upper_dtype as least_upper_dtype
from loomgrad.dtype.promotion import least_upper_float as least_upper_float
from loomgrad.dtype.promotion import sum_dtype as sum_dtype
from loomgrad.dtype.types import DType as DType
from loomgrad.dtype.types import dtypes as dtypes
from loomgrad.dtype.types import is_bool as is_bool
from loomgrad.dtype.types import is_float as is_float
from loomgrad.dtype.types import is_int as is_int
from loomgrad.dtype.types import is_unsigned as is_unsigned
from loomgrad.dtype.types import is_weak as is_weak
from loomgrad.dtype.types import named_dtype as named_dtype
