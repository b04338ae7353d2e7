"""The text of a function while its loops are open.

An instruction without side effects is written at the level of its operands: outside of every loop that it does not
depend on, before the loop that is open there.  Equal instructions of one level are written once.  So the text needs
no passes that move or merge code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class _Block:
    """The body of an open loop, or of the function."""

    lines: list[str] = field(default_factory=list)
    known: dict[str, str] = field(default_factory=dict)  # instruction -> its result
    label: str = "entry"  # of the basic block that the lines end in
    # Of a loop: its label, the counter, where it starts and ends, and whether it runs at least once.
    head: str = ""
    counter: str = ""
    start: str = "0"
    end: str = ""
    runs: bool = True


class Writer:
    """Writes instructions into the open blocks.  Level 0 is the function, level n the n-th open loop."""

    def __init__(self) -> None:
        self.blocks = [_Block()]
        self.storage: list[str] = []  # allocas, which stand first
        self._names = 0

    @property
    def level(self) -> int:
        """The level of the innermost open loop."""
        return len(self.blocks) - 1

    def name(self) -> str:
        """A new name."""
        self._names += 1
        return f"%v{self._names}"

    def pure(self, level: int, text: str) -> str:
        """The result of an instruction that depends on nothing inside of `level`."""
        block = self.blocks[level]
        if (found := block.known.get(text)) is None:
            found = block.known[text] = self.name()
            block.lines.append(f"  {found} = {text}")
        return found

    def value(self, text: str) -> str:
        """The result of an instruction that must stand here, such as a load."""
        result = self.name()
        self.blocks[-1].lines.append(f"  {result} = {text}")
        return result

    def effect(self, text: str) -> None:
        """An instruction without result."""
        self.blocks[-1].lines.append(f"  {text}")

    def reserve(self, type_: str, alignment: int) -> str:
        """Storage of this call of the function."""
        result = self.name()
        self.storage.append(f"  {result} = alloca {type_}, align {alignment}")
        return result

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """What is written inside runs only if `condition` holds; it must be effects."""
        block = self.blocks[-1]
        then, after = f"{self.name()[1:]}.then", f"{self.name()[1:]}.after"
        self.effect(f"br i1 {condition}, label %{then}, label %{after}")
        block.lines.append(f"{then}:")
        yield
        self.effect(f"br label %{after}")
        block.lines.append(f"{after}:")
        block.label = after

    def open_loop(self, start: str, end: str, *, runs: bool) -> str:
        """Begin a loop over start .. end - 1; returns its counter, an i64.  `runs`: start < end is known."""
        counter = self.name()
        head = f"loop{counter[1:]}"
        self.blocks.append(
            _Block([], {}, head, head=head, counter=counter, start=start, end=end, runs=runs)
        )
        return counter

    def close_loop(self) -> None:
        """End the innermost loop."""
        inner = self.blocks.pop()
        outer = self.blocks[-1]
        following, condition, leave = self.name(), self.name(), f"{inner.head}.end"
        if inner.runs:
            outer.lines.append(f"  br label %{inner.head}")
        else:
            enters = self.name()
            outer.lines.append(f"  {enters} = icmp slt i64 {inner.start}, {inner.end}")
            outer.lines.append(f"  br i1 {enters}, label %{inner.head}, label %{leave}")
        outer.lines += [
            f"{inner.head}:",
            f"  {inner.counter} = phi i64 [ {inner.start}, %{outer.label} ], [ {following}, %{inner.label} ]",
            *inner.lines,
            f"  {following} = add nuw nsw i64 {inner.counter}, 1",
            f"  {condition} = icmp slt i64 {following}, {inner.end}",
            f"  br i1 {condition}, label %{inner.head}, label %{leave}",
            f"{leave}:",
        ]
        outer.label = leave

    def text(self) -> str:
        """The whole body, after the last loop was closed."""
        assert self.level == 0, "a loop is still open"
        return "\n".join(["entry:", *self.storage, *self.blocks[0].lines, "  ret void"])
