"""What the op table says of every node: where it is legal, its sources, its arg, that it has a dtype and a shape.

A fault is a sentence; None means that there is none.
"""

from __future__ import annotations

from loomgrad.dtype import dtypes
from loomgrad.ir.args import Invalid, KernelInfo
from loomgrad.ir.opcode import GroupOp, Op, Ops, OpSet
from loomgrad.ir.ops import ROWS, Level, Row
from loomgrad.ir.uop import UOp

TAKES_LITERALS = OpSet(Ops.CAST, Ops.STACK, Ops.LINEAR)
SIZED = OpSet(Ops.RESHAPE, Ops.PAD, Ops.SHRINK, Ops.EXPAND)


def _source_counts(row: Row) -> tuple[int, int | None]:
    """The least and the greatest number of sources; None is any number."""
    names = row.sources.split()
    repeated = any(name.endswith("...") for name in names)
    least = sum(not name.endswith(("...", "?")) for name in names)
    return least, None if repeated else len(names)


SOURCE_COUNTS: dict[Op, tuple[int, int | None]] = {op: _source_counts(ROWS[op]) for op in Ops}


def fault_of_form(node: UOp, level: Level) -> str | None:
    """The first thing about a node that its row forbids."""
    row = ROWS[node.op]
    if level not in row.levels:
        return f"{node.op.name} is not an operation of this level"
    least, greatest = SOURCE_COUNTS[node.op]
    if len(node.src) < least or (greatest is not None and len(node.src) > greatest):
        return f"{node.op.name} has {len(node.src)} sources, not ({row.sources})"
    if not _has_arg(node, row):
        wanted = "none" if row.arg is None else row.arg.__name__
        return f"the arg of {node.op.name} is {node.arg!r}, not {wanted}"
    return _fault_of_type(node, level)


def _has_arg(node: UOp, row: Row) -> bool:
    if row.arg is None:
        return node.arg is None
    if node.op is Ops.CONST:
        return node.arg is Invalid or isinstance(node.arg, (bool, int, float))
    return isinstance(node.arg, row.arg) or (row.arg is KernelInfo and node.arg is None)


def _fault_of_type(node: UOp, level: Level) -> str | None:
    if node.dtype is dtypes.illtyped:
        operands = ", ".join(source.dtype.name for source in node.src)
        return f"{node.op.name} of {operands} has no dtype"
    if node.dtype is dtypes.void:
        return None
    shape = node.shape_or_none
    if shape is None:
        operands = ", ".join(str(source.shape_or_none) for source in node.src)
        return f"{node.op.name} of shapes {operands} has no shape"
    if level is Level.PROGRAM:
        return _fault_of_strength(node)
    return None


def is_literal(node: UOp) -> bool:
    """Constants and shape arguments, which are weak also in a program."""
    return node.op is Ops.CONST or (
        node.op is Ops.STACK and all(source.op is Ops.CONST for source in node.src)
    )


def _fault_of_strength(node: UOp) -> str | None:
    """In a program every value has a dtype of its own, and operands of one operation have the same."""
    if node.op is Ops.CONST and node.arg is Invalid:
        return "Invalid is left in a program"
    if node.dtype.is_weak and not is_literal(node):
        return f"{node.op.name} is {node.dtype.name} in a program"
    operands = node.src[:1] if node.op in SIZED else node.src
    if node.op not in TAKES_LITERALS and any(operand.dtype.is_weak for operand in operands):
        return f"{node.op.name} has a weak operand in a program"
    return _fault_of_operands(node)


def _fault_of_operands(node: UOp) -> str | None:
    if node.op not in GroupOp.Elementwise or node.op is Ops.CAST or node.op is Ops.BITCAST:
        return None
    operands = node.src[1:] if node.op is Ops.WHERE else node.src
    if node.op is Ops.SHL or node.op is Ops.SHR:
        allowed = {node.dtype, dtypes.uint32}
        return None if node.src[1].dtype in allowed else "a shift distance has another dtype"
    if len({operand.dtype for operand in operands}) > 1:
        return f"{node.op.name} of {' and '.join(o.dtype.name for o in operands)} in a program"
    return None
