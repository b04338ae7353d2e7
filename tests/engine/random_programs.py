"""Random tensor programs: small shapes, whole numbers (so that sums are exact), shared values, several outputs."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from loomgrad import Tensor

SIZES = (1, 2, 3, 4, 5, 7, 8, 16, 17, 33)
MOST_ELEMENTS = 20_000


class Program:
    """The program of a seed: `outputs`, lazy, and `text`, how they were made."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.data = np.random.default_rng(seed)
        self.values = [self._input() for _ in range(self.choose.randint(1, 3))]
        self.text = [f"input {value.shape} {value.dtype.name}" for value in self.values]
        for _ in range(self.choose.randint(1, 12)):
            self._step()
        chosen = [v for v in self.values[1:] if self.choose.random() < 0.4]
        self.outputs = chosen or [self.values[-1] + 1]

    def _input(self) -> Tensor:
        shape = tuple(self.choose.choice(SIZES) for _ in range(self.choose.randint(0, 3)))
        kind = np.float32 if self.choose.random() < 0.8 else np.int32
        return Tensor(self.data.integers(-4, 5, shape).astype(kind))

    def _step(self) -> None:
        x = self.choose.choice(self.values)
        make = self.choose.choice(STEPS)
        try:
            made = make(self, x)
        except (ValueError, IndexError):  # shapes that do not broadcast: another step then
            return
        if 0 < made.numel() <= MOST_ELEMENTS:
            self.values.append(made)
            self.text.append(f"{make.__name__} of {x.shape} -> {made.shape}")

    def axis(self, x: Tensor) -> int:
        return self.choose.randrange(x.ndim)


def binary(program: Program, x: Tensor) -> Tensor:
    y = program.choose.choice(program.values)
    operations: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
        lambda a, b: a + b,
        lambda a, b: a * b,
        lambda a, b: a - b,
        lambda a, b: a.maximum(b),
        lambda a, b: (a < b).where(a, b),
        lambda a, b: (a == b).where(a, 3),
    )
    return program.choose.choice(operations)(x, y)


def total(program: Program, x: Tensor) -> Tensor:
    return x.sum(program.axis(x), keepdim=program.choose.random() < 0.5)


def greatest(program: Program, x: Tensor) -> Tensor:
    return x.max(program.axis(x), keepdim=program.choose.random() < 0.5)


def permuted(program: Program, x: Tensor) -> Tensor:
    order = list(range(x.ndim))
    program.choose.shuffle(order)
    return x.permute(*order) if order else x * 2


def padded(program: Program, x: Tensor) -> Tensor:
    some = program.choose.randint
    return x.pad(tuple((some(0, 3), some(0, 3)) for _ in x.shape))


def shrunk(program: Program, x: Tensor) -> Tensor:
    begins = [program.choose.randint(0, size - 1) for size in x.shape]
    ends = [program.choose.randint(b + 1, s) for b, s in zip(begins, x.shape, strict=True)]
    return x.shrink(tuple(zip(begins, ends, strict=True)))


def flipped(program: Program, x: Tensor) -> Tensor:
    return x.flip(tuple(axis for axis in range(x.ndim) if program.choose.random() < 0.5))


def reshaped(program: Program, x: Tensor) -> Tensor:
    count = x.numel()
    rows = program.choose.choice([n for n in range(1, count + 1) if count % n == 0])
    return x.reshape(rows, count // rows)


def activated(program: Program, x: Tensor) -> Tensor:
    return x.relu() + 1


def centred(program: Program, x: Tensor) -> Tensor:
    return x - x.sum()


def repeated(program: Program, x: Tensor) -> Tensor:
    return x.expand(program.choose.randint(1, 4), *x.shape)


def outer_sum(program: Program, x: Tensor) -> Tensor:
    if x.numel() > 200:
        return x * 3
    return (x.reshape(-1, 1) @ x.reshape(1, -1)).sum(0)


# fmt: off
STEPS = (binary, binary, binary, total, greatest, permuted, padded, shrunk, flipped, reshaped, activated, centred,
         repeated, outer_sum)
# fmt: on
