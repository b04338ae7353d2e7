"""How LLVM IR spells operations: one row per operation.

A spelling is the instructions that give the result of the last one.  In them {a} {b} {c} are the operands and
{0} {1} ... the results of earlier instructions.  {t} is the type of the operands, {r} that of the result, {s} and
{rs} are the suffixes of intrinsics for them.  {m} {h} {w} {f} are the types of as many bools, 16-bit ints, 32-bit
ints and floats.  {t[1]} is the constant 1 of type {t}, {t[width]} the number of its bits.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from loomgrad.backends.cpu.types import literal, splat_literal, suffix_of, type_of
from loomgrad.dtype import DType, dtypes
from loomgrad.errors import UnsupportedError
from loomgrad.ir.opcode import Op, Ops

Lines = tuple[str, ...]


class Spelling(NamedTuple):
    """The instructions of an operation, by the kind of its operands."""

    floats: Lines = ()
    signed: Lines = ()
    unsigned: Lines = ()
    bools: Lines = ()


# Where the distance is not within the width (compared as unsigned, so negative distances are not), shift by 0 and
# take 0 instead.
_IN_WIDTH = ("icmp ult {t} {b}, {t[width]}", "select {m} {0}, {t} {b}, {t} {t[0]}")
_OR_ZERO = "select {m} {0}, {t} {2}, {t} {t[0]}"
# Division by 0 and of the least value by -1 trap: both divide by 1 instead, then the result is put right.
_BY_SIGNED = (
    "icmp eq {t} {b}, {t[0]}",
    "icmp eq {t} {b}, {t[-1]}",
    "or {m} {0}, {1}",
    "select {m} {2}, {t} {t[1]}, {t} {b}",
)
_BY_UNSIGNED = ("icmp eq {t} {b}, {t[0]}", "select {m} {0}, {t} {t[1]}, {t} {b}")
_SIGNED_QUOTIENT = (
    "sdiv {t} {a}, {3}",
    "sub {t} {t[0]}, {a}",
    "select {m} {1}, {t} {5}, {t} {4}",
    "select {m} {0}, {t} {t[0]}, {t} {6}",
)
_UNSIGNED_QUOTIENT = ("udiv {t} {a}, {1}", "select {m} {0}, {t} {t[0]}, {t} {2}")
_NEGATED = ("sub {t} {t[0]}, {a}",)
# The larger, or {b} where they are unordered; then {a} where that is NaN.
_MAX = (
    "fcmp ogt {t} {a}, {b}",
    "select {m} {0}, {t} {a}, {t} {b}",
    "fcmp uno {t} {a}, {t[0]}",
    "select {m} {2}, {t} {a}, {t} {1}",
)
_MUL_ADD = ("mul {t} {a}, {b}", "add {t} {0}, {c}")


def _numbers(floats: str, ints: str, bools: str = "") -> Spelling:
    return Spelling((floats,), (ints,), (ints,), (bools,) if bools else ())


def _bits(line: str) -> Spelling:
    return Spelling((), (line,), (line,), (line,))


def _floats(line: str) -> Spelling:
    return Spelling((line,))


# fmt: off
SPELLINGS: dict[Op, Spelling] = {
    Ops.ADD:        _numbers("fadd {t} {a}, {b}", "add {t} {a}, {b}", "or {t} {a}, {b}"),
    Ops.SUB:        _numbers("fsub {t} {a}, {b}", "sub {t} {a}, {b}"),
    Ops.MUL:        _numbers("fmul {t} {a}, {b}", "mul {t} {a}, {b}", "and {t} {a}, {b}"),
    Ops.FDIV:       _floats("fdiv {t} {a}, {b}"),
    Ops.NEG:        Spelling(("fneg {t} {a}",), _NEGATED, _NEGATED),
    Ops.RECIPROCAL: _floats("fdiv {t} {t[1]}, {a}"),
    Ops.SQRT:       _floats("call {t} @llvm.sqrt.{s}({t} {a})"),
    Ops.TRUNC:      _floats("call {t} @llvm.trunc.{s}({t} {a})"),
    Ops.CDIV:       Spelling((), _BY_SIGNED + _SIGNED_QUOTIENT, _BY_UNSIGNED + _UNSIGNED_QUOTIENT),
    Ops.CMOD:       Spelling((), (*_BY_SIGNED, "srem {t} {a}, {3}"), (*_BY_UNSIGNED, "urem {t} {a}, {1}")),
    Ops.MAX:        Spelling(_MAX, ("call {t} @llvm.smax.{s}({t} {a}, {t} {b})",),
                             ("call {t} @llvm.umax.{s}({t} {a}, {t} {b})",), ("or {t} {a}, {b}",)),
    Ops.CMPLT:      Spelling(("fcmp olt {t} {a}, {b}",), ("icmp slt {t} {a}, {b}",),
                             ("icmp ult {t} {a}, {b}",), ("icmp ult {t} {a}, {b}",)),
    Ops.CMPNE:      _numbers("fcmp une {t} {a}, {b}", "icmp ne {t} {a}, {b}", "icmp ne {t} {a}, {b}"),
    Ops.CMPEQ:      _numbers("fcmp oeq {t} {a}, {b}", "icmp eq {t} {a}, {b}", "icmp eq {t} {a}, {b}"),
    Ops.AND:        _bits("and {t} {a}, {b}"),
    Ops.OR:         _bits("or {t} {a}, {b}"),
    Ops.XOR:        _bits("xor {t} {a}, {b}"),
    Ops.SHL:        Spelling((), *2 * ((*_IN_WIDTH, "shl {t} {a}, {1}", _OR_ZERO),)),
    Ops.SHR:        Spelling((), (*_IN_WIDTH, "ashr {t} {a}, {1}", _OR_ZERO),
                             (*_IN_WIDTH, "lshr {t} {a}, {1}", _OR_ZERO)),
    Ops.MULACC:     Spelling(("call {t} @llvm.fma.{s}({t} {a}, {t} {b}, {t} {c})",), _MUL_ADD, _MUL_ADD),
    Ops.WHERE:      Spelling(*4 * (("select {m} {a}, {t} {b}, {t} {c}",),)),
}
# fmt: on

# The larger of {a} and a {b} that is no NaN: one instruction on x86.
MAX_OF_NUMBER = ("fcmp ogt {t} {b}, {a}", "select {m} {0}, {t} {b}, {t} {a}")

_FROM_BFLOAT16 = ("zext {h} {a} to {w}", "shl {w} {0}, {w[16]}", "bitcast {w} {1} to {f}")
# To nearest, ties to even, by adding half of the last place that stays, less 1 if that is even; NaN stays quiet.
_TO_BFLOAT16 = (
    "bitcast {f} {a} to {w}",
    "lshr {w} {0}, {w[16]}",
    "and {w} {1}, {w[1]}",
    "add {w} {2}, {w[32767]}",
    "add {w} {0}, {3}",
    "fcmp uno {f} {a}, {f[0]}",
    "or {w} {0}, {w[4194304]}",
    "select {m} {5}, {w} {6}, {w} {4}",
    "lshr {w} {7}, {w[16]}",
    "trunc {w} {8} to {h}",
)
# A double as the float beside it whose last bit is odd, unless it is exact: rounding that again, to fewer bits, gives
# what rounding the double at once gives.
TO_ODD_FLOAT = (
    "fptrunc {t} {a} to {f}",
    "fpext {f} {0} to {t}",
    "fcmp une {t} {1}, {a}",
    "call {t} @llvm.fabs.{s}({t} {1})",
    "call {t} @llvm.fabs.{s}({t} {a})",
    "fcmp ogt {t} {3}, {4}",
    "bitcast {f} {0} to {w}",
    "zext {m} {5} to {w}",
    "sub {w} {6}, {7}",
    "zext {m} {2} to {w}",
    "or {w} {8}, {9}",
    "bitcast {w} {10} to {f}",
)


def spelling_of(op: Op, dtype: DType) -> Lines:
    """The instructions of `op` on operands of a dtype.  Raises: UnsupportedError where there are none."""
    row = SPELLINGS.get(op, Spelling())
    if dtype.is_bool:
        lines = row.bools
    elif dtype.is_float:
        lines = row.floats
    else:
        lines = row.unsigned if dtype.is_unsigned else row.signed
    if dtype is dtypes.bfloat16 and op is not Ops.WHERE:
        lines = ()
    if (
        dtype is dtypes.float16 and op is Ops.MULACC
    ):  # float16 is computed in float32, which rounds twice here
        lines = ()
    if not lines:
        raise UnsupportedError(f"the CPU backend has no instructions for {op.name} of {dtype.name}")
    return lines


def cast_spelling(source: DType, target: DType) -> Lines:
    """One step of a cast by value, between dtypes whose `cast_route` is direct; none if registers stay as they are."""
    if target.is_bool:
        return ("fcmp une {t} {a}, {t[0]}" if source.is_float else "icmp ne {t} {a}, {t[0]}",)
    if source is dtypes.bfloat16:
        return _FROM_BFLOAT16
    if target is dtypes.bfloat16:
        return _TO_BFLOAT16
    if source.is_float:
        if target.is_float:
            return (
                "fpext {t} {a} to {r}" if target.bits > source.bits else "fptrunc {t} {a} to {r}",
            )
        sign = "u" if target.is_unsigned else "s"
        return (f"call {{r}} @llvm.fpto{sign}i.sat.{{rs}}.{{s}}({{t}} {{a}})",)
    unsigned = source.is_unsigned or source.is_bool
    if target.is_float:
        return ("uitofp {t} {a} to {r}" if unsigned else "sitofp {t} {a} to {r}",)
    if not source.is_bool and target.bits <= source.bits:
        return ("trunc {t} {a} to {r}",) if target.bits < source.bits else ()
    return ("zext {t} {a} to {r}" if unsigned else "sext {t} {a} to {r}",)


class _Typed:
    """A type in a spelling: itself, and its constants by index."""

    def __init__(self, dtype: DType, length: int) -> None:
        self.dtype, self.length = dtype, length

    def __str__(self) -> str:
        return type_of(self.dtype, self.length)

    def __getitem__(self, key: int | str) -> str:
        value = self.dtype.bits if key == "width" else int(key)
        return splat_literal(literal(value, self.dtype), self.dtype, self.length)


@functools.cache
def words_of(source: DType, target: DType, length: int) -> dict[str, object]:
    """What the fields of a spelling other than operands and results stand for."""
    return {
        "t": _Typed(source, length),
        "r": _Typed(target, length),
        "m": _Typed(dtypes.bool, length),
        "h": _Typed(dtypes.int16, length),
        "w": _Typed(dtypes.int32, length),
        "f": _Typed(dtypes.float32, length),
        "s": suffix_of(source, length),
        "rs": suffix_of(target, length),
    }
