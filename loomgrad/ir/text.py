"""Graphs as text: a tree to read, and Python that builds the same node.

Both are linear in the number of nodes: one that is used twice is written once and named.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any, cast

from loomgrad.dtype import dtypes
from loomgrad.errors import UnsupportedError
from loomgrad.ir import args
from loomgrad.ir.opcode import Ops
from loomgrad.ir.uop import UOp

DEEPEST_INDENT = 40

# What the text of `pyrender` refers to: `eval(pyrender(node), dict(NAMES)) is node`.
NAMES: dict[str, object] = {
    "UOp": UOp,
    "Ops": Ops,
    "dtypes": dtypes,
    "inf": math.inf,
    "nan": math.nan,
    "Invalid": args.Invalid,
    "AddrSpace": args.AddrSpace,
    "AxisType": args.AxisType,
    "ParamArg": args.ParamArg,
    "ReduceArg": args.ReduceArg,
    "RangeArg": args.RangeArg,
    "StageArg": args.StageArg,
    "KernelInfo": args.KernelInfo,
    "CallInfo": args.CallInfo,
}


def tree(root: UOp) -> str:
    """A node and what is below it, one line each, indented.

    A node that is used in several places is written at the first as `%3 = ADD ...`, and as `%3` at the others.
    Constants and shapes stand in their users' lines.  Beyond 40 levels the depth is a number.
    """
    uses: dict[UOp, int] = {}
    for node in root.toposort():
        for source in node.src:
            uses[source] = uses.get(source, 0) + 1
    names: dict[UOp, str] = {}
    lines: list[str] = []
    stack = [(root, 0)]
    while stack:
        node, depth = stack.pop()
        indent = "  " * depth if depth <= DEEPEST_INDENT else "  " * DEEPEST_INDENT + f"({depth}) "
        if node in names:
            lines.append(indent + names[node])
            continue
        label = ""
        if uses.get(node, 0) > 1:
            names[node] = f"%{len(names)}"
            label = f"{names[node]} = "
        lines.append(indent + label + line(node))
        stack.extend((source, depth + 1) for source in reversed(node.src) if not _inline(source))
    return "\n".join(lines)


def line(node: UOp) -> str:
    """One node without what is below it: operation, arg, constant sources, dtype and shape."""
    parts = [node.op.name]
    if node.arg is not None:
        parts.append(describe(node.arg))
    inline = [_literal(source) if _inline(source) else "." for source in node.src]
    if any(source != "." for source in inline):
        parts.append(f"({', '.join(inline)})")
    if node.dtype is not dtypes.void:
        shape = node.shape_or_none
        axes = "?" if shape is None else ",".join(map(str, shape))
        parts.append(f": {node.dtype.name}[{axes}]")
    if node.tag is not None:
        parts.append(f"#{node.tag}")
    return " ".join(parts)


def _inline(node: UOp) -> bool:
    """Whether a source stands in its user's line."""
    if node.op is Ops.STACK:
        return all(source.op is Ops.CONST for source in node.src)
    return node.is_const()


def _literal(node: UOp) -> str:
    if node.op is Ops.STACK:
        return f"[{', '.join(str(source.arg) for source in node.src)}]"
    return str(node.val) if node.op is Ops.CONST else f"{node.val}:{node.dtype.name}"


def describe(arg: object) -> str:
    """An arg for reading: of a dataclass the fields that are not at their default."""
    if isinstance(arg, args.RangeArg):
        return f"{'.'.join(map(str, arg.axis))} {arg.kind.name}"
    if isinstance(arg, args.ReduceArg):
        return f"{arg.op.name} {arg.count}"
    if isinstance(arg, args.ParamArg):
        return _describe_storage(arg)
    if isinstance(arg, args.KernelInfo):
        return " ".join((arg.name or "kernel", *arg.actions))
    if isinstance(arg, args.CallInfo):
        return arg.name or "kernel"
    if isinstance(arg, args.StageArg):
        return arg.device if arg.removable else f"{arg.device} keep"
    return getattr(arg, "name", None) or repr(arg)


def _describe_storage(arg: args.ParamArg) -> str:
    parts = [str(arg.slot)]
    if arg.addrspace is not args.AddrSpace.GLOBAL:
        parts.append(arg.addrspace.name)
    if arg.device is not None:
        parts.append(arg.device)
    if arg.buffer is not None:
        parts.append("bound")
    return " ".join(parts)


def pyrender(root: UOp) -> str:
    """Python that builds this very node: `eval(pyrender(node), dict(NAMES)) is node`.

    Raises: UnsupportedError for a BUFFER with memory, whose contents no text holds.
    """
    names: dict[UOp, str] = {}
    lines = []
    for number, node in enumerate(root.toposort()):
        names[node] = f"n{number}"
        sources = "".join(f"{names[source]}, " for source in node.src)
        parts = [repr(node.op), f"({sources.rstrip() if len(node.src) == 1 else sources[:-2]})"]
        if node.arg is not None or node.tag is not None:
            parts.append(_python(node.arg))
        if node.tag is not None:
            parts.append(_python(node.tag))
        lines.append(f"    n{number} := UOp({', '.join(parts)}),\n")
    return f"(\n{''.join(lines)})[-1]"


def _python(value: object) -> str:
    """An expression for an arg or a tag."""
    if isinstance(value, tuple):
        inner = ", ".join(_python(item) for item in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, args.ParamArg) and value.buffer is not None:
        raise UnsupportedError(
            "a BUFFER with memory cannot be written as Python",
            fix="put a PARAM in its place, as the scheduler does, or pickle the graph",
            slot=value.slot,
        )
    if isinstance(value, args.Interned):
        parts = (
            f"{field.name}={_python(getattr(value, field.name))}"
            for field in fields(cast(Any, value))
            if getattr(value, field.name) is not field.default
        )
        return f"{type(value).__name__}({', '.join(parts)})"
    return repr(value)
