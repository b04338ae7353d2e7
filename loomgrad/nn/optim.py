"""Optimizers: they give parameters new values, lazily, so that a whole step is computed at once.

No Python number that changes from step to step enters the graph: the learning rate and the powers of Adam's
betas are Tensors.  So every step but the first finds its kernels compiled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from loomgrad.dtype import dtypes
from loomgrad.errors import ArgumentError, GradientError, UnsupportedError
from loomgrad.nn.parameter import is_declared
from loomgrad.nn.state import get_state_dict, load_state_dict
from loomgrad.tensor import Tensor, no_grad
from loomgrad.tensor.pending import take_waiting


class Optimizer(ABC):
    """Changes parameters by their gradients.

    `lr` is a Tensor; `optimizer.lr = 0.01` and `optimizer.lr.assign(0.01)` change its value, without compiling
    anything anew.
    """

    def __init__(self, params: Iterable[Tensor], lr: float) -> None:
        """Parameters of layers that are frozen stay so; all other Tensors are made to require a gradient.

        **Raises** GradientError if there are no parameters, ArgumentError for a Tensor instead of a list.
        """
        self.params = _checked(params)
        for param in self.params:
            if not is_declared(param):
                param.requires_grad = True
        Tensor.realize(*self.params)
        vars(self)["lr"] = Tensor.in_memory(lr)

    @property
    def lr(self) -> Tensor:
        """The learning rate: one Tensor, whose value changes."""
        rate: Tensor = vars(self)["lr"]
        return rate

    @lr.setter
    def lr(self, rate: Tensor | float) -> None:
        self.lr.assign(rate)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients; `backward` would add to them.  They become None, whatever is asked for."""
        for param in self.params:
            param.grad = None

    def step(self) -> None:
        """Update the parameters by their gradients, now."""
        Tensor.realize(*self.schedule_step())

    def schedule_step(self) -> list[Tensor]:
        """Give the parameters their new values and return every Tensor that changed, to be realised.

        `loss.realize(*optimizer.schedule_step())` computes a loss and the step in one go.  Losses whose gradients
        were taken, and statistics that layers gathered, are among them.

        **Raises** GradientError if no parameter has a gradient.
        """
        pairs = [
            (place, param, param.grad)
            for place, param in enumerate(self.params)
            if param.grad is not None
        ]
        if not pairs:
            raise GradientError(
                "no parameter has a gradient", fix="call loss.backward() before the step"
            )
        changed: list[Tensor] = []
        with no_grad():
            changed.extend(self._begin())
            for place, param, gradient in pairs:
                changed.extend(self._update(place, param, gradient))
        changed.extend(tensor for tensor in take_waiting() if isinstance(tensor, Tensor))
        return changed

    @property
    def param_groups(self) -> list[Group]:
        """PyTorch's way to the learning rate: `optimizer.param_groups[0]["lr"] = 0.01`."""
        return [Group(self)]

    def state_dict(self) -> dict[str, Tensor]:
        """The learning rate and what the optimizer remembers, by name."""
        return get_state_dict(self._memory())

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on where the optimizer that gave this state was.  Raises DataError if it does not fit."""
        load_state_dict(self._memory(), state)

    def _memory(self) -> dict[str, object]:
        own = vars(self).items()
        return {name: value for name, value in own if name != "params" and name[0] != "_"}

    def _begin(self) -> list[Tensor]:
        """What changes once per step."""
        return []

    @abstractmethod
    def _update(self, place: int, param: Tensor, gradient: Tensor) -> list[Tensor]:
        """New values for one parameter and its state, all elementwise over one shape."""


class Group:
    """The one group of parameters of an optimizer."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer

    def __getitem__(self, name: str) -> object:
        found: object = getattr(self._optimizer, name)
        return found.item() if isinstance(found, Tensor) else found

    def __setitem__(self, name: str, value: float) -> None:
        if name != "lr":
            raise UnsupportedError(f"{name} is fixed when the optimizer is made")
        self._optimizer.lr.assign(value)


class SGD(Optimizer):
    """Gradient descent, with momentum and, if `nesterov`, a look ahead along it."""

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.001,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        super().__init__(params, lr)
        self.momentum, self.weight_decay, self.nesterov = momentum, weight_decay, nesterov
        self.velocity = [zeros_for(param) for param in self.params] if momentum else []

    def _update(self, place: int, param: Tensor, gradient: Tensor) -> list[Tensor]:
        if self.weight_decay:
            gradient = gradient + param * self.weight_decay
        lr = self.lr.cast(param.dtype)
        if not self.momentum:
            return [param.assign(param - lr * gradient)]
        velocity = self.velocity[place]
        velocity.assign(velocity * self.momentum + gradient)
        direction = gradient + velocity * self.momentum if self.nesterov else velocity
        return [param.assign(param - lr * direction), velocity]


class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019)."""

    decoupled = True

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        betas: tuple[float, float] | None = None,
    ) -> None:
        """`betas` is another spelling of `(b1, b2)`."""
        super().__init__(params, lr)
        self.b1, self.b2 = (b1, b2) if betas is None else betas
        self.eps, self.weight_decay = eps, weight_decay
        self.m = [zeros_for(param) for param in self.params]
        self.v = [zeros_for(param) for param in self.params]
        self.betas = Tensor.in_memory([self.b1, self.b2], dtypes.float64)
        # b1 and b2 to the power of the number of steps done, in float64: 1 - b2**t begins at 0.001.
        self.powers = Tensor.in_memory([1.0, 1.0], dtypes.float64)

    def _begin(self) -> list[Tensor]:
        self.powers.assign(self.powers * self.betas)
        self._rest = list(1.0 - self.powers)
        return [self.powers]

    def _update(self, place: int, param: Tensor, gradient: Tensor) -> list[Tensor]:
        if self.weight_decay and not self.decoupled:
            gradient = gradient + param * self.weight_decay
        m, v = self.m[place], self.v[place]
        m.assign(m * self.b1 + gradient * (1 - self.b1))
        v.assign(v * self.b2 + gradient * gradient * (1 - self.b2))
        rest = [part.cast(param.dtype) for part in self._rest]
        step = (m / rest[0]) / ((v / rest[1]).sqrt() + self.eps)
        if self.weight_decay and self.decoupled:
            step = step + param * self.weight_decay
        return [param.assign(param - self.lr.cast(param.dtype) * step), m, v]


class Adam(AdamW):
    """Adam (Kingma and Ba, 2015): steps of the mean gradient over the root of its mean square.

    `weight_decay` adds to the gradient, as in PyTorch's class of this name.
    """

    decoupled = False

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        betas: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(params, lr, b1, b2, eps, weight_decay, betas)


def zeros_for(param: Tensor) -> Tensor:
    """Zeros in memory, in the shape of a parameter."""
    return Tensor.in_memory(0.0, param.dtype, param.device, param.shape)


def _checked(params: Iterable[Tensor]) -> list[Tensor]:
    """The parameters, each once."""
    if isinstance(params, Tensor):
        raise ArgumentError(
            "an optimizer takes a list of Tensors, not one", fix="pass a list, e.g. SGD([w])"
        )
    found = list(params)
    for param in found:
        if not isinstance(param, Tensor):
            raise UnsupportedError(
                f"an optimizer takes Tensors, not a {type(param).__name__}",
                fix="give it model.parameters(); for groups with their own settings, use an optimizer each",
            )
    if not found:
        raise GradientError(
            "an optimizer needs parameters", fix="give it model.parameters(), anew for each"
        )
    return list(dict.fromkeys(found))
