"""Parametrise: the graph of some values with PARAMs for its buffers.

Computed nodes are replaced by their storage, marks are dropped, buffers are numbered by first use.  Two programs of
the same structure over other buffers are then one node, so the schedule of the second is found by identity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from loomgrad.errors import DeviceError
from loomgrad.ir.args import ParamArg
from loomgrad.ir.opcode import Ops, OpSet
from loomgrad.ir.uop import UOp

_MARKS = OpSet(Ops.NOOP, Ops.DETACH)


@dataclass(frozen=True, slots=True)
class Parametrised:
    """SINK of the values, tagged with its device, the BUFFER of each PARAM, and what each node has become."""

    sink: UOp
    buffers: tuple[UOp, ...]
    made: dict[UOp, UOp]


def parametrise(
    values: Sequence[UOp], realized: Callable[[UOp], UOp | None], default_device: str
) -> Parametrised:
    """The graph below `values` in its canonical form.  Raises: DeviceError for buffers of several devices."""
    made: dict[UOp, UOp] = {}
    buffers: list[UOp] = []
    stack = list(reversed(values))
    while stack:
        node = stack[-1]
        if node in made:
            stack.pop()
            continue
        if node.op is Ops.BUFFER:
            made[node] = _param(node, len(buffers))
            buffers.append(node)
            continue
        stored = realized(node)
        if stored is not None and stored.dtype is not node.dtype:
            stored = None  # a weak value was stored in another dtype, which its users do not expect
        needed = node.src[:1] if node.op in _MARKS else node.src if stored is None else (stored,)
        if stored is node:
            needed = node.src
        missing = [source for source in needed if source not in made]
        if missing:
            stack.extend(reversed(missing))
            continue
        made[node] = _remade(node, stored, made)
    return Parametrised(_sink(values, made, buffers, default_device), tuple(buffers), made)


def _remade(node: UOp, stored: UOp | None, made: dict[UOp, UOp]) -> UOp:
    if stored is not None and stored is not node:
        return made[stored]
    if node.op in _MARKS:
        return made[node.src[0]]
    sources = tuple(made[source] for source in node.src)
    return node if sources == node.src else node.replace(src=sources)


def _param(buffer: UOp, slot: int) -> UOp:
    arg = buffer.arg
    return UOp(Ops.PARAM, (), ParamArg(slot, arg.dtype, arg.size, arg.device))


def _sink(
    values: Sequence[UOp], made: dict[UOp, UOp], buffers: list[UOp], default_device: str
) -> UOp:
    devices = list(dict.fromkeys(buffer.arg.device for buffer in buffers))
    if len(devices) > 1:
        raise DeviceError(
            f"operands live on {' and '.join(devices)}",
            fix=f'move one of them first, e.g. x.to("{devices[0]}")',
        )
    device = devices[0] if devices else default_device
    return UOp(Ops.SINK, tuple(made[value] for value in values), None, device)
