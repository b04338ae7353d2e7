"""Element types: what they are, their facts, and what they are called.

A `DType` is one object per type: compare with `is`.  The facts the compiler asks for in its inner
loops are attributes (`dtype.is_int`).  Two weak dtypes, weakint and weakfloat, belong to Python
numbers that have not met a strong dtype yet; they never have storage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from loomgrad.dtype import float_format
from loomgrad.dtype.float_format import FloatFormat
from loomgrad.errors import DTypeError, did_you_mean


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type.

    `kind` is one of bool, int, uint, float, weak, void, illtyped.  `bits` and `itemsize` (bytes)
    are 0 for types without storage.  `priority` orders all dtypes for sorting.  `fmt` is the
    character of the `struct` module, None where it has none; `format` describes a float.
    """

    name: str
    kind: str
    bits: int
    priority: int
    fmt: str | None = None
    format: FloatFormat | None = None
    itemsize: int = field(init=False)
    is_bool: bool = field(init=False)
    is_int: bool = field(init=False)
    is_unsigned: bool = field(init=False)
    is_float: bool = field(init=False)
    is_weak: bool = field(init=False)
    is_float8: bool = field(init=False)
    min: float = field(init=False)
    max: float = field(init=False)

    def __post_init__(self) -> None:
        is_float = self.format is not None
        is_int = self.kind in ("int", "uint") or (self.kind == "weak" and not is_float)
        has_limits = is_int or self.kind == "bool"
        least, greatest = _limits(self.kind, self.bits) if has_limits else (-math.inf, math.inf)
        facts = {
            "itemsize": (self.bits + 7) // 8,
            "is_bool": self.kind == "bool",
            "is_int": is_int,
            "is_unsigned": self.kind == "uint",
            "is_float": is_float,
            "is_weak": self.kind == "weak",
            "is_float8": self.kind == "float" and self.bits == 8,
            "min": least,
            "max": greatest,
        }
        for name, fact in facts.items():
            object.__setattr__(self, name, fact)

    def __repr__(self) -> str:
        return f"dtypes.{self.name}"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return named_dtype, (self.name,)


def _limits(kind: str, bits: int) -> tuple[float, float]:
    """Least and greatest value of a type that is not a float.

    weakint is mathematical; it answers with the bounds of int64, the widest it is lowered to.
    """
    if kind == "bool":
        return False, True
    if kind == "uint":
        return 0, (1 << bits) - 1
    half = 1 << ((bits or 64) - 1)
    return -half, half - 1


# fmt: off
_VOID        = DType("void",        "void",      0,  -1)
_BOOL        = DType("bool",        "bool",      8,   0, "?")
_WEAKINT     = DType("weakint",     "weak",      0,   1)
_INT8        = DType("int8",        "int",       8,   2, "b")
_UINT8       = DType("uint8",       "uint",      8,   3, "B")
_INT16       = DType("int16",       "int",      16,   4, "h")
_UINT16      = DType("uint16",      "uint",     16,   5, "H")
_INT32       = DType("int32",       "int",      32,   6, "i")
_UINT32      = DType("uint32",      "uint",     32,   7, "I")
_INT64       = DType("int64",       "int",      64,   8, "q")
_UINT64      = DType("uint64",      "uint",     64,   9, "Q")
_WEAKFLOAT   = DType("weakfloat",   "weak",      0,  10, None, float_format.FLOAT64)
_FP8E4M3     = DType("fp8e4m3",     "float",     8,  11, None, float_format.FP8E4M3)
_FP8E5M2     = DType("fp8e5m2",     "float",     8,  12, None, float_format.FP8E5M2)
_FP8E4M3FNUZ = DType("fp8e4m3fnuz", "float",     8,  13, None, float_format.FP8E4M3FNUZ)
_FP8E5M2FNUZ = DType("fp8e5m2fnuz", "float",     8,  14, None, float_format.FP8E5M2FNUZ)
_FLOAT16     = DType("float16",     "float",    16,  15, "e",  float_format.FLOAT16)
_BFLOAT16    = DType("bfloat16",    "float",    16,  16, None, float_format.BFLOAT16)
_FLOAT32     = DType("float32",     "float",    32,  17, "f",  float_format.FLOAT32)
_FLOAT64     = DType("float64",     "float",    64,  18, "d",  float_format.FLOAT64)
_ILLTYPED    = DType("illtyped",    "illtyped",  0,  19)

_FLOAT8S = (_FP8E4M3, _FP8E5M2, _FP8E4M3FNUZ, _FP8E5M2FNUZ)

_BY_PRIORITY = (
    _VOID, _BOOL, _WEAKINT, _INT8, _UINT8, _INT16, _UINT16, _INT32, _UINT32, _INT64, _UINT64,
    _WEAKFLOAT, *_FLOAT8S, _FLOAT16, _BFLOAT16, _FLOAT32, _FLOAT64, _ILLTYPED,
)
# fmt: on
_BY_NAME = {dtype.name: dtype for dtype in _BY_PRIORITY}


def named_dtype(name: str) -> DType:
    """The dtype of a name or an alias, e.g. `named_dtype("half") is dtypes.float16`."""
    if (found := _BY_NAME.get(name)) is not None:
        return found
    alias = getattr(dtypes, name, None)
    if isinstance(alias, DType):
        return alias
    raise DTypeError(f"there is no dtype named {name!r}", fix=did_you_mean(name, _BY_NAME))


def is_bool(dtype: DType) -> bool:
    """True of bool only."""
    return dtype.is_bool


def is_int(dtype: DType) -> bool:
    """True of signed and unsigned ints and of weakint; bool is not an int."""
    return dtype.is_int


def is_unsigned(dtype: DType) -> bool:
    """True of the unsigned ints."""
    return dtype.is_unsigned


def is_float(dtype: DType) -> bool:
    """True of floats and of weakfloat."""
    return dtype.is_float


def is_weak(dtype: DType) -> bool:
    """True of weakint and weakfloat."""
    return dtype.is_weak


def minimum_of(dtype: DType) -> float:
    """The least value: an int for ints (weakint: of int64), -inf for floats, False for bool."""
    return dtype.min


def maximum_of(dtype: DType) -> float:
    """The greatest value: an int for ints (weakint: of int64), inf for floats, True for bool."""
    return dtype.max


class dtypes:
    """All dtypes by name and alias, and the questions asked about them."""

    # fmt: off
    void, illtyped, weakint, weakfloat = _VOID, _ILLTYPED, _WEAKINT, _WEAKFLOAT
    bool = _BOOL
    int8, int16, int32, int64 = _INT8, _INT16, _INT32, _INT64
    uint8, uint16, uint32, uint64 = _UINT8, _UINT16, _UINT32, _UINT64
    float16, bfloat16, float32, float64 = _FLOAT16, _BFLOAT16, _FLOAT32, _FLOAT64
    fp8e4m3, fp8e5m2, fp8e4m3fnuz, fp8e5m2fnuz = _FLOAT8S

    char, short, int, long = _INT8, _INT16, _INT32, _INT64
    uchar, ushort, uint, ulong = _UINT8, _UINT16, _UINT32, _UINT64
    half, float, double = _FLOAT16, _FLOAT32, _FLOAT64
    default_int, default_float = _INT32, _FLOAT32

    float8s = _FLOAT8S
    floats = (*_FLOAT8S, _FLOAT16, _BFLOAT16, _FLOAT32, _FLOAT64)
    signed_ints = (_INT8, _INT16, _INT32, _INT64)
    unsigned_ints = (_UINT8, _UINT16, _UINT32, _UINT64)
    ints = (_INT8, _INT16, _INT32, _INT64, _UINT8, _UINT16, _UINT32, _UINT64)
    all = tuple(dtype for dtype in _BY_PRIORITY if dtype.bits > 0)  # those with storage

    is_bool = staticmethod(is_bool)
    is_int = staticmethod(is_int)
    is_unsigned = staticmethod(is_unsigned)
    is_float = staticmethod(is_float)
    is_weak = staticmethod(is_weak)
    min = staticmethod(minimum_of)
    max = staticmethod(maximum_of)
    # fmt: on
