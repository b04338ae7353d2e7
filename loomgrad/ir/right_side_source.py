"""The right side of a data rule as a generated function; `right_side.py` says what it means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from loomgrad.dtype import Number
from loomgrad.ir.constant import literal_beside, literal_like
from loomgrad.ir.guard import Guard, Kind
from loomgrad.ir.namespace import Namespace
from loomgrad.ir.opcode import Ops
from loomgrad.ir.pattern import UPat
from loomgrad.ir.right_side import CASTS, cast_dtype, fit, neighbour_index, number_of, only_op
from loomgrad.ir.rule import Rule
from loomgrad.ir.uop import UOp


@dataclass(frozen=True, slots=True)
class Law:
    """What a data rule does at a match, as a function of the matched node and of the nodes named.

    It gives the fitting result, or None where the guard does not hold.  With `judges_inner` a last argument holds
    the operations that the left side looked into below its root.
    """

    function: Callable[..., UOp | None]
    names: tuple[str, ...]
    judges_inner: bool
    source: str


_laws: dict[Rule, Law] = {}


def law_of(rule: Rule) -> Law:
    """The generated function of a rule, made once for equal rules."""
    present = _laws.get(rule)
    if present is None:
        present = _laws.setdefault(rule, _generate(rule))
    return present


def _generate(rule: Rule) -> Law:
    namespace = Namespace()
    names = tuple(sorted(rule.before.sure_names))
    variables = {name: f"v{place}" for place, name in enumerate(names)}
    alone = rule.when is not None and any(test.operands is None for test in rule.when.tests())
    parameters = ["n", *variables.values(), *(["inner"] if alone else [])]
    lines = [f"def law({', '.join(parameters)}):", *_body(rule, variables, alone, namespace)]
    source = "\n    ".join(lines) + "\n"
    return Law(namespace.run(source, "law", f"<rule {rule.name}>"), names, alone, source)


def _body(rule: Rule, variables: dict[str, str], alone: bool, namespace: Namespace) -> list[str]:
    """Judge the guard, make the result, bring it to shape and dtype."""
    result = _Builder(variables, namespace, "t")
    expression = result.build(rule.after, True)
    returned = f"return {namespace.name_of(fit)}({expression}, n)"
    if rule.when is None:
        return [*result.lines, returned]
    judged = _Builder(variables, namespace, "g")
    inner = f"*inner, {', '.join(result.made[:-1])}"
    condition = _guard_text(rule.when, judged, inner)
    refusal = [f"if not ({condition}):", "    return None"]
    if alone:
        return [*result.lines, *judged.lines, *refusal, returned]
    return [*judged.lines, *refusal, *result.lines, returned]


def _guard_text(guard: Guard, builder: _Builder, inner: str) -> str:
    if guard.kind is Kind.NOT:
        return f"not {_guard_text(guard.parts[0], builder, inner)}"
    if guard.kind is not Kind.TEST:
        word = " and " if guard.kind is Kind.ALL else " or "
        return f"({word.join(_guard_text(part, builder, inner) for part in guard.parts)})"
    operands = inner
    if guard.operands is not None:
        operands = ", ".join(builder.build(operand, False) for operand in guard.operands)
    return f"{builder.namespace.name_of(guard.function)}({operands})"


class _Builder:
    """Writes the construction of patterns; each operation gets a variable."""

    def __init__(self, variables: dict[str, str], namespace: Namespace, prefix: str) -> None:
        self.variables = variables
        self.namespace = namespace
        self.prefix = prefix
        self.lines: list[str] = []
        self.made: list[str] = []

    def build(self, pattern: UPat, in_place: bool) -> str:
        """The variable or expression of a pattern's node.  `in_place`: its value is the replaced node's."""
        if pattern.name is not None:
            return self.variables[pattern.name]
        if (number := number_of(pattern)) is not None:
            return self._like(number, "n") if in_place else self._constant(number)
        op, sources = only_op(pattern), pattern.src or ()
        if op in CASTS:
            dtype = cast_dtype(pattern)
            wanted = "n.dtype" if dtype is None else self.namespace.name_of(dtype)
            return self._node(pattern, [self.build(sources[0], False)], wanted)
        choice = in_place and op is Ops.WHERE
        built = [
            None if number_of(s) is not None else self.build(s, choice and place > 0)
            for place, s in enumerate(sources)
        ]
        index = neighbour_index(pattern)
        neighbour = None if index is None else built[index]
        operands = []
        for source, text in zip(sources, built, strict=True):
            number = number_of(source)
            if text is not None or number is None:
                operands.append(text or "")
            elif neighbour is not None:
                operands.append(self._beside(number, neighbour))
            else:
                operands.append(self._like(number, "n") if choice else self._constant(number))
        return self._node(pattern, operands, None)

    def _node(self, pattern: UPat, operands: list[str], arg: str | None) -> str:
        variable = f"{self.prefix}{len(self.made)}"
        name_of = self.namespace.name_of
        more = "" if arg is None else f", {arg}"
        sources = f"({', '.join(operands)},)"
        self.lines.append(
            f"{variable} = {name_of(UOp)}({name_of(only_op(pattern))}, {sources}{more})"
        )
        self.made.append(variable)
        return variable

    def _constant(self, number: Number) -> str:
        name_of = self.namespace.name_of
        return f"{name_of(UOp)}({name_of(Ops.CONST)}, (), {name_of(number)})"

    def _beside(self, number: Number, neighbour: str) -> str:
        return f"{self.namespace.name_of(literal_beside)}({self.namespace.name_of(number)}, {neighbour})"

    def _like(self, number: Number, node: str) -> str:
        return f"{self.namespace.name_of(literal_like)}({self.namespace.name_of(number)}, {node})"
