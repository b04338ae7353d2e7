"""Arguments of nodes: small interned values with identity hash and equality.

Building the same argument twice gives the same object, as for nodes, so every part of a table key
compares in C.  Fields are compared with their types: 1, 1.0 and True differ.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar, cast, dataclass_transform

from loomgrad.dtype import DType
from loomgrad.ir.opcode import Op
from loomgrad.ir.weak_table import WeakTable

if TYPE_CHECKING:
    from loomgrad.memory import Buffer

T = TypeVar("T")
_interned: WeakTable[tuple[object, ...], Any] = WeakTable()


def typed(value: object) -> object:
    """A form of `value` whose equality respects types, inside tuples too."""
    if isinstance(value, tuple):
        return (tuple, *(typed(item) for item in value))
    return type(value), value


class _InterningMeta(type):
    def __call__(cls, *values: object, **named: object) -> object:
        made = super().__call__(*values, **named)
        key = (cls, *(typed(getattr(made, field.name)) for field in fields(made)))
        return _interned.intern(key, made)


@dataclass_transform(frozen_default=True, eq_default=False)
def interned(cls: type[T]) -> type[T]:
    """Class decorator: a frozen slotted dataclass whose equal instances are one object."""
    make = cast(Callable[[type[T]], type[T]], dataclass(frozen=True, eq=False, slots=True))
    return make(cls)


class Interned(metaclass=_InterningMeta):
    """Base of all argument classes."""

    __slots__ = ("__weakref__",)

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        cls = type(self)
        return cls, tuple(getattr(self, field.name) for field in fields(cast(Any, cls)))


class AddrSpace(enum.Enum):
    """Where storage lives."""

    GLOBAL = enum.auto()  # device memory
    LOCAL = enum.auto()  # scratch of one worker or workgroup
    REG = enum.auto()  # registers
    ALU = enum.auto()  # a scalar value

    def __repr__(self) -> str:
        return f"AddrSpace.{self.name}"

    __hash__ = object.__hash__


class AxisType(enum.Enum):
    """What a RANGE becomes.  The value is the letter that kernel names print."""

    THREAD = "t"  # one worker per value, contiguous chunks
    WEAK = "w"  # not decided yet
    LOOP = "L"
    UPCAST = "u"  # lanes of the output
    REDUCE = "R"
    UNROLL = "r"  # lanes of a reduction

    def __repr__(self) -> str:
        return f"AxisType.{self.name}"

    __hash__ = object.__hash__


class InvalidType:
    """The constant that must never be read; it carries masks through index arithmetic."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Invalid"

    def __reduce__(self) -> str:
        return "Invalid"


Invalid = InvalidType()


@interned
class ParamArg(Interned):
    """Storage or a formal parameter: of BUFFER and PARAM.

    `shape` is the shape of register and scratch storage; storage in memory is flat, (size,).
    """

    slot: int
    dtype: DType
    size: int
    device: str | None = None
    addrspace: AddrSpace = AddrSpace.GLOBAL
    shape: tuple[int, ...] | None = None
    buffer: Buffer | None = None


@interned
class ReduceArg(Interned):
    """REDUCE: fold the first `count` axes with `op`."""

    op: Op
    count: int


@interned
class RangeArg(Interned):
    """RANGE: axis numbers (a split appends one) and what the loop becomes."""

    axis: tuple[int, ...]
    kind: AxisType


@interned
class StageArg(Interned):
    """STAGE: where the value would be stored, whether the scheduler may remove it, and whether a kernel ends here."""

    device: str
    removable: bool = True
    ends_kernel: bool = False


@interned
class KernelInfo(Interned):
    """SINK of a kernel: its name and the actions applied to it."""

    name: str = ""
    actions: tuple[str, ...] = ()


@interned
class CallInfo(Interned):
    """CALL of a kernel: a name to print."""

    name: str = ""
