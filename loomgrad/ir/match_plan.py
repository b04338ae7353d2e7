"""From a pattern to a straight line of tests: every choice made beforehand, the cheap tests first.

A pattern with commutative operations and alternatives matches in several ways.  Each way is one `Choice`, a tree in
which nothing is left to try, and becomes a list of steps: conditions, and assignments that give the sources of a
node names.  The steps of all ways of all rules are merged by `match_source.py` wherever they begin alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

from loomgrad.errors import LoomError
from loomgrad.ir.constant import is_constant, is_literal
from loomgrad.ir.match_interpreted import each_matches
from loomgrad.ir.namespace import Namespace
from loomgrad.ir.pattern import ANY_VALUE, Order, UPat

WAYS_LIMIT = 1024


@dataclass(frozen=True, slots=True)
class Choice:
    """A pattern with one order and one alternative chosen throughout."""

    pattern: UPat
    names: tuple[str, ...]
    src: tuple[Choice, ...]


def choices(pattern: UPat) -> list[Choice]:
    """Every way to match a pattern, in the order in which they are tried."""
    own = () if pattern.name is None else (pattern.name,)
    if pattern.alternatives:
        ways = [choice for alternative in pattern.alternatives for choice in choices(alternative)]
        return [Choice(way.pattern, own + way.names, way.src) for way in ways]
    if not pattern.orders:
        return [Choice(pattern, own, ())]
    found = [
        Choice(pattern, own, src)
        for order in pattern.orders
        for src in product(*(choices(source) for source in order))
    ]
    if len(found) > WAYS_LIMIT:
        raise LoomError(
            f"the pattern {pattern} matches in {len(found)} ways, more than {WAYS_LIMIT}",
            fix="split the rule, or give the sources an order (a tuple)",
        )
    return found


@dataclass(frozen=True, slots=True)
class MaskTest:
    """What the operations of a node's sources must be for a way to match: one look at `source_mask`."""

    all_of: int  # each of these bits
    one_of: tuple[int, ...]  # one bit of each of these
    only: int  # no bit beside these; -1 allows every bit

    def accepts(self, mask: int) -> bool:
        """Whether sources of these operations may match."""
        if mask & self.all_of != self.all_of or mask & ~self.only:
            return False
        return all(mask & some for some in self.one_of)

    def text(self) -> str:
        """The test in Python; empty if every node passes."""
        parts = [f"mask & {self.all_of} == {self.all_of}"] if self.all_of else []
        parts += [f"mask & {some}" for some in self.one_of]
        if self.only != -1:
            parts.append(f"not mask & ~{self.only}")
        return " and ".join(parts)


def mask_test(choice: Choice) -> MaskTest:
    """The test that rejects most nodes before any source is looked at."""
    pattern = choice.pattern
    if pattern.order is Order.EACH and pattern.src is not None:
        ops = pattern.src[0].ops
        return MaskTest(0, (), -1 if ops is None else ops.mask)
    all_of = 0 if pattern.early_reject is None else pattern.early_reject.mask
    one_of = set()
    for source in choice.src:
        ops = source.pattern.ops
        if ops is None:
            continue
        if len(ops) == 1:
            all_of |= ops.mask
        else:
            one_of.add(ops.mask)
    return MaskTest(all_of, tuple(sorted(some for some in one_of if not some & all_of)), -1)


@dataclass(frozen=True, slots=True)
class Step:
    """A condition, or an assignment."""

    text: str
    is_test: bool = True


@dataclass(slots=True)
class Plan:
    """One way of one rule: its steps, and the variables of the generated code that hold its nodes."""

    mask: MaskTest
    steps: list[Step] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    inner: list[str] = field(default_factory=list)


def plan(choice: Choice, namespace: Namespace) -> Plan:
    """The straight line for one way to match the node `n`, whose operation is known to fit."""
    made = Plan(mask_test(choice))
    late: list[Step] = []
    pending = [("n", choice)]
    while pending:
        variable, here = pending.pop(0)
        for name in here.names:
            first = made.variables.setdefault(name, variable)
            if first != variable:
                one, other = sorted((first, variable))
                late.append(Step(f"{one} is {other}"))
        if variable != "n":
            made.steps.extend(_structure_tests(variable, here.pattern, namespace))
        sources = [f"{variable}_{place}" for place in range(len(here.src))]
        if here.pattern.orders:
            made.steps.extend(_take_sources(variable, sources, here.pattern.allow_more))
            if variable != "n":
                made.inner.append(variable)
        pending.extend(zip(sources, here.src, strict=True))
        late.extend(_fact_tests(variable, here.pattern, namespace))
    if text := made.mask.text():
        # after the root's own sources are taken, a step that all rules of an operation share
        place = 2 if choice.src and not choice.pattern.allow_more else 0
        made.steps.insert(place, Step(text))
    made.steps.extend(sorted(late, key=lambda step: _cost(step.text)))
    return made


def _cost(test: str) -> int:
    """0 for a comparison of two objects, 1 for a look-up, 2 for a call."""
    return 2 if "(" in test else 1 if " in " in test else 0


def _structure_tests(variable: str, pattern: UPat, namespace: Namespace) -> list[Step]:
    if pattern.ops is None:
        return []
    if len(pattern.ops) == 1:
        return [Step(f"{variable}.op is {namespace.name_of(next(iter(pattern.ops)))}")]
    return [Step(f"{variable}.op in {namespace.name_of(pattern.ops)}")]


def _take_sources(variable: str, sources: list[str], allow_more: bool) -> list[Step]:
    """The test of their number, and names for them."""
    if not allow_more:
        count = Step(f"len({variable}.src) == {len(sources)}")
        all_taken = Step(f"({', '.join(sources)},) = {variable}.src", False)
        return [count, all_taken] if sources else [count]
    taken = [Step(f"{name} = {variable}.src[{i}]", False) for i, name in enumerate(sources)]
    return [Step(f"len({variable}.src) >= {len(sources)}"), *taken]


def _fact_tests(variable: str, pattern: UPat, namespace: Namespace) -> list[Step]:
    """What is asked of dtype, value, arg, tag and of all sources."""
    tests = []
    for attribute, test in (
        ("dtype", pattern.dtypes),
        ("arg", pattern.arg),
        ("tag", pattern.tag),
    ):
        if test is not None:
            tests.append(test.text(f"{variable}.{attribute}", namespace.name_of))
    if pattern.value is ANY_VALUE:
        tests.append(f"{namespace.name_of(is_constant)}({variable})")
    elif pattern.value is not None:
        literal = namespace.name_of(pattern.value)
        tests.append(f"{namespace.name_of(is_literal)}({variable}, {literal})")
    if pattern.order is Order.EACH and pattern.src is not None:
        each, below = namespace.name_of(each_matches), namespace.name_of(pattern.src[0])
        tests.append(f"{each}({below}, {variable}.src)")
    if pattern.early_reject is not None and variable != "n":
        mask = pattern.early_reject.mask
        tests.append(f"{variable}.source_mask & {mask} == {mask}")
    return [Step(text) for text in tests]
