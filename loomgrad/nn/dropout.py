"""Dropout."""

from __future__ import annotations

from loomgrad.errors import ShapeError
from loomgrad.nn.module import Module
from loomgrad.tensor import Tensor


class Dropout(Module):
    """In training mode, 0 with probability `p`, and what is left times 1 / (1 - p)."""

    def __init__(self, p: float = 0.5) -> None:
        if not 0 <= p <= 1:
            raise ShapeError(f"a probability is between 0 and 1, not {p}")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return x.dropout(self.p)
