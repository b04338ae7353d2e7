"""Module: the base of layers and of models, with PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Self

from loomgrad.engine.recording import note_condition
from loomgrad.errors import UnsupportedError
from loomgrad.memory import Device
from loomgrad.nn.state import Keys, get_parameters, get_state_dict, held_by, load_state_dict
from loomgrad.tensor import Tensor


class Module:
    """What has parameters and turns Tensors into Tensors by its method `forward`.

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.l1 = nn.Linear(64, 10)

            def forward(self, x):
                return self.l1(x)

    **Mode.**  A model whose `__init__` calls this one is in training mode until `eval()` is called, as in PyTorch.
    A layer that is used by itself has no mode of its own and follows `with Tensor.train():`.  While a Module with
    a mode runs, `Tensor.training` is that mode.

    Its state is the Tensors among its attributes that require a gradient, and those that `buffer_names` names.
    """

    training: bool | None = None
    buffer_names: frozenset[str] = frozenset()
    forward: Callable[..., Tensor]

    def __init__(self) -> None:
        self.training = True

    def __call__(self, *inputs: object, **named: object) -> Tensor:
        """`forward`, in this module's mode."""
        if not hasattr(self, "forward"):
            raise UnsupportedError(
                f"{type(self).__name__} has no method forward",
                fix="give it one: `def forward(self, x):`, which returns a Tensor",
            )
        note_condition(partial(self._has_mode, self.training))
        if self.training is None or self.training is Tensor.training:
            return self.forward(*inputs, **named)
        with Tensor.train(self.training):
            return self.forward(*inputs, **named)

    # ---- mode

    def _has_mode(self, mode: bool | None) -> bool:
        return self.training is mode

    def train(self, mode: bool = True) -> Self:
        """Training mode, or with False evaluation mode, here and in all modules inside."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Evaluation mode: no dropout, and batch normalisation by the running statistics."""
        return self.train(False)

    # ---- what it holds

    def parameters(self) -> Iterator[Tensor]:
        """What training changes, each Tensor once."""
        return iter(get_parameters(self))

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        """What training changes, by name, each Tensor once."""
        seen: set[int] = set()
        for held in held_by(self):
            if held.is_parameter and id(held.tensor) not in seen:
                seen.add(id(held.tensor))
                yield (f"{prefix}.{held.name}" if prefix else held.name), held.tensor

    def buffers(self) -> Iterator[Tensor]:
        """What belongs to its state and is not trained, such as running statistics."""
        return (held.tensor for held in held_by(self) if not held.is_parameter)

    def children(self) -> Iterator[Module]:
        """The modules among its attributes."""
        return (child for _, child in self.named_children())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules among its attributes, also those in lists, tuples and dicts, by name."""
        return _modules_in(vars(self), "")

    def modules(self) -> Iterator[Module]:
        """This module and all inside, each once."""
        return (module for _, module in self.named_modules())

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all inside by name, each once."""
        seen: set[int] = set()
        pending: list[tuple[str, Module]] = [(prefix, self)]
        while pending:
            name, module = pending.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            yield name, module
            inner = [(f"{name}.{key}" if name else key, m) for key, m in module.named_children()]
            pending.extend(reversed(inner))

    def apply(self, function: Callable[[Module], object]) -> Self:
        """Call a function with each module inside, children first, and with this one."""
        for child in self.children():
            child.apply(function)
        function(self)
        return self

    # ---- state

    def state_dict(self, prefix: str = "") -> dict[str, Tensor]:
        """Parameters and buffers by name; the Tensors themselves, not copies."""
        return get_state_dict(self, prefix)

    def load_state_dict(self, state: Mapping[str, Tensor], strict: bool = True) -> Keys:
        """Take the values of a state.  Raises DataError with a table of all keys that do not fit."""
        return load_state_dict(self, state, strict)

    def register_buffer(self, name: str, tensor: Tensor) -> None:
        """An attribute that belongs to the state but is not trained."""
        self.buffer_names = self.buffer_names | {name}
        setattr(self, name, tensor)

    def register_parameter(self, name: str, parameter: Tensor) -> None:
        """An attribute that is trained."""
        setattr(self, name, parameter)

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for parameter in self.parameters():
            parameter.grad = None

    def requires_grad_(self, wanted: bool = True) -> Self:
        """Whether parameters get gradients: `model.features.requires_grad_(False)` freezes a part."""
        for parameter in self.parameters():
            parameter.requires_grad = wanted
        return self

    def to(self, device: str) -> Self:
        """This module, whose state must be on `device` already: moving it does not exist yet."""
        place = Device.canonicalize(device)
        for held in held_by(self):
            if held.tensor.device != place:
                raise UnsupportedError(
                    f"{held.name} is on {held.tensor.device}; modules cannot be moved to {place} yet",
                    fix=f'make it there: Device.DEFAULT = "{place}"',
                )
        return self

    def __repr__(self) -> str:
        """As PyTorch prints it: the modules inside by name; of a layer, the shapes of its state."""
        inside = [f"({name}): {child!r}" for name, child in self.named_children()]
        if inside:
            lines = "\n".join(inside).replace("\n", "\n  ")
            return f"{type(self).__name__}(\n  {lines}\n)"
        shapes = ", ".join(f"{held.name}={held.tensor.shape}" for held in held_by(self))
        return f"{type(self).__name__}({shapes})"


def _modules_in(holder: object, name: str) -> Iterator[tuple[str, Module]]:
    """The nearest modules in dicts, lists and tuples."""
    if isinstance(holder, Module):
        yield name, holder
    elif isinstance(holder, Mapping):
        for key, value in holder.items():
            yield from _modules_in(value, f"{name}.{key}" if name else str(key))
    elif isinstance(holder, (list, tuple)):
        for place, value in enumerate(holder):
            yield from _modules_in(value, f"{name}.{place}" if name else str(place))
