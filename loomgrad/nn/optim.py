"""Optimizers: they give parameters new values, lazily, so that a whole step is computed at once.

No Python number that changes from step to step enters the graph: the learning rate and the powers of Adam's
betas are Tensors.  So every step but the first finds its kernels compiled.
"""

from __future__ import annotations

from collections.abc import Iterable

from loomgrad.dtype import dtypes
from loomgrad.errors import GradientError
from loomgrad.tensor import Tensor, no_grad


class Optimizer:
    """Changes parameters by their gradients.

    `lr` is a Tensor; `optimizer.lr.assign(0.01)` changes it without compiling anything anew.
    """

    def __init__(self, params: Iterable[Tensor], lr: float) -> None:
        self.params = list(dict.fromkeys(params))
        for param in self.params:
            param.requires_grad = True
        self.lr = Tensor.in_memory(lr)

    def zero_grad(self) -> None:
        """Forget the gradients; `backward` would add to them."""
        for param in self.params:
            param.grad = None

    def step(self) -> None:
        """Update the parameters by their gradients, now."""
        Tensor.realize(*self.schedule_step())

    def schedule_step(self) -> list[Tensor]:
        """Give the parameters their new values and return every Tensor that changed, to be realised.

        `loss.realize(*optimizer.schedule_step())` computes a loss and the step in one go.

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
        return changed

    def _begin(self) -> list[Tensor]:
        """What changes once per step."""
        return []

    def _update(self, place: int, param: Tensor, gradient: Tensor) -> list[Tensor]:
        """New values for one parameter and its state, all elementwise over one shape."""
        raise NotImplementedError


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

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(params, lr)
        self.b1, self.b2, self.eps, self.weight_decay = b1, b2, eps, weight_decay
        self.m = [zeros_for(param) for param in self.params]
        self.v = [zeros_for(param) for param in self.params]
        self.betas = Tensor.in_memory([b1, b2], dtypes.float64)
        # b1 and b2 to the power of the number of steps done, in float64: 1 - b2**t begins at 0.001.
        self.powers = Tensor.in_memory([1.0, 1.0], dtypes.float64)

    def _begin(self) -> list[Tensor]:
        self.powers.assign(self.powers * self.betas)
        self._rest = list(1.0 - self.powers)
        return [self.powers]

    def _update(self, place: int, param: Tensor, gradient: Tensor) -> list[Tensor]:
        m, v = self.m[place], self.v[place]
        m.assign(m * self.b1 + gradient * (1 - self.b1))
        v.assign(v * self.b2 + gradient * gradient * (1 - self.b2))
        rest = [part.cast(param.dtype) for part in self._rest]
        step = (m / rest[0]) / ((v / rest[1]).sqrt() + self.eps)
        if self.weight_decay:
            step = step + param * self.weight_decay
        return [param.assign(param - self.lr.cast(param.dtype) * step), m, v]


class Adam(AdamW):
    """Adam (Kingma and Ba, 2015): steps of the mean gradient over the root of its mean square."""

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-8,
    ) -> None:
        super().__init__(params, lr, b1, b2, eps, weight_decay=0.0)


def zeros_for(param: Tensor) -> Tensor:
    """Zeros in memory, in the shape of a parameter."""
    return Tensor.in_memory(0.0, param.dtype, param.device, param.shape)
