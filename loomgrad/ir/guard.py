"""Conditions of data rules: named predicates over the matched nodes, combined by `&`, `|` and `~`.

    @guard
    def positive(c: UOp) -> bool: ...

    Rule("div.nest", (x // c0) // c1, x // (c0 * c1), when=positive(c1) & ~is_float(x))

A guard is applied to patterns of the rule: variables, or expressions of them, which are built and then judged.
A guard that takes any number of nodes (`no_overflow`) may also stand alone; then it judges every operation below
the root of either side of the rule.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence

from loomgrad.dtype import Number, dtypes
from loomgrad.errors import LoomError
from loomgrad.ir import portable
from loomgrad.ir.args import Invalid
from loomgrad.ir.bounds import whole
from loomgrad.ir.constant import constant_value, is_constant
from loomgrad.ir.opcode import Ops, OpSet
from loomgrad.ir.pattern import UPat, as_pattern
from loomgrad.ir.uop import UOp

Judge = Callable[..., bool]


class Kind(enum.Enum):
    """What a guard is made of."""

    TEST = enum.auto()
    ALL = enum.auto()
    ANY = enum.auto()
    NOT = enum.auto()


class Guard:
    """A predicate with what it is applied to, or a combination of guards.  Equal guards are equal."""

    __slots__ = ("kind", "function", "operands", "parts")

    def __init__(
        self,
        kind: Kind,
        function: Judge | None = None,
        operands: tuple[UPat, ...] | None = None,
        parts: tuple[Guard, ...] = (),
    ) -> None:
        self.kind = kind
        self.function = function
        self.operands = operands
        self.parts = parts

    def __call__(self, *operands: UPat | Number) -> Guard:
        """This predicate of these nodes."""
        return Guard(Kind.TEST, self.function, tuple(map(as_pattern, operands)))

    def __and__(self, other: Guard) -> Guard:
        return Guard(Kind.ALL, parts=(self, other))

    def __or__(self, other: Guard) -> Guard:
        return Guard(Kind.ANY, parts=(self, other))

    def __invert__(self) -> Guard:
        return Guard(Kind.NOT, parts=(self,))

    def tests(self) -> Iterator[Guard]:
        """The predicates in this guard."""
        if self.kind is Kind.TEST:
            yield self
        for part in self.parts:
            yield from part.tests()

    def holds(self, build: Callable[[UPat], UOp], inner: Callable[[], Sequence[UOp]]) -> bool:
        """The answer, given how a pattern becomes a node and which nodes a guard alone judges."""
        if self.kind is Kind.ALL:
            return all(part.holds(build, inner) for part in self.parts)
        if self.kind is Kind.ANY:
            return any(part.holds(build, inner) for part in self.parts)
        if self.kind is Kind.NOT:
            return not self.parts[0].holds(build, inner)
        assert self.function is not None
        nodes = inner() if self.operands is None else [build(pattern) for pattern in self.operands]
        return bool(self.function(*nodes))

    @property
    def _key(self) -> tuple[object, ...]:
        return self.kind, self.function, self.operands, self.parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Guard) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        if self.kind is Kind.TEST:
            name = getattr(self.function, "__name__", "?")
            return (
                name if self.operands is None else f"{name}({', '.join(map(repr, self.operands))})"
            )
        if self.kind is Kind.NOT:
            return f"~{self.parts[0]!r}"
        word = " & " if self.kind is Kind.ALL else " | "
        return f"({word.join(map(repr, self.parts))})"

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return _restore, (self.kind, portable.pack(self.function), self.operands, self.parts)


def _restore(
    kind: Kind, packed: object, operands: tuple[UPat, ...] | None, parts: tuple[Guard, ...]
) -> Guard:
    return Guard(kind, portable.unpack(packed), operands, parts)


def guard(function: Judge) -> Guard:
    """Decorator: a predicate over nodes as a guard, to be applied to the variables of a rule."""
    portable.refuse_closure(function)
    return Guard(Kind.TEST, function)


def check_alone(test: Guard) -> None:
    """Raises for a predicate of so many nodes that stands alone."""
    assert test.function is not None
    takes_any_number = bool(test.function.__code__.co_flags & 0x04)
    if test.operands is None and not takes_any_number:
        names = ", ".join(test.function.__code__.co_varnames[: test.function.__code__.co_argcount])
        raise LoomError(
            f"the guard {test} must be applied to the variables it judges",
            fix=f"write {test}({names})",
        )


# ---- guards that most rule tables need


@guard
def positive(x: UOp) -> bool:
    """Every value is above 0.  A constant counts as its dtype stores it."""
    low, high = _interval(x)
    return 0 < low <= high


@guard
def negative(x: UOp) -> bool:
    """Every value is below 0."""
    low, high = _interval(x)
    return low <= high < 0


@guard
def nonnegative(x: UOp) -> bool:
    """No value is below 0."""
    low, high = _interval(x)
    return 0 <= low <= high


@guard
def nonzero(x: UOp) -> bool:
    """No value is 0.  Of floats only constants are known, and NaN is not 0."""
    if is_constant(x):
        return constant_value(x) != 0
    low, high = x.bounds
    return (0 < low <= high or low <= high < 0) and not x.dtype.is_float


@guard
def is_int(x: UOp) -> bool:
    """An int dtype, weakint included, bool not."""
    return x.dtype.is_int


@guard
def is_float(x: UOp) -> bool:
    """A float dtype, weakfloat included."""
    return x.dtype.is_float


@guard
def is_bool(x: UOp) -> bool:
    """bool."""
    return x.dtype.is_bool


@guard
def is_weak(x: UOp) -> bool:
    """weakint or weakfloat."""
    return x.dtype.is_weak


@guard
def same_dtype(x: UOp, y: UOp) -> bool:
    """Both have one dtype."""
    return x.dtype is y.dtype


@guard
def valid(x: UOp) -> bool:
    """Neither Invalid nor a choice that may be Invalid."""
    pending = [x]
    while pending:
        node = pending.pop()
        if node.op is Ops.CONST and node.arg is Invalid:
            return False
        if node.op is Ops.WHERE:
            pending.extend(node.src[1:])
        elif node.op is Ops.STACK:
            pending.extend(node.src)
    return True


WRAPPING = OpSet(
    *(Ops.ADD, Ops.SUB, Ops.MUL, Ops.NEG, Ops.SHL, Ops.POW, Ops.CAST, Ops.FLOORDIV, Ops.CDIV)
)


@guard
def no_overflow(*nodes: UOp) -> bool:
    """None of these operations leaves its dtype, so that it is the operation of mathematics.

    weakint never wraps.  For a strong int the interval rules answer with the whole dtype where an operation may
    wrap; that answer is taken for "may wrap".
    """
    return not any(
        node.op in WRAPPING
        and (node.dtype.is_int or node.dtype is dtypes.illtyped)
        and not node.dtype.is_weak
        and not is_constant(node)
        and node.bounds == whole(node.dtype)
        for node in nodes
    )


def _interval(x: UOp) -> tuple[Number, Number]:
    if is_constant(x):
        value = constant_value(x)
        return value, value
    return x.bounds
