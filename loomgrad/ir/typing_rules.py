"""dtype rules: one function per kind of operation, from a node to its dtype.

They run at construction and are total: an ill-formed node gets `dtypes.illtyped`, which no rule matches and
which user constructors and the verifier report.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from loomgrad.dtype import DType, dtypes
from loomgrad.ir.args import Invalid, ParamArg
from loomgrad.ir.opcode import Ops

if TYPE_CHECKING:
    from loomgrad.ir.uop import UOp


def is_invalid(node: UOp) -> bool:
    """Whether a node is the constant Invalid, which fits beside every dtype."""
    return node.op is Ops.CONST and node.arg is Invalid


def common_dtype(nodes: Iterable[UOp]) -> DType:
    """The dtype that operands of one elementwise node share; weak ones take the strong one's."""
    strong: DType | None = None
    weak: DType | None = None
    for node in nodes:
        dtype = node.dtype
        if is_invalid(node):
            continue
        if dtype.is_weak:
            weak = dtype if weak is None or dtype is dtypes.weakfloat else weak
        elif strong is None:
            strong = dtype
        elif strong is not dtype:
            return dtypes.illtyped
    if strong is None:
        return dtypes.bool if weak is None else weak
    if weak is dtypes.weakfloat and not strong.is_float:
        return dtypes.illtyped
    if weak is dtypes.weakint and not (strong.is_float or strong.is_int):
        return dtypes.illtyped
    return strong


def const_dtype(node: UOp) -> DType:
    """By the Python type of the value; Invalid is bool, the bottom of the lattice."""
    if node.arg is Invalid or isinstance(node.arg, bool):
        return dtypes.bool
    return dtypes.weakint if isinstance(node.arg, int) else dtypes.weakfloat


def storage_dtype(node: UOp) -> DType:
    """What the storage holds."""
    assert isinstance(node.arg, ParamArg)
    return node.arg.dtype


def stack_dtype(node: UOp) -> DType:
    """The common dtype; an empty STACK is a shape, weakint."""
    return common_dtype(node.src) if node.src else dtypes.weakint


def first_dtype(node: UOp) -> DType:
    """The dtype of the first source."""
    return node.src[0].dtype


def void_dtype(node: UOp) -> DType:
    """An effect."""
    return dtypes.void


def arg_dtype(node: UOp) -> DType:
    """The dtype in the arg."""
    assert isinstance(node.arg, DType)
    return node.arg


def promoted_dtype(node: UOp) -> DType:
    """The common dtype of all sources."""
    return common_dtype(node.src)


def float_dtype(node: UOp) -> DType:
    """Floats keep theirs; ints give the least float."""
    dtype = common_dtype(node.src)
    if dtype.is_float or dtype is dtypes.illtyped:
        return dtype
    return dtypes.weakfloat if dtype is dtypes.weakint else dtypes.default_float


def int_dtype(node: UOp) -> DType:
    """The common dtype if it is an integer or bool."""
    dtype = common_dtype(node.src)
    return dtype if dtype.is_int or dtype.is_bool else dtypes.illtyped


def comparison_dtype(node: UOp) -> DType:
    """bool, if the operands fit each other."""
    return dtypes.illtyped if common_dtype(node.src) is dtypes.illtyped else dtypes.bool


def shift_dtype(node: UOp) -> DType:
    """The left operand's, ints only."""
    left, right = node.src
    return left.dtype if left.dtype.is_int and right.dtype.is_int else dtypes.illtyped


def threefry_dtype(node: UOp) -> DType:
    """Counter and key are uint64, and so is the result."""
    fits = all(source.dtype is dtypes.uint64 for source in node.src)
    return dtypes.uint64 if fits else dtypes.illtyped


def where_dtype(node: UOp) -> DType:
    """The common dtype of the two arms; the condition is bool."""
    if not node.src[0].dtype.is_bool:
        return dtypes.illtyped
    return common_dtype(node.src[1:])
