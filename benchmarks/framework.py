"""The vocabulary that every workload is written in; `frameworks.py` spells it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float32]


class Array(Protocol):
    """What the tensors of all frameworks have in common."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    def __add__(self, other: Self | float, /) -> Self: ...
    def __sub__(self, other: Self | float, /) -> Self: ...
    def __mul__(self, other: Self | float, /) -> Self: ...
    def __matmul__(self, other: Self, /) -> Self: ...
    def __neg__(self) -> Self: ...
    def __getitem__(self, key: tuple[slice, ...], /) -> Self: ...
    def reshape(self, *sizes: int) -> Self: ...
    def sum(self, axis: int | None = None, /) -> Self: ...
    def mean(self) -> Self: ...


Step = Callable[[], Array]
Function = Callable[..., Array]
Unary = Callable[[Array], Array]
Loss = Callable[[Sequence[Array]], Array]


class Framework(ABC):
    """An adapter fills in the operations when it is made."""

    trains = True  # has gradients

    tensor: Callable[[Numbers], Array]  # the numbers where the framework computes
    labels: Callable[[NDArray[np.int32]], Array]  # classes as cross_entropy takes them
    exp: Unary
    tanh: Unary
    sigmoid: Unary
    relu: Unary
    gelu: Unary  # by way of tanh
    softmax: Unary  # of the last axis
    copied: Unary  # in memory, if it was a view
    max_pool2d: Unary  # of two by two
    greatest: Callable[[Array, int], Array]
    swapped: Callable[[Array, int, int], Array]
    joined: Callable[[Sequence[Array], int], Array]
    layer_norm: Callable[[Array, Array, Array, float], Array]  # x, scale, shift, epsilon
    cross_entropy: Callable[[Array, Array], Array]  # the mean over scores (n, classes), labels (n,)

    @abstractmethod
    def conv2d(
        self, x: Array, weight: Array, stride: int = 1, padding: int = 0, groups: int = 1
    ) -> Array:
        """**Shapes** x: (n, c, rows, columns), weight: (o, c / groups, rows, columns)"""

    @abstractmethod
    def attention(self, query: Array, key: Array, value: Array, causal: bool) -> Array:
        """**Shapes** query, key, value: (n, heads, length, width / heads) -> the same"""

    def compiled(self, run: Function) -> Function:
        """The function in the form in which the framework runs it fastest."""
        return run

    def training_step(self, parameters: Sequence[Numbers], loss: Loss) -> Step:
        """Each call changes the parameters by a step of Adam and gives the loss before it.

        **Raises** TypeError where `trains` is false.
        """
        raise TypeError(f"{type(self).__name__} has no gradients")

    def finish(self, result: Array) -> None:
        """Wait until the result is there; where nothing is deferred, looking at it costs nothing."""
        self.numpy(result)

    def numpy(self, result: Array) -> Numbers:
        """The result as a NumPy array."""
        return np.asarray(result)
