"""Generated matchers: all rules that start at one operation become one Python function.

The straight lines of all ways of all rules stand one after the other, in the order of the table, and neighbours that
begin with the same steps share them.  So the sources of a node are taken apart once, and a run of rules about
`(x + c) // d` asks once whether there is an addition.  The text of a function can be read in a traceback.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, groupby

from loomgrad.dtype import dtypes
from loomgrad.ir.match_plan import MaskTest, Plan, choices, plan
from loomgrad.ir.namespace import Namespace
from loomgrad.ir.opcode import Op
from loomgrad.ir.right_side_source import law_lines
from loomgrad.ir.rule import AnyRule, FunctionRule, Rule
from loomgrad.ir.uop import UOp

Match = Callable[[UOp, object], object]


@dataclass(frozen=True, slots=True)
class Compiled:
    """The function of an operation's rules, and what it demands of the operations of a node's sources."""

    function: Match
    masks: frozenset[MaskTest]
    source: str

    def may_match(self, mask: int) -> bool:
        """Whether some rule may match a node whose sources have these operations."""
        return any(test.accepts(mask) for test in self.masks)


@dataclass(frozen=True, slots=True)
class _Way:
    """What is left of a straight line, and what to do at its end."""

    steps: tuple[tuple[str, bool], ...]
    action: tuple[str, ...]


_compiled: dict[tuple[Op, tuple[AnyRule, ...]], Compiled] = {}
_serial = count()


def compile_rules(op: Op, rules: tuple[AnyRule, ...]) -> Compiled:
    """The function that tries `rules` on a node of operation `op`, made once for equal rules."""
    present = _compiled.get((op, rules))
    if present is None:
        present = _compiled.setdefault((op, rules), _generate(op, rules))
    return present


def _generate(op: Op, rules: tuple[AnyRule, ...]) -> Compiled:
    namespace = Namespace()
    ways: list[_Way] = []
    masks = set()
    for rule in rules:
        for choice in choices(rule.pattern):
            if choice.pattern.ops is not None and op not in choice.pattern.ops:
                continue
            made = plan(choice, namespace)
            masks.add(made.mask)
            steps = tuple((step.text, step.is_test) for step in made.steps)
            ways.append(_Way(steps, tuple(_action(rule, made, namespace))))
    illtyped = namespace.name_of(dtypes.illtyped)
    lines = ["def match(n, ctx):", f"    if n.dtype is {illtyped}:", "        return None"]
    lines.append("    mask = n.source_mask")
    lines.extend(_merged(ways, "    "))
    return Compiled(
        _function("\n".join(lines) + "\n", op, namespace), frozenset(masks), "\n".join(lines)
    )


def _function(source: str, op: Op, namespace: Namespace) -> Match:
    filename = f"<rules of {op.name} {next(_serial)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    exec(compile(source, filename, "exec"), namespace.globals)
    function: Match = namespace.globals["match"]
    return function


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


def _action(rule: AnyRule, made: Plan, namespace: Namespace) -> Iterator[str]:
    """What happens at a match: the result is returned unless it is None or the node itself."""
    if isinstance(rule, Rule):
        yield from law_lines(rule, made, namespace)
        return
    yield f"r = {_call(rule, made, namespace)}  # {rule.name}".replace("\n", " ")
    yield "if r is not None and r is not n:"
    yield "    return r"


def _call(rule: FunctionRule, made: Plan, namespace: Namespace) -> str:
    names = rule.pattern.names
    arguments = (
        "ctx" if name == "ctx" else made.variables.get(name, "None") if name in names else "n"
        for name in rule.parameters
    )
    return f"{namespace.name_of(rule.function)}({', '.join(arguments)})"
