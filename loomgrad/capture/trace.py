"""One call of a function under a recording, and what comes of it: a capture that replays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from loomgrad.capture.replay import Plan, plan_of, stored
from loomgrad.capture.signature import HOLE, Flat, flatten, rebuild
from loomgrad.engine.recording import Recording, active
from loomgrad.engine.state import live_tensors, realized_value
from loomgrad.ir.shape import Shape
from loomgrad.ir.uop import UOp
from loomgrad.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Output:
    """A Tensor that the function gave back or changed: a numbered buffer seen in a shape.

    `tensor` is the one that takes the value; None stands for a new one, an int for an argument.
    """

    place: int
    shape: Shape
    device: str | None
    tensor: Tensor | int | None


@dataclass(slots=True)
class Capture:
    """A recorded call.  `result` is what it gave back, whose Tensors are in `returned`, in order."""

    plan: Plan
    arguments: list[int]
    captured: list[tuple[int, Tensor, Shape]]
    result: object
    returned: list[Output]
    changed: list[Output]
    kept: list[object]
    conditions: list[Callable[[], bool]]

    def fits(self) -> bool:
        """Whether the captured Tensors still have the shapes they had, and layers their modes."""
        shapes = all(tensor.shape == shape for _, tensor, shape in self.captured)
        return shapes and all(holds() for holds in self.conditions)

    def replay(self, arguments: Sequence[Tensor]) -> Any:
        """Runs the kernels on other arguments and on the captured Tensors as they are now."""
        given = [(p, t._buffer()) for p, t in zip(self.arguments, arguments, strict=True)]
        given += [(place, tensor._buffer()) for place, tensor, _ in self.captured]
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
        return rebuild(
            self.result,
            [
                _given_back(output, arguments, value(output) if output.tensor is None else None)
                for output in self.returned
            ],
        )


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
    aliases = [_Alias(tensor) for tensor in given.tensors]
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
    capture.kept.extend(given.kept)
    for output in capture.changed:
        if isinstance(output.tensor, int):
            given.tensors[output.tensor]._receive(aliases[output.tensor].tensor.uop)
    tensors = []
    for output, tensor in zip(capture.returned, returned.tensors, strict=True):
        stored_value = realized_value(tensor.uop)
        assert stored_value is not None or output.tensor is not None
        tensors.append(_given_back(output, given.tensors, stored_value))
    return capture, rebuild(result, tensors)


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
    changed += [alias.tensor for alias in aliases if alias.tensor.uop is not alias.uop]
    new = [tensor for tensor in returned.tensors if id(tensor) not in owner]
    leaving = [*changed, *new]
    if leaving:
        Tensor.realize(*leaving)
    nodes = [value.base for t in leaving if (value := realized_value(t.uop)) is not None]
    given = [*(alias.node for alias in aliases), *recording.captured]
    plan = plan_of(recording, given, nodes)
    place = {id(t): plan.number_of(node) for t, node in zip(leaving, nodes, strict=True)}

    def output(tensor: Tensor) -> Output:
        return Output(place.get(id(tensor), -1), tensor.shape, tensor.device, owner.get(id(tensor)))

    return Capture(
        plan=plan,
        arguments=[plan.number_of(alias.node) for alias in aliases],
        captured=[
            (plan.number_of(node), cast(Tensor, t), cast(Tensor, t).shape)
            for node, t in recording.captured.items()
        ],
        result=rebuild(result, [HOLE] * len(returned.tensors)),
        returned=[output(tensor) for tensor in returned.tensors],
        changed=[output(tensor) for tensor in changed],
        kept=returned.kept,
        conditions=recording.conditions,
    )


def _live() -> list[Tensor]:
    """All Tensors there are."""
    return [tensor for tensor in list(live_tensors) if isinstance(tensor, Tensor)]
