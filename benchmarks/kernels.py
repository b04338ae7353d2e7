"""A few kernels beside NumPy, in one run: milliseconds, GFLOP/s or GB/s, and the ratio.

    python benchmarks/kernels.py

Each is timed as a user sees it, from the expression to its result, after the first call; the graph is built,
the schedule found and the kernel launched anew each time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

# Settings for old processors' OpenBLAS would make the reference slow.
for _name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(_name, None)

import numpy as np

from loomgrad import Tensor

SECONDS = 1.0
LARGE = 1 << 23


@dataclass(frozen=True, slots=True)
class Workload:
    """The same arithmetic in both libraries."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    ours: Callable[..., Tensor]
    numpys: Callable[..., np.ndarray]
    flops: int = 0
    moved: int = 0


def matmul(n: int) -> Workload:
    return Workload(
        f"matmul {n}", ((n, n), (n, n)), lambda a, b: a @ b, lambda a, b: a @ b, flops=2 * n**3
    )


def linear(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.maximum(x @ w + b, 0)


# fmt: off
WORKLOADS = (
    matmul(256), matmul(512), matmul(1024),
    Workload("linear + relu",  ((512, 768), (768, 3072), (3072,)), lambda x, w, b: (x @ w + b).relu(), linear,           flops=2 * 512 * 768 * 3072),
    Workload("x*2 + 1",        ((LARGE,),),                        lambda x: x * 2 + 1,                lambda x: x * 2 + 1, moved=8 * LARGE),

    Workload("sum",            ((LARGE,),),                        lambda x: x.sum(),                  np.sum,           moved=4 * LARGE),
    Workload("sum axis 0",     ((4096, 2048),),                    lambda x: x.sum(0),                 lambda x: x.sum(0), moved=4 * LARGE),
    Workload("max axis 1",     ((4096, 2048),),                    lambda x: x.max(1),                 lambda x: x.max(1), moved=4 * LARGE),
)
# fmt: on


def best_seconds(run: Callable[[], object]) -> float:
    """The least time of many runs."""
    best = float("inf")
    end = perf_counter() + SECONDS
    while perf_counter() < end:
        start = perf_counter()
        run()
        best = min(best, perf_counter() - start)
    return best


def main() -> None:
    random = np.random.default_rng(0)
    for work in WORKLOADS:
        arrays = [random.standard_normal(shape).astype(np.float32) for shape in work.shapes]
        tensors = [Tensor(array).realize() for array in arrays]
        start = perf_counter()
        result = work.ours(*tensors).numpy()
        first = perf_counter() - start
        error = float(np.abs(result - work.numpys(*arrays)).max())
        ours = best_seconds(lambda work=work, t=tensors: work.ours(*t).realize())
        numpys = best_seconds(lambda work=work, a=arrays: work.numpys(*a))
        rate = (
            f"{work.flops / ours * 1e-9:6.1f} GFLOP/s"
            if work.flops
            else f"{work.moved / ours * 1e-9:6.1f} GB/s"
        )
        print(
            f"{work.name:<16} first {first * 1e3:7.1f} ms   {ours * 1e3:8.3f} ms  {rate:<16} "
            f"numpy {numpys * 1e3:8.3f} ms   {numpys / ours:5.2f}x   largest difference {error:.1e}"
        )


if __name__ == "__main__":
    main()
