"""The names of the operations.  What each one means stands in its row of `ops.py`.

An `Op` is a plain object with identity hash, so that looking a node up runs no Python code.  `Op.bit` is
one bit of an integer; sets of operations are frozensets that come with the union of their members' bits.
"""

from __future__ import annotations

from collections.abc import Iterator


class Op:
    """One operation: a name, a place in the table and a bit."""

    __slots__ = ("name", "index", "bit")

    def __init__(self, name: str, index: int) -> None:
        self.name = name
        self.index = index
        self.bit = 1 << index

    def __repr__(self) -> str:
        return f"Ops.{self.name}"

    def __reduce__(self) -> tuple[object, tuple[object, str]]:
        return getattr, (Ops, self.name)

    def __lt__(self, other: Op) -> bool:
        return self.index < other.index


class _Namespace(type):
    """Gives every annotated name of `Ops` an `Op`, and makes the class iterable."""

    _members: dict[str, Op]

    def __new__(mcs, name: str, bases: tuple[type, ...], body: dict[str, object]) -> _Namespace:
        annotations = body.get("__annotations__", {})
        assert isinstance(annotations, dict)
        members = {member: Op(member, index) for index, member in enumerate(annotations)}
        body.update(members)
        body["_members"] = members
        return super().__new__(mcs, name, bases, body)

    def __iter__(cls) -> Iterator[Op]:
        return iter(cls._members.values())

    def __len__(cls) -> int:
        return len(cls._members)

    def __getitem__(cls, name: str) -> Op:
        return cls._members[name]

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Op)


class Ops(metaclass=_Namespace):
    """Every operation of the IR, in the order of the table."""

    # storage and values
    CONST: Op
    BUFFER: Op
    PARAM: Op
    STACK: Op
    RANGE: Op
    # movement, in the tensor graph (RESHAPE, PERMUTE and EXPAND also over lane axes)
    RESHAPE: Op
    PERMUTE: Op
    FLIP: Op
    PAD: Op
    SHRINK: Op
    EXPAND: Op
    # elementwise with one source
    CAST: Op
    BITCAST: Op
    EXP2: Op
    LOG2: Op
    EXP: Op
    LOG: Op
    SIN: Op
    COS: Op
    TANH: Op
    SQRT: Op
    RECIPROCAL: Op
    NEG: Op
    TRUNC: Op
    # elementwise with two sources
    ADD: Op
    SUB: Op
    MUL: Op
    FDIV: Op
    CDIV: Op
    CMOD: Op
    FLOORDIV: Op
    FLOORMOD: Op
    MAX: Op
    POW: Op
    CMPLT: Op
    CMPNE: Op
    CMPEQ: Op
    AND: Op
    OR: Op
    XOR: Op
    SHL: Op
    SHR: Op
    THREEFRY: Op
    # elementwise with three sources
    WHERE: Op
    MULACC: Op
    # reduction
    REDUCE: Op
    # memory and order
    INDEX: Op
    LOAD: Op
    STORE: Op
    AFTER: Op
    END: Op
    GROUP: Op
    SINK: Op
    STAGE: Op
    # marks in the tensor graph
    CONTIGUOUS: Op
    DETACH: Op
    NOOP: Op
    # programs
    CALL: Op
    LINEAR: Op


class OpSet(frozenset[Op]):
    """A frozen set of operations with the union of their bits."""

    mask: int

    def __new__(cls, *members: Op) -> OpSet:
        made = super().__new__(cls, members)
        made.mask = 0
        for member in members:
            made.mask |= member.bit
        return made

    def __reduce__(self) -> tuple[object, tuple[Op, ...]]:
        return OpSet, tuple(sorted(self))


class GroupOp:
    """Named sets of operations."""

    Movement = OpSet(Ops.RESHAPE, Ops.PERMUTE, Ops.FLIP, Ops.PAD, Ops.SHRINK, Ops.EXPAND)
    Unary = OpSet(
        *(Ops.CAST, Ops.BITCAST, Ops.EXP2, Ops.LOG2, Ops.EXP, Ops.LOG, Ops.SIN, Ops.COS),
        *(Ops.TANH, Ops.SQRT, Ops.RECIPROCAL, Ops.NEG, Ops.TRUNC),
    )
    Comparison = OpSet(Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ)
    Binary = OpSet(
        *(Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV, Ops.CDIV, Ops.CMOD, Ops.FLOORDIV, Ops.FLOORMOD),
        *(Ops.MAX, Ops.POW, Ops.CMPLT, Ops.CMPNE, Ops.CMPEQ, Ops.AND, Ops.OR, Ops.XOR),
        *(Ops.SHL, Ops.SHR, Ops.THREEFRY),
    )
    Ternary = OpSet(Ops.WHERE, Ops.MULACC)
    Elementwise = OpSet(*Unary, *Binary, *Ternary)
    Commutative = OpSet(Ops.ADD, Ops.MUL, Ops.MAX, Ops.CMPNE, Ops.CMPEQ, Ops.AND, Ops.OR, Ops.XOR)
    Associative = OpSet(Ops.ADD, Ops.MUL, Ops.MAX, Ops.AND, Ops.OR, Ops.XOR)
    Division = OpSet(Ops.CDIV, Ops.CMOD, Ops.FLOORDIV, Ops.FLOORMOD)
    Transcendental = OpSet(
        *(Ops.EXP2, Ops.LOG2, Ops.EXP, Ops.LOG, Ops.SIN, Ops.COS, Ops.TANH),
        *(Ops.POW, Ops.SQRT),
    )
    Storage = OpSet(Ops.BUFFER, Ops.PARAM)
