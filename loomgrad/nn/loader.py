"""Minibatches of Tensors."""

from __future__ import annotations

from collections.abc import Iterator

from loomgrad.errors import ShapeError
from loomgrad.nn.datasets import shuffled
from loomgrad.tensor import Tensor

LARGEST_SEED = 2**31 - 1


class TensorDataset:
    """Tensors whose first axes belong together: item i is `(x[i], y[i], ...)`."""

    def __init__(self, *tensors: Tensor) -> None:
        lengths = {len(tensor) for tensor in tensors}
        if len(lengths) != 1:
            raise ShapeError(
                f"the first axes must be equally long, not {', '.join(map(str, sorted(lengths)))}"
            )
        self.tensors = tensors

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, place: int | slice | Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor[place] for tensor in self.tensors)


class DataLoader:
    """The items of a data set, `batch_size` at a time, in an order that `shuffle` draws anew for each pass.

    The order depends on `manual_seed`.  The last batch is smaller, or with `drop_last` left out.
    """

    def __init__(
        self,
        dataset: TensorDataset,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
    ) -> None:
        if batch_size < 1:
            raise ShapeError(f"a batch of {batch_size} items")
        self.dataset, self.batch_size = dataset, batch_size
        self.shuffle, self.drop_last = shuffle, drop_last

    def __len__(self) -> int:
        rounded = 0 if self.drop_last else self.batch_size - 1
        return (len(self.dataset) + rounded) // self.batch_size

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        count = len(self.dataset)
        order = random_order(count) if self.shuffle else None
        for batch in range(len(self)):
            begin, end = batch * self.batch_size, min(count, (batch + 1) * self.batch_size)
            yield self.dataset[slice(begin, end) if order is None else Tensor(order[begin:end])]


def random_order(count: int) -> list[int]:
    """The numbers 0 .. count - 1 in an order that `manual_seed` decides."""
    return shuffled(count, int(Tensor.randint((), low=0, high=LARGEST_SEED).item()))
