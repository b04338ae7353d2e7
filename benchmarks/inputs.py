"""The numbers that go into a workload: the same in every framework."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Inputs:
    """Random numbers from a generator that the name of the workload seeds."""

    def __init__(self, name: str) -> None:
        self._random = np.random.default_rng(sum(map(ord, name)))

    def normal(self, *shape: int, scale: float = 1.0, mean: float = 0.0) -> NDArray[np.float32]:
        """Normally distributed numbers."""
        drawn = self._random.standard_normal(shape) * scale
        return drawn.astype(np.float32) + np.float32(mean)

    def classes(self, count: int, among: int) -> NDArray[np.int32]:
        """Labels from 0 to `among` - 1."""
        return self._random.integers(0, among, count).astype(np.int32)
