"""The error for rules that never come to rest: which rules they are is found by running them once more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from loomgrad.errors import RewriteLoopError
from loomgrad.ir.matcher import PatternMatcher
from loomgrad.ir.uop import UOp


class Running(Protocol):
    """The parts of a rewrite in progress that an explanation needs."""

    before: PatternMatcher | None
    after: PatternMatcher | None
    ctx: object
    name: str


def loop_error(run: Running, steps: Sequence[tuple[UOp, UOp]]) -> RewriteLoopError:
    """`steps`: each node that waits, with what it became; the last leads back to the first, or on without end."""
    fired: dict[str, None] = {}
    for node, became in steps:
        for matcher in (run.before, run.after):
            found = None if matcher is None else matcher.rewrite_named(node, run.ctx)
            if found is not None and found[1] is became:
                fired[found[0].name] = None
    names = tuple(fired)
    subject = " and ".join(map(repr, names)) or "its rules"
    verb = "comes" if len(names) == 1 else "come"
    return RewriteLoopError(
        f"{subject} never {verb} to rest in {run.name!r}",
        rules=names,
        node=steps[0][0],
        fix="let one rule demand what the result of the others does not have",
    )
