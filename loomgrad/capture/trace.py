"""One call of a function under a recording, and what comes of it: a capture that replays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from loomgrad.capture.replay import Plan, plan_of, stored
from loomgrad.capture.signature import HOLE, Flat, flatten, rebuild
from loomgrad.engine.recording import Recording, active
from loomgrad.engine.state import live_tensors, realized_value
from loomgrad.errors import CaptureError
from loomgrad.ir.shape import Shape
from loomgrad.ir.uop import UOp
from loomgrad.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Output:
    """A Tensor that the function gave back or changed: a numbered buffer seen in a shape.

    `tensor` is the one that takes the value; None stands for a new one, an int for an argument.  `twin` is the place
    in the result where the same Tensor stands first.
    """

    place: int
    shape: Shape
    device: str | None
    tensor: Tensor | int | None
    twin: int | None = None


@dataclass(slots=True)
class Capture:
    """A recorded call.  `result` is what it gave back, whose Tensors are in `returned`, in order."""

    plan: Plan
    arguments: list[int]
    captured: list[tuple[int, Tensor, Shape, bool]]
    result: object
    returned: list[Output]
    changed: list[Output]
    kept: list[object]
    conditions: list[Callable[[], bool]]

    def fits(self) -> bool:
        """Whether the captured Tensors are of the shape and kind they were, and layers in their modes."""
        same = all(
            t.shape == shape and t.requires_grad is kind for _, t, shape, kind in self.captured
        )
        return same and all(holds() for holds in self.conditions)

    def replay(self, arguments: Sequence[Tensor]) -> Any:
        """Runs the kernels on other arguments and on the captured Tensors as they are now."""
        if self.changed:
            _refuse_captured(arguments, [tensor for _, tensor, _, _ in self.captured])
        given = [(p, t._buffer()) for p, t in zip(self.arguments, arguments, strict=True)]
        given += [(place, tensor._buffer()) for place, tensor, _, _ in self.captured]
        buffers = self.plan.run(given)
        nodes: dict[int, UOp] = {}

        def value(output: Output) -> UOp:
            if output.place not in nodes:
                nodes[output.place] = stored(buffers[output.place])
            return nodes[output.place].reshape(output.shape)

        for output in self.changed:
            if isinstance(output.tensor, int):
                arguments[output.tensor]._receive(value(output))
            elif output.tensor is not None:
                output.tensor._take(value(output))
        values = [value(output) if output.tensor is None else None for output in self.returned]
        return rebuild(self.result, _all_given_back(self.returned, arguments, values))


def _refuse_captured(arguments: Sequence[Tensor], captured: Sequence[Tensor]) -> None:
    """A Tensor under two names, one of which is written, would have two values."""
    known = {id(tensor) for tensor in captured}
    for tensor in arguments:
        if id(tensor) in known:
            raise CaptureError(
                "an argument is also used from outside by a captured function that writes",
                shape=tensor.shape,
                fix="pass it as an argument only, or use it from outside only",
            )


def _all_given_back(
    outputs: Sequence[Output], arguments: Sequence[Tensor], values: Sequence[UOp | None]
) -> list[Tensor]:
    """The Tensors of a result; one that stands at two places is one."""
    made: list[Tensor] = []
    for output, value in zip(outputs, values, strict=True):
        twin = output.twin
        made.append(_given_back(output, arguments, value) if twin is None else made[twin])
    return made


def _given_back(output: Output, arguments: Sequence[Tensor], value: UOp | None) -> Tensor:
    """A Tensor of the result: one from outside itself, or a new one of a value."""
    if isinstance(output.tensor, int):
        return arguments[output.tensor]
    if output.tensor is not None:
        return output.tensor
    assert value is not None
    return Tensor._of(value, output.device)


def trace(
    function: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Capture, Any]:
    """Calls the function once, for real; its capture and its result.

    Gradients that are left on Tensors from outside do not survive the capture: a replay would not renew them.
    """
    given = flatten((args, kwargs))
    before = [(tensor, tensor.uop, tensor.grad) for tensor in _live()]
    recording = Recording(outside={id(tensor): (tensor, uop) for tensor, uop, _ in before})
    made: dict[int, _Alias] = {}
    for tensor in given.tensors:
        if id(tensor) not in made:
            made[id(tensor)] = _Alias(tensor)
    aliases = [made[id(tensor)] for tensor in given.tensors]
    token = active.set(recording)
    try:
        new_args, new_kwargs = rebuild((args, kwargs), [alias.tensor for alias in aliases])
        result = function(*new_args, **new_kwargs)
        returned = flatten(result)
        capture = _capture(recording, aliases, result, returned)
    finally:
        active.reset(token)
        for tensor, uop, gradient in before:
            tensor.grad = gradient
            if id(tensor) in recording.apart and tensor.uop is recording.outside[id(tensor)][1]:
                tensor.uop = uop
    if capture.changed:
        _refuse_captured(given.tensors, [tensor for _, tensor, _, _ in capture.captured])
    leaf_of = {id(gradient): leaf for leaf, _, gradient in before if gradient is not None}
    for _, tensor, _, _ in capture.captured:
        if id(tensor) in leaf_of:  # a later gradient is another Tensor
            capture.conditions.append(functools.partial(_is_gradient, leaf_of[id(tensor)], tensor))
    capture.kept.extend(given.kept)
    for output in capture.changed:
        if isinstance(output.tensor, int):
            given.tensors[output.tensor]._receive(aliases[output.tensor].tensor.uop)
    values = [realized_value(tensor.uop) for tensor in returned.tensors]
    return capture, rebuild(result, _all_given_back(capture.returned, given.tensors, values))


def _is_gradient(leaf: Tensor, tensor: Tensor) -> bool:
    return leaf.grad is tensor


class _Alias:
    """What a function gets for an argument: another Tensor over the same memory, under a BUFFER of its own."""

    def __init__(self, tensor: Tensor) -> None:
        self.node, seen = tensor._apart()
        self.tensor = Tensor._of(seen, tensor.device)
        self.tensor.requires_grad = tensor.requires_grad
        self.uop = self.tensor.uop


def _capture(
    recording: Recording, aliases: list[_Alias], result: object, returned: Flat
) -> Capture:
    """Realises what the function gave back or changed, and makes the plan."""
    outside = {key: (cast(Tensor, t), uop) for key, (t, uop) in recording.outside.items()}
    owner: dict[int, Tensor | int] = {key: t for key, (t, _) in outside.items()}
    owner.update({id(alias.tensor): place for place, alias in enumerate(aliases)})
    changed = [t for t, uop in outside.values() if t.uop is not uop]
    apart = list(dict.fromkeys(aliases))
    changed += [alias.tensor for alias in apart if alias.tensor.uop is not alias.uop]
    new = [tensor for tensor in returned.tensors if id(tensor) not in owner]
    leaving = [*changed, *new]
    if leaving:
        Tensor.realize(*leaving)
    nodes = [value.base for t in leaving if (value := realized_value(t.uop)) is not None]
    given = [*(alias.node for alias in aliases), *recording.captured]
    plan = plan_of(recording, given, nodes)
    place = {id(t): plan.number_of(node) for t, node in zip(leaving, nodes, strict=True)}

    def output(tensor: Tensor, twin: int | None = None) -> Output:
        number, holder = place.get(id(tensor), -1), owner.get(id(tensor))
        return Output(number, tensor.shape, tensor.device, holder, twin)

    first: dict[int, int] = {}
    twins = [first.setdefault(id(t), i) for i, t in enumerate(returned.tensors)]

    return Capture(
        plan=plan,
        arguments=[plan.number_of(alias.node) for alias in aliases],
        captured=[
            (plan.number_of(node), t, t.shape, t.requires_grad)
            for node, t in cast(dict[UOp, Tensor], recording.captured).items()
        ],
        result=rebuild(result, [HOLE] * len(returned.tensors)),
        returned=[
            output(tensor, None if twin == i else twin)
            for i, (tensor, twin) in enumerate(zip(returned.tensors, twins, strict=True))
        ],
        changed=[output(tensor) for tensor in changed],
        kept=returned.kept,
        conditions=recording.conditions,
    )


def _live() -> list[Tensor]:
    """All Tensors there are."""
    return [tensor for tensor in list(live_tensors) if isinstance(tensor, Tensor)]
