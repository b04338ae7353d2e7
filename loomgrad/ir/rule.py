"""Rules: laws as data, and structural rewrites as functions with a pattern.

    Rule("mul.one", x * 1, x, why="one is neutral")

    @rewrites(UPat(Ops.CAST, src=(UPat.var("x"),), name="cast"))
    def drop_cast(cast: UOp, x: UOp) -> UOp | None:
        '''Before: cast of x to its own dtype.   After: x.   Because: it changes nothing.'''
        return x if x.dtype is cast.dtype else None

A function of a rule gets the nodes its parameters name, and the context of the rewrite as `ctx`.  One parameter
that the pattern does not name gets the matched node itself.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Iterable
from typing import Any

from loomgrad.dtype import Number
from loomgrad.errors import LoomError, did_you_mean
from loomgrad.ir import portable
from loomgrad.ir.guard import Guard, check_alone
from loomgrad.ir.opcode import Op
from loomgrad.ir.pattern import UPat, as_pattern
from loomgrad.ir.right_side import check_constructible
from loomgrad.ir.uop import UOp

RuleFunction = Callable[..., Any]


class RuleLevel(enum.Enum):
    """Whether a law changes results."""

    SAFE = enum.auto()  # equal on every value, NaN, infinities and signed zeros included
    FAST = enum.auto()  # only under fast math


SAFE, FAST = RuleLevel.SAFE, RuleLevel.FAST


class Rule:
    """A law: `before` may be replaced by `after` when the guard `when` holds, because of `why`.

    The result gets the shape and dtype of the node it replaces; where that is impossible the rule does not fire.
    """

    __slots__ = ("name", "before", "after", "when", "why", "level", "location", "_hash")

    def __init__(
        self,
        name: str,
        before: UPat,
        after: UPat | Number,
        when: Guard | None = None,
        why: str = "",
        level: RuleLevel = SAFE,
        location: str | None = None,
    ) -> None:
        self.name = name
        self.before = before
        self.after = as_pattern(after)
        self.when = when
        self.why = why
        self.level = level
        self.location = location or _caller()
        self._check()
        self._hash = hash(self._key)

    def _check(self) -> None:
        bound = self.before.sure_names
        check_constructible(self.after, bound, f"the result of rule {self.name!r}")
        for test in () if self.when is None else self.when.tests():
            check_alone(test)
            for operand in test.operands or ():
                check_constructible(operand, bound, f"the guard of rule {self.name!r}")

    @property
    def pattern(self) -> UPat:
        """What the rule looks for."""
        return self.before

    def renamed(self, name: str) -> Rule:
        """This law under another name."""
        return Rule(name, self.before, self.after, self.when, self.why, self.level, self.location)

    @property
    def _key(self) -> tuple[object, ...]:
        return self.name, self.before, self.after, self.when, self.level

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Rule) and self._key == other._key)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        when = "" if self.when is None else f" when {self.when}"
        return f"{self.name}: {self.before!r} -> {self.after!r}{when}"

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        fields = (self.name, self.before, self.after, self.when, self.why, self.level)
        return Rule, (*fields, self.location)


class FunctionRule:
    """A pattern with the function that computes what replaces a match, or None.

    Calling the rule calls the function.
    """

    __slots__ = ("name", "pattern", "function", "parameters", "location", "_hash")

    def __init__(self, pattern: UPat, function: RuleFunction, name: str | None = None) -> None:
        portable.refuse_closure(function)
        _check_signature(function)
        code = function.__code__
        self.pattern = pattern
        self.function = function
        self.name = name or _function_name(function)
        self.parameters = code.co_varnames[: code.co_argcount]
        self.location = f"{code.co_filename}:{code.co_firstlineno}"
        self._hash = hash(self._key)
        self._check()

    def _check(self) -> None:
        names = self.pattern.names
        unknown = [p for p in self.parameters if p != "ctx" and p not in names]
        if len(unknown) > (self.pattern.name is None):
            raise LoomError(
                f"{self.name} takes {unknown[-1]!r}, which its pattern {self.pattern} does not name",
                fix=did_you_mean(unknown[-1], names) if names else "name it in the pattern",
            )

    @property
    def why(self) -> str:
        """The function's docstring."""
        return self.function.__doc__ or ""

    def arguments(self, bound: dict[str, UOp], node: UOp, ctx: object) -> list[object]:
        """What the function is called with; a name that no chosen alternative binds is None."""
        return [
            ctx if name == "ctx" else bound.get(name) if name in self.pattern.names else node
            for name in self.parameters
        ]

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.function(*arguments, **named)

    @property
    def _key(self) -> tuple[object, ...]:
        return self.name, self.pattern, self.function

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, FunctionRule) and self._key == other._key)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"{self.name}: {self.pattern!r}"

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return _restore_function_rule, (self.pattern, portable.pack(self.function), self.name)


def _check_signature(function: RuleFunction) -> None:
    """Raises unless the parameters of a rule's function are names for nodes."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_kwonlyargcount or code.co_flags & 0x0C:
        raise LoomError(
            f"a rule needs a Python function whose parameters are plain names, not {function!r}",
            fix="write a top-level function, e.g. def rule(x, c): ...",
        )


AnyRule = Rule | FunctionRule


def _restore_function_rule(pattern: UPat, packed: object, name: str) -> FunctionRule:
    return FunctionRule(pattern, portable.unpack(packed), name)


def _function_name(function: RuleFunction) -> str:
    """A name to print; a lambda has its place instead."""
    name = function.__name__
    if name != "<lambda>":
        return name
    return f"{function.__module__.rpartition('.')[2]}:{function.__code__.co_firstlineno}"


def _caller() -> str:
    """The line outside of this file that makes a rule."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def rewrites(pattern: UPat | Op | Iterable[Op]) -> Callable[[RuleFunction], FunctionRule]:
    """Decorator: makes a top-level function the rule of a pattern, or of every node of an operation."""
    wanted = pattern if isinstance(pattern, UPat) else UPat(pattern)

    def decorate(function: RuleFunction) -> FunctionRule:
        return FunctionRule(wanted, function)

    return decorate


def as_rule(row: AnyRule | tuple[UPat, RuleFunction]) -> AnyRule:
    """A row of a matcher as a rule."""
    return FunctionRule(*row) if isinstance(row, tuple) else row
