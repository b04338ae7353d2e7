"""Parameters: Tensors that training changes."""

from __future__ import annotations

from weakref import WeakValueDictionary

from loomgrad.tensor import Tensor

# Every Tensor made by `Parameter`, by identity: it stays a parameter while it is frozen.
_made: WeakValueDictionary[int, Tensor] = WeakValueDictionary()


def Parameter(data: object, requires_grad: bool = True) -> Tensor:
    """A Tensor for training to change, computed now: `self.scale = nn.Parameter(Tensor.ones(3))`.

    With `requires_grad = False` it is frozen: it is a parameter still, and optimizers leave it alone.
    """
    value = data.detach() if isinstance(data, Tensor) else data
    made = Tensor(value).realize()
    made.requires_grad = requires_grad
    _made[id(made)] = made
    return made


def is_parameter(tensor: Tensor) -> bool:
    """Whether training is meant to change it, now or when it is no longer frozen."""
    return tensor.requires_grad or is_declared(tensor)


def is_declared(tensor: Tensor) -> bool:
    """Whether `Parameter` made it, so that its `requires_grad` is a decision."""
    return id(tensor) in _made
