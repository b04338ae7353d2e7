"""The Tensor: its parts, one file per subject, put together."""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import Self

from loomgrad.tensor.interop import Interop


class Tensor(Interop):
    """An n-dimensional array with a dtype on a device, computed when its value is asked for.

        x = Tensor([[1.0, 2.0], [3.0, 4.0]])
        y = (x @ x.T).relu().sum()
        y.item()

    Operations only add nodes to a graph; `realize`, `numpy`, `item` and `tolist` compile and run what they need.
    """

    __slots__ = ()

    class train(ContextDecorator):
        """Inside, `Tensor.training` is true: `with Tensor.train():`."""

        def __init__(self, mode: bool = True) -> None:
            self._mode = mode
            self._before: list[bool] = []

        def __enter__(self) -> Self:
            self._before.append(Tensor.training)
            Tensor.training = self._mode
            return self

        def __exit__(self, *details: object) -> None:
            Tensor.training = self._before.pop()
