"""The table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import geometric_mean

from benchmarks.outcome import Outcome, verdicts
from benchmarks.workloads import WORKLOADS

OURS = "loomgrad"
RIGHT = ("ok", "alone")  # what `verdicts` calls a result that nothing speaks against
HEAD = (
    f"{'workload':<16} {'framework':<14} {'first call':>11} {'median':>12} {'rate':>16} "
    f"{'of fastest':>10}  check"
)


def rows(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """The lines of one workload, a framework each; `of fastest` is 1 for the fastest."""
    found = verdicts(outcomes)
    fastest = fastest_of(outcomes)
    for outcome in outcomes:
        begin = f"{outcome.workload:<16} {outcome.framework:<14}"
        if outcome.error:
            yield f"{begin} {outcome.error}"
            continue
        yield (
            f"{begin} {outcome.first * 1e3:8.1f} ms {outcome.typical * 1e3:9.3f} ms "
            f"{rate(outcome):>16} {fastest / outcome.typical:10.2f}  {found[outcome.framework]}"
        )


def rate(outcome: Outcome) -> str:
    """Arithmetic or memory traffic per second, the one that the workload is bound by."""
    workload = WORKLOADS[outcome.workload]
    if workload.moved:
        return f"{workload.moved / outcome.typical * 1e-9:.1f} GB/s"
    if workload.flops:
        return f"{workload.flops / outcome.typical * 1e-9:.1f} GFLOP/s"
    return ""


def fastest_of(outcomes: Sequence[Outcome], without: str = "") -> float:
    """The least time of a framework with the right result, or infinity."""
    found = verdicts(outcomes)
    return min(
        (
            outcome.typical
            for outcome in outcomes
            if found[outcome.framework] in RIGHT and outcome.framework != without
        ),
        default=math.inf,
    )


def summary(runs: Sequence[Sequence[Outcome]]) -> str:
    """What loomgrad did in all workloads."""
    states = [verdicts(outcomes)[OURS] for outcomes in runs]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    ratios = [
        fastest_of(outcomes, without=OURS) / outcome.typical
        for outcomes, state in zip(runs, states, strict=True)
        for outcome in outcomes
        if outcome.framework == OURS and state == "ok"
    ]
    if not ratios:
        return f"{OURS}: {counts}"
    mean = geometric_mean(ratios)
    return f"{OURS}: {counts}; {mean:.2f} times as fast as the fastest other (geometric mean)"


def ours_is_right(outcomes: Sequence[Outcome]) -> bool:
    """loomgrad ran, and no majority says otherwise."""
    return verdicts(outcomes)[OURS] in RIGHT
