"""The right side of a data rule: which patterns a node can be made of, how, and how the result fits its place.

A number beside an operand becomes what a user's `x + 1` makes: a weak constant, wrapped into a strong int dtype
that does not hold it.  A number in place of the replaced node gets that node's dtype.
"""

from __future__ import annotations

from collections.abc import Mapping

from loomgrad.dtype import DType, Number, dtypes
from loomgrad.errors import LoomError, did_you_mean
from loomgrad.ir.constant import literal_beside, literal_like
from loomgrad.ir.opcode import GroupOp, Op, Ops, OpSet
from loomgrad.ir.pattern import ANY_VALUE, Order, UPat
from loomgrad.ir.shape import Shape
from loomgrad.ir.uop import UOp

CASTS = OpSet(Ops.CAST, Ops.BITCAST)


def check_constructible(pattern: UPat, bound: frozenset[str], what: str) -> None:
    """Raises unless a node can be made of a pattern, given the bound names."""
    if pattern.name is not None:
        if pattern.name not in bound:
            raise LoomError(
                f"{what} uses {pattern.name!r}, which not every match of its left side binds",
                fix=did_you_mean(pattern.name, bound),
            )
        return
    if number_of(pattern) is not None:
        return
    if not _is_plain(pattern):
        raise LoomError(
            f"{what} contains {pattern}, from which no node can be made",
            fix="use variables, numbers and elementwise operations, or a function rule",
        )
    for source in pattern.src or ():
        check_constructible(source, bound, what)


def _is_plain(pattern: UPat) -> bool:
    """Whether a pattern is one elementwise operation on given sources."""
    if pattern.ops is None or len(pattern.ops) != 1 or not pattern.src:
        return False
    if pattern.order is Order.EACH or pattern.allow_more or pattern.arg is not None:
        return False
    typed = pattern.dtypes is not None
    return only_op(pattern) in (CASTS if typed else GroupOp.Elementwise) and (
        not typed or pattern.dtypes.kind == "value"  # type: ignore[union-attr]
    )


def only_op(pattern: UPat) -> Op:
    """The operation of a pattern that has one."""
    assert pattern.ops is not None
    (op,) = pattern.ops
    return op


def number_of(pattern: UPat) -> Number | None:
    """The Python number that a pattern is, if it is one."""
    return None if pattern.value is ANY_VALUE else pattern.value


def cast_dtype(pattern: UPat) -> DType | None:
    """The dtype that a CAST or BITCAST on a right side names."""
    dtype: DType | None = None if pattern.dtypes is None else pattern.dtypes.asked
    return dtype


def neighbour_index(pattern: UPat) -> int | None:
    """Which source lends its dtype to the numbers beside it: the first value that is no number."""
    first = 1 if only_op(pattern) is Ops.WHERE else 0
    sources = pattern.src or ()
    found = (i for i in range(first, len(sources)) if number_of(sources[i]) is None)
    return next(found, None)


def instantiate(pattern: UPat, bound: Mapping[str, UOp], node: UOp, in_place: bool = True) -> UOp:
    """The node of a right side.  `in_place`: its value is that of the replaced node."""
    if pattern.name is not None:
        return bound[pattern.name]
    if (number := number_of(pattern)) is not None:
        return literal_like(number, node) if in_place else UOp(Ops.CONST, (), number)
    op, sources = only_op(pattern), pattern.src or ()
    if op in CASTS:
        operand = instantiate(sources[0], bound, node, False)
        return UOp(op, (operand,), cast_dtype(pattern) or node.dtype)
    made: list[UOp | Number] = []
    for place, source in enumerate(sources):
        arm = in_place and op is Ops.WHERE and place > 0
        number = number_of(source)
        made.append(instantiate(source, bound, node, arm) if number is None else number)
    index = neighbour_index(pattern)
    neighbour = None if index is None else made[index]
    replaced = node if in_place and op is Ops.WHERE else None
    return UOp(op, tuple(_operand(item, neighbour, replaced) for item in made))


def _operand(item: UOp | Number, neighbour: UOp | Number | None, replaced: UOp | None) -> UOp:
    if isinstance(item, UOp):
        return item
    if isinstance(neighbour, UOp):
        return literal_beside(item, neighbour)
    return UOp(Ops.CONST, (), item) if replaced is None else literal_like(item, replaced)


def fit(result: UOp, node: UOp) -> UOp | None:
    """`result` with the shape and dtype of the node it replaces, or None where that is impossible."""
    if result is node:
        return None
    dtype, wanted = result.dtype, node.dtype
    if dtype is not wanted:
        if dtype in _NO_VALUE or wanted in _NO_VALUE or wanted.is_weak:
            return None
        result = result.cast(wanted)
    elif dtype is dtypes.illtyped:
        return None
    shape, target = result.shape, node.shape
    if shape != target:
        if not _expands(shape, target):
            return None
        result = result.expand(target)
    return None if result is node else result


_NO_VALUE = frozenset((dtypes.illtyped, dtypes.void))


def _expands(shape: Shape | None, target: Shape | None) -> bool:
    """Whether a value of `shape` can be repeated to `target`."""
    if shape is None or target is None:
        return False
    lead = len(target) - len(shape)
    return lead >= 0 and all(
        size in (1, wanted) for size, wanted in zip(shape, target[lead:], strict=True)
    )
