"""Index expressions by brute force: their value for each combination of their loop variables."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from loomgrad.dtype import cast_value, truncate
from loomgrad.ir.args import Invalid
from loomgrad.ir.opcode import GroupOp, Ops
from loomgrad.ir.ops import ROWS
from loomgrad.ir.typing_rules import common_dtype
from loomgrad.ir.uop import UOp

Env = Mapping[UOp, Any]


def value_of(node: UOp, env: Env) -> Any:
    """The value of a scalar node, with `env` for its leaves; Invalid where a gate does not hold."""
    values: dict[UOp, Any] = dict(env)
    for part in node.toposort(gate=lambda part: part not in env):
        if part not in values:
            values[part] = _value(part, [values[source] for source in part.src])
    return values[node]


def _value(node: UOp, operands: list[Any]) -> Any:
    if node.op is Ops.CONST:
        return node.arg
    if node.op is Ops.WHERE:
        place = 1 if operands[0] else 2
        chosen = operands[place]
        return (
            chosen if chosen is Invalid else cast_value(chosen, node.src[place].dtype, node.dtype)
        )
    if any(operand is Invalid for operand in operands):
        return Invalid
    if node.op is Ops.CAST:
        return cast_value(operands[0], node.src[0].dtype, node.dtype)
    if node.op is Ops.BITCAST:
        bits = struct.pack(f"<{node.src[0].dtype.fmt}", operands[0])
        return struct.unpack(f"<{node.dtype.fmt}", bits)[0]
    evaluate = ROWS[node.op].evaluate
    assert evaluate is not None, node
    return truncate(node.dtype, evaluate(*_met(node, operands)))


def _met(node: UOp, operands: list[Any]) -> list[Any]:
    """The operands in the dtype in which they meet."""
    if node.op in (Ops.SHL, Ops.SHR):
        return operands
    dtype = common_dtype(node.src)
    if node.dtype.is_float and node.op not in GroupOp.Comparison and not dtype.is_float:
        dtype = node.dtype
    return [cast_value(v, s.dtype, dtype) for v, s in zip(operands, node.src, strict=True)]


def loops_of(*nodes: UOp) -> list[UOp]:
    """The loop variables of some expressions, by axis."""
    found = {part for node in nodes for part in node.toposort() if part.op is Ops.RANGE}
    return sorted(found, key=lambda loop: loop.order)


def environments(*nodes: UOp) -> Iterator[dict[UOp, int]]:
    """Every combination of values of the loop variables."""
    loops = loops_of(*nodes)
    for values in itertools.product(*(range(int(loop.src[0].val)) for loop in loops)):
        yield dict(zip(loops, values, strict=True))


def sym(name: int, low: int, high: int) -> UOp:
    """An integer from low to high: a loop variable and a constant."""
    return UOp.range(high - low + 1, name) + low
