"""Generated matchers: all rules that start at one operation become one Python function.

The straight lines of all ways of all rules stand one after the other, in the order of the table, and neighbours that
begin with the same steps share them.  So the sources of a node are taken apart once, and a run of rules about
`(x + c) // d` asks once whether there is an addition.  The text of a function can be read in a traceback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby

from loomgrad.dtype import dtypes
from loomgrad.ir.match_plan import Choice, Plan, choices, mask_test, plan
from loomgrad.ir.namespace import Namespace
from loomgrad.ir.opcode import Op
from loomgrad.ir.right_side_source import law_of
from loomgrad.ir.rule import AnyRule, FunctionRule, Rule
from loomgrad.ir.uop import UOp

Match = Callable[[UOp, object], object]


class Compiled:
    """The rules of one operation: what they demand of the operations of a node's sources, and their function.

    The function is generated when the first node comes by that it may match.
    """

    __slots__ = ("op", "rules", "choices", "masks", "_function", "source")

    def __init__(self, op: Op, rules: tuple[AnyRule, ...]) -> None:
        self.op = op
        self.rules = rules
        self.choices = [
            [
                way
                for way in choices(rule.pattern)
                if way.pattern.ops is None or op in way.pattern.ops
            ]
            for rule in rules
        ]
        self.masks = frozenset(mask_test(way) for ways in self.choices for way in ways)
        self._function: Match | None = None
        self.source = ""

    def may_match(self, mask: int) -> bool:
        """Whether some rule may match a node whose sources have these operations."""
        return any(test.accepts(mask) for test in self.masks)

    @property
    def function(self) -> Match:
        """Tries the rules on a node."""
        if self._function is None:
            self._function = self._generate()
        return self._function

    def _generate(self) -> Match:
        namespace = Namespace()
        ways = [
            _Way(
                tuple((step.text, step.is_test) for step in made.steps),
                _action(rule, made, namespace),
            )
            for rule, found in zip(self.rules, self.choices, strict=True)
            for made in _plans(rule, found, namespace)
        ]
        lines = [
            "def match(n, ctx):",
            f"    if n.dtype is {namespace.name_of(dtypes.illtyped)}:",
            "        return None",
            "    mask = n.source_mask",
            *_merged(ways, "    "),
        ]
        self.source = "\n".join(lines) + "\n"
        function: Match = namespace.run(self.source, "match", f"<rules of {self.op.name}>")
        return function


@dataclass(frozen=True, slots=True)
class _Way:
    """What is left of a straight line, and what to do at its end."""

    steps: tuple[tuple[str, bool], ...]
    action: tuple[str, ...]


_compiled: dict[tuple[Op, tuple[AnyRule, ...]], Compiled] = {}


def compile_rules(op: Op, rules: tuple[AnyRule, ...]) -> Compiled:
    """The matcher of `rules` for nodes of operation `op`, made once for equal rules."""
    present = _compiled.get((op, rules))
    if present is None:
        present = _compiled.setdefault((op, rules), Compiled(op, rules))
    return present


def _plans(rule: AnyRule, found: list[Choice], namespace: Namespace) -> Iterator[Plan]:
    """The ways of a rule that need trying.

    `x*c0 + x*c1` matches whatever it matches in a second way with c0 and c1 exchanged.  Where the first way decides,
    in a law without a guard, the second one is not tried.
    """
    seen = set()
    for choice in found:
        made = plan(choice, namespace)
        tests = frozenset(step.text for step in made.steps)
        decided = isinstance(rule, Rule) and rule.when is None and tests in seen
        if not decided:
            seen.add(tests)
            yield made


def _merged(ways: list[_Way], indent: str) -> Iterator[str]:
    """The lines of some ways; neighbours that begin alike share the beginning."""
    for first, group in groupby(ways, key=lambda way: way.steps[0] if way.steps else None):
        if first is None:
            for way in group:
                yield from (indent + line for line in way.action)
            continue
        text, is_test = first
        rest = [_Way(way.steps[1:], way.action) for way in group]
        while is_test and (more := _common_test(rest)) is not None:
            text = f"{text} and {more}"
            rest = [_Way(way.steps[1:], way.action) for way in rest]
        yield f"{indent}if {text}:" if is_test else indent + text
        yield from _merged(rest, indent + "    " if is_test else indent)


def _common_test(ways: list[_Way]) -> str | None:
    """The test that all ways go on with, if they do."""
    following = {way.steps[0] if way.steps else ("", False) for way in ways}
    text, is_test = next(iter(following))
    return text if len(following) == 1 and is_test else None


def _action(rule: AnyRule, made: Plan, namespace: Namespace) -> tuple[str, ...]:
    """What happens at a match: the result is returned unless it is None or the node itself."""
    title = f"  # {rule.name}".replace("\n", " ")
    if isinstance(rule, Rule):
        law = law_of(rule)
        arguments = ["n", *(made.variables[name] for name in law.names)]
        if law.judges_inner:
            arguments.append(f"({''.join(f'{variable}, ' for variable in made.inner)})")
        call = f"r = {namespace.name_of(law.function)}({', '.join(arguments)})"
        return call + title, "if r is not None:", "    return r"
    return (
        f"r = {_call(rule, made, namespace)}{title}",
        "if r is not None and r is not n:",
        "    return r",
    )


def _call(rule: FunctionRule, made: Plan, namespace: Namespace) -> str:
    names = rule.pattern.names
    arguments = (
        "ctx" if name == "ctx" else made.variables.get(name, "None") if name in names else "n"
        for name in rule.parameters
    )
    return f"{namespace.name_of(rule.function)}({', '.join(arguments)})"
