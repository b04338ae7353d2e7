"""Matchers: ordered tables of rules, applied to one node at a time.

    ALGEBRA = rules("add",
        Rule("zero", x + 0, x, why="0 is neutral"),
    ) + PatternMatcher([fold_constants, (UPat(Ops.SINK, name="sink"), visit)])

    ALGEBRA.rewrite(node, ctx)      what the first rule that applies returns, or None

A matcher compiles itself piece by piece: the rules of an operation when its first node comes by.  Which source
operations can match at all is remembered per `source_mask`, so that most nodes cost two dictionary look-ups.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from time import perf_counter

from loomgrad.ir.match_interpreted import apply_interpreted
from loomgrad.ir.match_source import Match, compile_rules
from loomgrad.ir.observe import Observer
from loomgrad.ir.opcode import Op
from loomgrad.ir.pattern import UPat
from loomgrad.ir.rule import AnyRule, Rule, RuleFunction, as_rule
from loomgrad.ir.uop import UOp

Rules = tuple[AnyRule, ...]


class MaskTable(dict[int, Match | None]):
    """For one operation: the matcher of each set of source operations, None where nothing can match."""

    __slots__ = ("op", "parts")

    def __init__(self, op: Op, parts: tuple[Rules, ...]) -> None:
        self.op = op
        self.parts = parts

    def __missing__(self, mask: int) -> Match | None:
        compiled = (compile_rules(self.op, part) for part in self.parts)
        useful = [part.function for part in compiled if part.may_match(mask)]
        match = self[mask] = useful[0] if len(useful) == 1 else _chain(useful) if useful else None
        return match


def _chain(functions: list[Match]) -> Match:
    """The functions of several tables, one after the other."""

    def match(node: UOp, ctx: object) -> object:
        for function in functions:
            result = function(node, ctx)
            if result is not None:
                return result
        return None

    return match


class MatchTables(dict[Op, dict[int, Match | None]]):
    """The tables of a matcher: `tables[node.op][node.source_mask]` is a function of node and ctx, or None."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[Rules, ...]) -> None:
        self.parts = parts

    def __missing__(self, op: Op) -> dict[int, Match | None]:
        parts = (rules_of(op, part) for part in self.parts)
        table = self[op] = MaskTable(op, tuple(part for part in parts if part))
        return table


def rules_of(op: Op, rules: Iterable[AnyRule]) -> Rules:
    """The rules that may match a node of an operation, in their order."""
    return tuple(rule for rule in rules if rule.pattern.ops is None or op in rule.pattern.ops)


class PatternMatcher:
    """An ordered table of rules: data rules, function rules, or pairs (pattern, function).

    `a + b` has the rules of a, then those of b.  It keeps them as parts, so that what has been generated for a and
    b serves every sum that they are in.
    """

    __slots__ = ("parts", "rules", "tables")

    def __init__(self, rules: Iterable[AnyRule | tuple[UPat, RuleFunction]] = ()) -> None:
        self._set_parts((tuple(map(as_rule, rules)),))

    def _set_parts(self, parts: tuple[Rules, ...]) -> None:
        self.parts = parts
        self.rules: Rules = tuple(rule for part in parts for rule in part)
        self.tables: dict[Op, dict[int, Match | None]] = MatchTables(parts)

    def rewrite(self, node: UOp, ctx: object = None) -> object:
        """What the first rule that applies makes of `node`, or None.

        Rules are tried in the order of the table, and each with every way in which its pattern matches, until one
        returns something other than None and the node itself.  It may be anything, not only a node.
        """
        match = self.tables[node.op][node.source_mask]
        return None if match is None else match(node, ctx)

    def rewrite_interpreted(self, node: UOp, ctx: object = None) -> object:
        """The same without generated code."""
        for rule in rules_of(node.op, self.rules):
            result = apply_interpreted(rule, node, ctx)
            if result is not None:
                return result
        return None

    def rewrite_named(self, node: UOp, ctx: object = None) -> tuple[AnyRule, object] | None:
        """The rule that applies, and what it makes of `node`."""
        for rule in rules_of(node.op, self.rules):
            result = compile_rules(node.op, (rule,)).function(node, ctx)
            if result is not None:
                return rule, result
        return None

    def __add__(self, other: PatternMatcher) -> PatternMatcher:
        return _of_parts(self.parts + other.parts)

    def __len__(self) -> int:
        return len(self.rules)

    def __repr__(self) -> str:
        return f"PatternMatcher({', '.join(rule.name for rule in self.rules)})"

    def __reduce__(self) -> tuple[object, tuple[tuple[Rules, ...]]]:
        return _of_parts, (self.parts,)


def _of_parts(parts: tuple[Rules, ...]) -> PatternMatcher:
    made = PatternMatcher()
    made._set_parts(parts)
    return made


def rules(section: str, *table: AnyRule | tuple[UPat, RuleFunction]) -> PatternMatcher:
    """A table of rules about one subject; a law's full name is `section.name`."""
    named = (as_rule(row) for row in table)
    return PatternMatcher(
        rule.renamed(f"{section}.{rule.name}") if isinstance(rule, Rule) else rule for rule in named
    )


class WatchedTables(dict[Op, dict[int, Match | None]]):
    """The tables of a matcher that is watched: rules run one by one and report."""

    __slots__ = ("rules", "observers")

    def __init__(self, matcher: PatternMatcher, observers: Sequence[Observer]) -> None:
        self.rules = matcher.rules
        self.observers = tuple(observers)

    def __missing__(self, op: Op) -> dict[int, Match | None]:
        table = self[op] = _WatchedTable(op, rules_of(op, self.rules), self.observers)
        return table


class _WatchedTable(dict[int, Match | None]):
    __slots__ = ("op", "rules", "observers")

    def __init__(self, op: Op, rules: tuple[AnyRule, ...], observers: tuple[Observer, ...]) -> None:
        self.op = op
        self.rules = rules
        self.observers = observers

    def __missing__(self, mask: int) -> Match | None:
        match = self[mask] = self._match if self.rules else None
        return match

    def _match(self, node: UOp, ctx: object) -> object:
        for rule in self.rules:
            function = compile_rules(self.op, (rule,)).function
            start = perf_counter()
            result = function(node, ctx)
            seconds = perf_counter() - start
            for observer in self.observers:
                if result is None:
                    observer.missed(rule, node, seconds)
                else:
                    observer.fired(rule, node, result, seconds)
            if result is not None:
                return result
        return None
