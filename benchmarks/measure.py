"""One workload in one framework, in this process: prints a line of JSON.

python -m benchmarks.measure FRAMEWORK WORKLOAD SECONDS
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from statistics import median
from time import perf_counter

import numpy as np

from benchmarks.framework import Array, Framework, Numbers, Step
from benchmarks.frameworks import FRAMEWORKS
from benchmarks.inputs import Inputs
from benchmarks.outcome import Outcome
from benchmarks.workloads import WORKLOADS, Workload

# The result of the fourth call is checked: by then a jit replays, and training has changed its parameters.
CHECKED_CALL = 4
FEWEST_CALLS, MOST_CALLS = 5, 2000


def measure(name: str, framework: Framework, workload: Workload, seconds: float) -> Outcome:
    """Time the workload in a framework of this name, and compute the checksum of its result."""
    step = workload.build(framework, Inputs(workload.name))
    first, result = timed(framework, step)
    for _ in range(1, CHECKED_CALL):
        _, result = timed(framework, step)
    check, size = checksum(framework.numpy(result))
    times: list[float] = []
    end = perf_counter() + seconds
    while len(times) < FEWEST_CALLS or (perf_counter() < end and len(times) < MOST_CALLS):
        times.append(timed(framework, step)[0])
    return Outcome(name, workload.name, first, median(times), check, size)


def timed(framework: Framework, step: Step) -> tuple[float, Array]:
    """The seconds until the result is there, and the result."""
    start = perf_counter()
    result = step()
    framework.finish(result)
    return perf_counter() - start, result


def checksum(result: Numbers) -> tuple[float, float]:
    """A weighted sum of all numbers, and their Euclidean length.

    The weights lie in [0.5, 1.5) and differ from neighbour to neighbour, so that numbers in wrong places show as
    wrong numbers do.  The length is what a sum of rounding errors stays small against.
    """
    numbers = result.astype(np.float64).ravel()
    weights = np.arange(numbers.size) * 0.6180339887498949 % 1 + 0.5
    return float(numbers @ weights), float(np.linalg.norm(numbers))


def main() -> None:
    framework, workload, seconds = sys.argv[1:]
    adapter = FRAMEWORKS[framework]()
    outcome = measure(framework, adapter, WORKLOADS[workload], float(seconds))
    print(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main()
