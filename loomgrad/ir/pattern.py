"""Patterns: what a rule looks for in a graph, written as the graph would be.

    x, c = UPat.var("x"), UPat.cvar("c")
    x * c + x          matches MUL(x, c) + x in each order of both commutative operations

The same name twice means the same node.  A Python number matches a constant by value, through CAST.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import permutations
from typing import Any

from loomgrad.dtype import DType, Number
from loomgrad.errors import LoomError
from loomgrad.ir.constant import CONSTANT_OPS
from loomgrad.ir.opcode import GroupOp, Op, Ops, OpSet
from loomgrad.ir.pattern_algebra import PatternAlgebra
from loomgrad.ir.value_test import ValueTest, value_test

DTypeQuestion = DType | Collection[DType] | Callable[[DType], bool]


class Order(enum.Enum):
    """How source patterns stand for sources."""

    GIVEN = enum.auto()  # one after the other
    ANY = enum.auto()  # in each order
    EACH = enum.auto()  # the one pattern for every source


class AnyValue(enum.Enum):
    """The value of a constant pattern that takes every constant."""

    ANY_VALUE = enum.auto()


ANY_VALUE = AnyValue.ANY_VALUE


class UPat(PatternAlgebra):
    """A pattern of one node and of what is below it.

    `op`: an operation, several, or None for any.
    `dtype`: a dtype, several, or a predicate.
    `src`: None for any sources, a tuple of patterns in this order, a list of patterns in any order, or one
    pattern that every source must match (it cannot name anything).  `allow_more` permits further sources.
    `arg` and `tag`: a value, a set of values, a dict of fields with their values, or a predicate.
    `early_reject`: operations that must be among the sources, where the patterns alone do not tell.
    """

    __slots__ = (
        *("ops", "dtypes", "src", "order", "allow_more", "arg", "tag", "name", "value"),
        *("alternatives", "early_reject", "_key", "_hash"),
    )
    ops: OpSet | None
    dtypes: ValueTest | None
    src: tuple[UPat, ...] | None
    order: Order
    allow_more: bool
    arg: ValueTest | None
    tag: ValueTest | None
    name: str | None
    value: Number | AnyValue | None
    alternatives: tuple[UPat, ...]
    early_reject: OpSet | None
    _key: tuple[object, ...]
    _hash: int

    def __init__(
        self,
        op: Op | Iterable[Op] | None = None,
        dtype: DTypeQuestion | None = None,
        src: UPat | tuple[UPat, ...] | list[UPat] | None = None,
        arg: object = None,
        name: str | None = None,
        tag: object = None,
        *,
        allow_more: bool = False,
        early_reject: Iterable[Op] | None = None,
    ) -> None:
        order = Order.ANY if isinstance(src, list) else Order.GIVEN
        if isinstance(src, UPat):
            src, order = (src,), Order.EACH
            if src[0].names:
                raise LoomError(
                    f"a pattern for every source cannot name one: {src[0]}",
                    fix="give a tuple or a list of patterns, one for each source",
                )
        several = isinstance(dtype, Collection)
        self._fill(
            ops=op,
            dtypes=value_test(frozenset(dtype) if several else dtype),  # type: ignore[arg-type]
            src=None if src is None else tuple(src),
            order=order,
            allow_more=allow_more,
            arg=value_test(arg),
            tag=value_test(tag),
            name=name,
            early_reject=early_reject,
        )

    def _fill(self, **fields: Any) -> None:
        for slot in _FIELDS:
            setattr(self, slot, fields.get(slot, _DEFAULTS.get(slot)))
        self.ops, self.early_reject = _op_set(self.ops), _op_set(self.early_reject)
        value = self.value
        self._key = tuple(getattr(self, slot) for slot in _FIELDS if slot != "value")
        self._key += (type(value), repr(value))
        self._hash = hash(self._key)

    def _with(self, **changes: Any) -> UPat:
        made = object.__new__(UPat)
        made._fill(**{**{slot: getattr(self, slot) for slot in _FIELDS}, **changes})
        return made

    # ---- the ways to write a pattern

    @staticmethod
    def var(name: str, dtype: DTypeQuestion | None = None) -> UPat:
        """Any node."""
        return UPat(dtype=dtype, name=name)

    @staticmethod
    def cvar(name: str | None = None, dtype: DTypeQuestion | None = None) -> UPat:
        """Any constant: a CONST, or a CAST of one."""
        return UPat(CONSTANT_OPS, dtype, name=name)._with(value=ANY_VALUE)

    @staticmethod
    def const(value: Number, dtype: DTypeQuestion | None = None) -> UPat:
        """The constant of this value, in whatever dtype it stands; a Python number in a pattern is this."""
        return UPat(CONSTANT_OPS, dtype)._with(value=value)

    @staticmethod
    def any(*alternatives: UPat) -> UPat:
        """The first alternative that matches; each is tried."""
        made = UPat()
        known = [alternative.ops for alternative in alternatives if alternative.ops is not None]
        complete = len(known) == len(alternatives)
        ops = OpSet(*(op for ops in known for op in ops)) if complete else None
        return made._with(alternatives=alternatives, ops=ops)

    def named(self, name: str) -> UPat:
        """This pattern, with its node known by a name."""
        return self._with(name=name)

    def or_casted(self) -> UPat:
        """This or a CAST of it."""
        return UPat.any(self, self.cast())

    def or_bitcasted(self) -> UPat:
        """This or a BITCAST of it."""
        return UPat.any(self, self.bitcast())

    def or_after(self) -> UPat:
        """This or an AFTER of it."""
        return UPat.any(self, self.after())

    def alu(self, op: Op, *others: UPat | Number) -> UPat:
        """The pattern of `op` on this and others; both orders match where `op` commutes."""
        sources = [self, *(_pattern(other) for other in others)]
        return UPat(op, src=sources if op in GroupOp.Commutative else tuple(sources))

    def structure(
        self, op: Op, *others: UPat, arg: object = None, allow_more: bool = False
    ) -> UPat:
        """The pattern of `op` with this and others as its first sources, in this order."""
        return UPat(op, src=(self, *others), arg=arg, allow_more=allow_more)

    def literal(self, value: Number) -> UPat:
        """The pattern of a constant of this value."""
        return UPat.const(value)

    def cast(self, dtype: DTypeQuestion | None = None) -> UPat:
        """A CAST of this; in a rule's result, without `dtype`, to the dtype of the replaced node."""
        return UPat(Ops.CAST, dtype, (self,))

    def bitcast(self, dtype: DTypeQuestion | None = None) -> UPat:
        """A BITCAST of this."""
        return UPat(Ops.BITCAST, dtype, (self,))

    # ---- what matchers ask

    @property
    def orders(self) -> list[tuple[UPat, ...]]:
        """The different orders of the source patterns, as given first; none without source patterns."""
        if self.src is None or self.order is Order.EACH:
            return []
        if self.order is Order.GIVEN:
            return [self.src]
        return list(dict.fromkeys(permutations(self.src)))

    def walk(self) -> Iterator[UPat]:
        """This pattern and all below it."""
        yield self
        for below in (*(self.src or ()), *self.alternatives):
            yield from below.walk()

    @property
    def names(self) -> frozenset[str]:
        """The names that a match may bind."""
        return frozenset(pattern.name for pattern in self.walk() if pattern.name is not None)

    @property
    def sure_names(self) -> frozenset[str]:
        """The names that every match binds: of alternatives, those that all of them have."""
        own = frozenset() if self.name is None else frozenset((self.name,))
        if self.alternatives:
            return own | frozenset.intersection(*(a.sure_names for a in self.alternatives))
        return own.union(*(source.sure_names for source in self.src or ()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UPat) and self._hash == other._hash and self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, tuple[dict[str, object]]]:
        fields = {slot: getattr(self, slot) for slot in _FIELDS}
        for slot in ("ops", "early_reject"):
            fields[slot] = None if fields[slot] is None else tuple(sorted(fields[slot]))
        return _restore, (fields,)

    def __repr__(self) -> str:
        if self.value is not None and self.value is not ANY_VALUE:
            return repr(self.value)
        if self.alternatives:
            text = " or ".join(map(repr, self.alternatives))
        else:
            text = self._structure_text()
        return text if self.name is None else f"{self.name}:{text}" if text else self.name

    def _structure_text(self) -> str:
        if self.value is ANY_VALUE:
            return "constant"
        ops = "" if self.ops is None else "|".join(op.name for op in sorted(self.ops))
        parts = [] if self.src is None else list(map(repr, self.src))
        if self.order is Order.EACH:
            parts[-1] += " each"
        if self.allow_more:
            parts.append("...")
        inside = f"({', '.join(parts)})" if self.src is not None else ""
        dtype = "" if self.dtypes is None else f" of {self.dtypes}"
        arg = "" if self.arg is None else f" with {self.arg}"
        return f"{ops or ('any' if inside else '')}{inside}{dtype}{arg}"


_FIELDS = UPat.__slots__[:-2]
_DEFAULTS = {"order": Order.GIVEN, "allow_more": False, "alternatives": ()}


def _restore(fields: dict[str, object]) -> UPat:
    return UPat()._with(**fields)


def _op_set(op: Op | Iterable[Op] | None) -> OpSet | None:
    if op is None or isinstance(op, OpSet):
        return op
    return OpSet(op) if isinstance(op, Op) else OpSet(*op)


def _pattern(value: UPat | Number) -> UPat:
    return value if isinstance(value, UPat) else UPat.const(value)


def as_pattern(value: UPat | Number | Op | Sequence[Op] | OpSet) -> UPat:
    """What a rule was given, as a pattern: an operation stands for its nodes, a number for a constant."""
    if isinstance(value, (bool, int, float)):
        return UPat.const(value)
    return value if isinstance(value, UPat) else UPat(value)


def where(condition: UPat, chosen: UPat | Number, otherwise: UPat | Number) -> UPat:
    """`chosen` where `condition` is true, `otherwise` elsewhere."""
    return condition.where(chosen, otherwise)
