"""Embeddings: a row of weights for each number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loomgrad.dtype import dtypes
from loomgrad.nn.module import Module
from loomgrad.nn.parameter import Parameter
from loomgrad.tensor import Tensor

if TYPE_CHECKING:
    from loomgrad.dtype.argument import DTypeLike


class Embedding(Module):
    """The rows of the weight that numbers name.

    **Shapes** numbers: (...) of ints -> (..., embedding_dim); weight: (num_embeddings, embedding_dim)

    The weight begins normal.  The row `padding_idx` begins as 0 and gets no gradient.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        dtype: DTypeLike = dtypes.default_float,
    ) -> None:
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        weight = Tensor.randn(num_embeddings, embedding_dim, dtype=dtype)
        if self.padding_idx is not None:
            numbers = Tensor.arange(num_embeddings).reshape(num_embeddings, 1)
            weight = (numbers == self.padding_idx).where(0, weight)
        self.weight = Parameter(weight)

    def forward(self, numbers: Tensor) -> Tensor:
        rows = self.weight[numbers]
        if self.padding_idx is None:
            return rows
        return (numbers == self.padding_idx).unsqueeze(-1).where(rows.detach(), rows)
