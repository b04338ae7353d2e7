"""Gradients of Tensors: `backward`, `gradient`, `detach`, `no_grad`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ContextDecorator
from contextvars import Token
from typing import Self

from loomgrad.errors import GradientError, ShapeError
from loomgrad.ir.uop import UOp
from loomgrad.rules.differentiate import gradients
from loomgrad.tensor.assignment import Assignment
from loomgrad.tensor.core import ends_of_history, leaves, recording
from loomgrad.tensor.pending import await_step


class no_grad(ContextDecorator):
    """Inside, results are constants to gradients: `with no_grad():`, `@no_grad()`."""

    def __init__(self) -> None:
        self._tokens: list[Token[bool]] = []

    def __enter__(self) -> Self:
        self._tokens.append(recording.set(False))
        return self

    def __exit__(self, *details: object) -> None:
        recording.reset(self._tokens.pop())

    def _recreate_cm(self) -> Self:
        return type(self)()


class Autograd(Assignment):
    """Gradients come from rules over the graph; they are Tensors like any others."""

    __slots__ = ()

    def backward(self, gradient: Self | None = None) -> Self:
        """Add to `grad` of every tensor below that requires a gradient.  The result is this tensor.

        The step of an optimizer that follows computes this tensor as well.

        **Raises** GradientError if none does, or if this is not a scalar and no `gradient` says how its elements
        count.
        """
        seed = self._seed(gradient)
        candidates = [
            leaf for leaf in leaves.values() if isinstance(leaf, Autograd) and leaf is not self
        ]
        found = self._gradients(seed, candidates)
        reached = [leaf for leaf in candidates if leaf in found]
        if not reached:
            raise GradientError(
                "backward() found no tensor that requires a gradient",
                fix="make the parameters with requires_grad=True, or use y.gradient(x)",
            )
        for leaf in reached:
            new = type(self)._of(found[leaf], leaf.device)
            leaf.grad = new if leaf.grad is None else leaf.grad.detach() + new
        await_step(self)
        return self

    def gradient(self, *targets: Self, gradient: Self | None = None) -> list[Self]:
        """The gradient of this scalar with respect to each target, whether it requires one or not.

        `gradient` weights the elements of this tensor if it is not a scalar.  A target is a value: everything that
        was computed in the same way from the same tensors.  Leaves (`requires_grad_()`) are values of their own.

        **Raises** GradientError for a target that this tensor was not computed from, or of an integer dtype, and
        for two targets that are one value.
        """
        seed = self._seed(gradient)
        for target in targets:
            if not target.dtype.is_float:
                raise GradientError(
                    f"there is no gradient for a tensor of {target.dtype.name}",
                    fix="compute with a float, e.g. x = x.float(), and take its gradient",
                )
        _check_apart(targets)
        found = self._gradients(seed, targets)
        for position, target in enumerate(targets):
            if target not in found:
                raise self._unreachable(position, target)
        tracked = recording.get() and (self._tracked or any(t._requires_grad for t in targets))
        return [type(self)._of(found[target], target.device, tracked) for target in targets]

    def _seed(self, gradient: Self | None) -> UOp:
        if not self.dtype.is_float:
            raise GradientError(
                f"gradients start at a float, not at {self.dtype.name}",
                fix="cast it, e.g. x.float()",
            )
        if gradient is None:
            if self.numel() != 1:
                raise GradientError(
                    f"gradients start at a scalar, not at shape {self.shape}",
                    fix="use .sum() or .mean(), or say how the elements count: "
                    "y.backward(gradient=weights)",
                )
            return UOp.const(1.0, self.dtype)
        if gradient.shape != self.shape:
            raise ShapeError(
                f"the gradient of a tensor of shape {self.shape} cannot have shape {gradient.shape}"
            )
        return gradient.cast(self.dtype).uop

    def _gradients(self, seed: UOp, targets: Sequence[Autograd]) -> dict[Autograd, UOp]:
        """The gradients of the targets that are below; a realised target also by the node it had before."""
        nodes = {target: target._own_nodes() for target in targets}
        wanted = list(dict.fromkeys(node for own in nodes.values() for node in own))
        found = gradients(self.uop, seed, wanted)
        result: dict[Autograd, UOp] = {}
        for target, own in nodes.items():
            pieces = [found[node] for node in own if node in found]
            if pieces:
                total = pieces[0]
                for piece in pieces[1:]:
                    total = total + piece
                result[target] = total
        return result

    def _own_nodes(self) -> list[UOp]:
        former = None if self._former is None else self._former()
        return [self.uop] if former is None or former is self.uop else [self.uop, former]

    def _unreachable(self, position: int, target: Autograd) -> GradientError:
        reason = "it was not computed from it"
        gone = [node for node in self.uop.toposort() if node in ends_of_history]
        if any(node not in target._own_nodes() for node in gone):
            whose = "its history" if self.uop in gone else "the history of a value on the way"
            reason = f"{whose} went when it was realised, as nothing it needed requires a gradient"
        return GradientError(
            f"the tensor has no gradient for target {position}: {reason}",
            target=repr(target),
            fix="check for detach(), no_grad and casts to ints on the way; "
            "x.requires_grad = True keeps the history of what is computed from x afterwards",
        )


def _check_apart(targets: Sequence[Autograd]) -> None:
    """Raises GradientError for different Tensors of one value: its uses are not told apart."""
    places: dict[UOp, int] = {}
    for position, target in enumerate(targets):
        for node in target._own_nodes():
            first = places.setdefault(node, position)
            if targets[first] is not target:
                raise GradientError(
                    f"targets {first} and {position} are one value, computed in the same way",
                    target=repr(target),
                    fix="make each a leaf before it is used: a = a.detach().requires_grad_()",
                )
