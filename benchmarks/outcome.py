"""What one process measured, and how the results of several compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

TOLERANCE = 0.01


@dataclass(frozen=True, slots=True)
class Outcome:
    """One workload in one framework; `error` is empty if it ran."""

    framework: str
    workload: str
    first: float = 0.0  # seconds from the first call to its result: tracing, scheduling, compiling
    typical: float = 0.0  # median seconds of the calls that follow
    check: float = 0.0
    size: float = 0.0  # what differences of `check` are small against
    error: str = ""


def agree(one: Outcome, other: Outcome) -> bool:
    """The checks are the same within rounding."""
    return abs(one.check - other.check) <= TOLERANCE * max(one.size, other.size)


def verdicts(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """For each framework: "ok" if the majority has its check, or else "WRONG", "alone" or "failed"."""
    ran = [outcome for outcome in outcomes if not outcome.error]
    found = {outcome.framework: "failed" for outcome in outcomes}
    for outcome in ran:
        friends = sum(agree(outcome, other) for other in ran)
        if len(ran) == 1:
            found[outcome.framework] = "alone"
        else:
            found[outcome.framework] = "ok" if 2 * friends > len(ran) else "WRONG"
    return found
