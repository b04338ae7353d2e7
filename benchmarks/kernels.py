"""A few kernels beside NumPy, in one run: milliseconds, GFLOP/s or GB/s, and the ratio.

    python benchmarks/kernels.py

Each is timed as a user sees it, from the expression to its result, after the first call: the graph is built, the
schedule found and the kernel launched anew each time.  Settings that make OpenBLAS slow are taken out first.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

SLOWING_SETTINGS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
SECONDS = 1.0
LARGE = 1 << 23


@dataclass(frozen=True, slots=True)
class Workload:
    """The same arithmetic in both libraries; `xp` is NumPy, or None for a Tensor."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    run: Callable[..., Any]
    flops: int = 0
    moved: int = 0


def exp(xp: Any, x: Any) -> Any:
    return x.exp() if xp is None else xp.exp(x)


def linear(xp: Any, x: Any, w: Any, b: Any) -> Any:
    y = x @ w + b
    return y.relu() if xp is None else xp.maximum(y, 0)


def matmul(n: int) -> Workload:
    return Workload(f"matmul {n}", ((n, n), (n, n)), lambda xp, a, b: a @ b, flops=2 * n**3)


# fmt: off
WORKLOADS = (
    matmul(256),
    matmul(512),
    matmul(1024),
    Workload("linear + relu", ((512, 768), (768, 3072), (3072,)), linear, flops=2 * 512 * 768 * 3072),
    Workload("x*2 + 1",       ((LARGE,),),     lambda xp, x: x * 2 + 1, moved=8 * LARGE),
    Workload("exp",           ((LARGE,),),     exp,                     moved=8 * LARGE),
    Workload("sum",           ((LARGE,),),     lambda xp, x: x.sum(),   moved=4 * LARGE),
    Workload("sum axis 0",    ((4096, 2048),), lambda xp, x: x.sum(0),  moved=4 * LARGE),
    Workload("max axis 1",    ((4096, 2048),), lambda xp, x: x.max(1),  moved=4 * LARGE),
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


def measure(work: Workload) -> str:
    """A line of the report."""
    import numpy as np

    from loomgrad import Tensor

    random = np.random.default_rng(0)
    arrays = [random.standard_normal(shape).astype(np.float32) for shape in work.shapes]
    tensors = [Tensor(array).realize() for array in arrays]
    start = perf_counter()
    result = work.run(None, *tensors).numpy()
    first = perf_counter() - start
    error = float(np.abs(result - work.run(np, *arrays)).max())
    ours = best_seconds(lambda: work.run(None, *tensors).realize())
    numpys = best_seconds(lambda: work.run(np, *arrays))
    unit, amount = ("GFLOP/s", work.flops) if work.flops else ("GB/s", work.moved)
    return (
        f"{work.name:<14} first {first * 1e3:7.1f} ms {ours * 1e3:8.3f} ms "
        f"{amount / ours * 1e-9:6.1f} {unit:<7}   numpy {numpys * 1e3:8.3f} ms "
        f"{numpys / ours:6.2f}x   largest difference {error:.1e}"
    )


def main() -> None:
    for name in SLOWING_SETTINGS:
        os.environ.pop(name, None)
    for work in WORKLOADS:
        print(measure(work))


if __name__ == "__main__":
    main()
