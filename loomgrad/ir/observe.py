"""Who watches rewrites: a trace, statistics.  Nobody by default, and then watching costs nothing.

`graph_rewrite` looks at `observers` once, when it begins.  If there are any, rules run one by one and each attempt is
reported; a rule's result never depends on being watched.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loomgrad.ir.uop import UOp

if TYPE_CHECKING:
    from loomgrad.ir.rule import AnyRule


class Observer:
    """Hears of everything; override what is of interest."""

    def begin(self, name: str, root: UOp) -> None:
        """A rewrite of a graph begins; rewrites may nest."""

    def end(self, name: str, result: UOp | None) -> None:
        """The innermost rewrite is over; without a result if it raised."""

    def fired(self, rule: AnyRule, before: UOp, after: object, seconds: float) -> None:
        """A rule replaced a node."""

    def missed(self, rule: AnyRule, node: UOp, seconds: float) -> None:
        """A rule was tried on a node of its operation and did not apply."""


observers: list[Observer] = []


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Rewrites that begin inside the block report to `observer`."""
    observers.append(observer)
    try:
        yield
    finally:
        observers.remove(observer)


@dataclass(slots=True)
class RuleCount:
    """How often one rule fired and did not, and the time of both."""

    hits: int = 0
    misses: int = 0
    seconds: float = 0.0


class RuleStatistics(Observer):
    """Counts per rule name."""

    def __init__(self) -> None:
        self.rules: dict[str, RuleCount] = {}

    def _count(self, rule: AnyRule, seconds: float) -> RuleCount:
        counted = self.rules.setdefault(rule.name, RuleCount())
        counted.seconds += seconds
        return counted

    def fired(self, rule: AnyRule, before: UOp, after: object, seconds: float) -> None:
        self._count(rule, seconds).hits += 1

    def missed(self, rule: AnyRule, node: UOp, seconds: float) -> None:
        self._count(rule, seconds).misses += 1

    def table(self) -> str:
        """One line per rule, the most expensive first."""
        rows = sorted(self.rules.items(), key=lambda item: -item[1].seconds)
        lines = [f"{'hits':>8} {'misses':>8} {'ms':>9}  rule"]
        lines += [f"{c.hits:8} {c.misses:8} {c.seconds * 1e3:9.2f}  {name}" for name, c in rows]
        return "\n".join(lines)
