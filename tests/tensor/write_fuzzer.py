"""Random programs that write through views, run by loomgrad and by the reference.

A program is a list of Python statements over tensors x0, x1 ...  Both sides execute the same text.  A failure is made
small by leaving out statements, and printed.  `python -m tests.tensor.write_fuzzer FIRST LAST` runs many.
"""

from __future__ import annotations

import gc
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from loomgrad import Tensor, dtypes
from loomgrad.errors import BroadcastWriteError
from tests.tensor.checks import Array
from tests.tensor.write_reference import Reference, Refused

SHAPES = ((4,), (2, 3), (3, 4), (2, 3, 2), (2, 2, 2), (1, 3))
Space = dict[str, Any]
Result = Array | str


def numbers(shape: tuple[int, ...], seed: int) -> Array:
    """Some numbers."""
    return np.random.default_rng(seed).integers(-9, 10, shape, np.int32)


class Loom:
    """The words of a program, for loomgrad."""

    def __init__(self) -> None:
        self.seen: list[Result] = []
        self.exported: list[tuple[Array, Array]] = []

    def space(self) -> Space:
        return {
            "stored": lambda shape, seed: Tensor(numbers(shape, seed)),
            "full": lambda shape, value: Tensor.full(shape, value, dtype=dtypes.int32),
            "lazy": lambda shape, seed: Tensor(numbers(shape, seed)) * 3 + 1,
            "index": lambda places: Tensor(places, dtype=dtypes.int32),
            "mask": lambda flags: Tensor(flags, dtype=dtypes.bool),
            "copy": lambda x: x.contiguous(),
            "same": lambda x: x.cast(x.dtype),
            "unsigned": lambda x: x.bitcast(dtypes.uint32),
            "realize": lambda *tensors: Tensor.realize(*tensors),
            "check": lambda x: self.seen.append(x.numpy().copy()),
            "export": self._export,
            "collect": gc.collect,
        }

    def _export(self, x: Tensor) -> None:
        array = x.numpy()
        self.exported.append((array, array.copy()))


def reference_space(seen: list[Result]) -> Space:
    """The words of a program, for the reference."""
    return {
        "stored": lambda shape, seed: Reference(numbers(shape, seed)),
        "full": lambda shape, value: Reference(np.full(shape, value, np.int32)),
        "lazy": lambda shape, seed: Reference(numbers(shape, seed) * 3 + 1),
        "index": lambda places: np.array(places, np.int32),
        "mask": np.array,
        "copy": Reference.copy,
        "same": Reference.copy,
        "unsigned": lambda x: x.bits(np.uint32),
        "realize": lambda *tensors: None,
        "check": lambda x: seen.append(x.value.copy()),
        "export": lambda x: None,
        "collect": lambda: None,
    }


def execute(statement: str, space: Space, seen: list[Result]) -> None:
    """Run a statement; a write into a broadcast view is part of what is seen."""
    try:
        with np.errstate(over="ignore"):
            exec(statement, space)
    except (BroadcastWriteError, Refused):
        seen.append("refused")


def run(program: list[str]) -> str | None:
    """What is wrong with a program; None if nothing is."""
    wanted: list[Result] = []
    space = reference_space(wanted)
    kept: list[str] = []
    for statement in program:
        try:
            execute(statement, space, wanted)
            kept.append(statement)
        except (NameError, IndexError, ValueError):  # what it needs was left out
            continue
    loom = Loom()
    found_space = loom.space()
    for statement in kept:
        try:
            execute(statement, found_space, loom.seen)
        except Exception as error:
            return f"{type(error).__name__} in {statement!r}: {error}"
    if len(loom.seen) != len(wanted):
        return f"{len(loom.seen)} results, not {len(wanted)}: a write into a broadcast view"
    for position, (found, expected) in enumerate(zip(loom.seen, wanted, strict=True)):
        if isinstance(found, str) or isinstance(expected, str):
            same = found is expected
        else:
            same = found.shape == expected.shape and bool((found == expected).all())
        if not same:
            return f"result {position} is\n{found}\nnot\n{expected}"
    if any((array != before).any() for array, before in loom.exported):
        return "an exported array changed"
    return None


def shrunk(program: list[str]) -> list[str]:
    """A program that is still wrong, without the statements that it does not need."""
    position = len(program) - 1
    while position >= 0:
        shorter = program[:position] + program[position + 1 :]
        if run(shorter) is not None:
            program = shorter
        position -= 1
    return program


class Writer:
    """Writes a program, looking at the shapes that the reference finds."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seen: list[Result] = []
        self.space = reference_space(self.seen)
        self.program: list[str] = []
        self.made = 0
        self.keys: list[tuple[str, str, str]] = []

    def write(self) -> list[str]:
        """All statements; at the end everything is looked at."""
        for _ in range(2):
            self.create()
        kinds: tuple[tuple[Callable[[], None], int], ...] = (
            *((self.create, 1), (self.view, 6), (self.compute, 4), (self.write_whole, 3)),
            *((self.write_part, 6), (self.write_selected, 3), (self.demand, 3), (self.forget, 2)),
        )
        acts, weights = zip(*kinds, strict=True)
        for _ in range(self.random.randint(3, 14)):
            self.random.choices(acts, weights)[0]()
        names = self.names()
        self.random.shuffle(names)
        if self.random.random() < 0.5:
            self.do(f"realize({', '.join(names)})")
        for name in names:
            self.do(f"check({name})")
        return self.program

    # ---- helpers

    def do(self, statement: str) -> None:
        execute(statement, self.space, self.seen)
        self.program.append(statement)

    def make(self, expression: str) -> None:
        self.do(f"x{self.made} = {expression}")
        self.made += 1

    def names(self) -> list[str]:
        return [name for name, value in self.space.items() if isinstance(value, Reference)]

    def pick(self) -> tuple[str, Reference]:
        name = self.random.choice(self.names())
        return name, self.space[name]

    # ---- statements

    def create(self) -> None:
        kind, shape = self.random.choice(("stored", "full", "lazy")), self.random.choice(SHAPES)
        self.make(f"{kind}({shape}, {self.random.randrange(9)})")

    def view(self) -> None:
        name, x = self.pick()
        axes = list(range(len(x.shape)))
        self.random.shuffle(axes)
        key = self.key(x.shape)
        if self.random.random() < 0.5:
            self.keys.append((f"x{self.made}", name, key))
            self.make(f"{name}[{key}]")
            return
        forms = [f"{name}[{key}]"]
        forms += [f"{name}.detach()", f"unsigned({name})", f"{name}.reshape({x.value.size})"]
        forms += [f"{name}.reshape({', '.join(map(str, (*x.shape[::-1], 1)))})"]
        if axes:
            forms += [f"{name}.permute{tuple(axes)}", f"{name}.flip({axes[0]})"]
        forms.append(f"{name}.expand({', '.join(map(str, (2, *x.shape)))})")
        self.make(self.random.choice(forms))

    def compute(self) -> None:
        name, x = self.pick()
        others = [
            other
            for other in self.names()
            if self.space[other].shape == x.shape and self.space[other].value.dtype == x.value.dtype
        ]
        forms = [f"{name} + 1", f"{name} * 2 + {name}", f"{name} - {self.random.choice(others)}"]
        forms += [f"copy({name})", f"same({name})"]
        if x.shape and x.value.dtype == np.int32:
            forms.append(f"{name}.sum({self.random.randrange(len(x.shape))})")
        form = self.random.choice(forms)
        for _ in range(self.random.choice((1, 1, 2))):  # equal expressions are different tensors
            self.make(form)

    def write_whole(self) -> None:
        name, x = self.pick()
        value = self.source(name, x, x.shape)
        if self.random.random() < 0.5:
            self.do(f"{name}.assign({value})")
        else:
            self.do(f"{name} {self.random.choice(('+=', '-=', '*=', '|='))} {value}")

    def write_part(self) -> None:
        if self.keys and self.random.random() < 0.2:
            self.write_again()
            return
        name, x = self.pick()
        key = self.key(x.shape)
        slot = np.empty(x.shape)[self.value_of(key)].shape
        operator = self.random.choice(("=", "=", "=", "+=", "*=", "-="))
        self.do(f"{name}[{key}] {operator} {self.source(name, x, slot)}")

    def write_again(self) -> None:
        """An old view, written to where it comes from."""
        view, name, key = self.random.choice(self.keys)
        if {view, name} <= set(self.names()):
            self.do(f"{name}[{key}] = {view}")

    def write_selected(self) -> None:
        """Through index tensors, lists, a mask."""
        name, x = self.pick()
        if not x.shape or 0 in x.shape:
            return
        operator = "="
        if self.random.random() < 0.3:
            flags = [bool(self.random.randrange(2)) for _ in range(x.value.size)]
            rank = self.random.randint(1, len(x.shape))
            shape = x.shape[:rank]
            key = f"mask({np.array(flags).reshape(-1)[: int(np.prod(shape))].reshape(shape).tolist()})"
        elif self.random.random() < 0.3:
            key, operator = f"index({self.places(x.shape[0], (3,))})", "+="
        else:
            key = self.selectors(x.shape)
        slot = np.empty(x.shape)[self.value_of(key)].shape
        self.do(f"{name}[{key}] {operator} {self.source(name, x, slot)}")

    def demand(self) -> None:
        names = self.names()
        chosen = self.random.sample(names, self.random.randint(1, min(3, len(names))))
        word = self.random.choice(("realize", "realize", "check", "export"))
        self.do(f"{word}({', '.join(chosen if word == 'realize' else chosen[:1])})")

    def forget(self) -> None:
        names = self.names()
        if len(names) > 1:
            self.do(f"del {self.random.choice(names)}")
        self.do("collect()") if self.random.random() < 0.2 else None

    # ---- parts of statements

    def value_of(self, text: str) -> Any:
        return eval(f"KEY[{text}]", KEYS | self.space)

    def key(self, shape: tuple[int, ...]) -> str:
        """A basic key: ints, slices, None, Ellipsis."""
        parts = [self.part(size) for size in shape[: self.random.randint(0, len(shape))]]
        if self.random.random() < 0.2:
            parts.insert(self.random.randint(0, len(parts)), "None")
        if not parts or self.random.random() < 0.15:
            parts.append("...")
        return ", ".join(parts)

    def part(self, size: int) -> str:
        draw = self.random
        if size and draw.random() < 0.3:
            return str(draw.randrange(-size, size))
        ends = [draw.choice(("", str(draw.randint(-size, size)))) for _ in range(2)]
        return f"{ends[0]}:{ends[1]}" + draw.choice(("", "", ":2", ":-1", ":-2", ":3"))

    def selectors(self, shape: tuple[int, ...]) -> str:
        """Index tensors and lists among slices and ints."""
        draw = self.random
        parts = [draw.choice(("ix", "ix", ":", self.part(size))) for size in shape]
        parts[draw.randrange(len(parts))] = "ix"
        form = draw.choice(((2,), (3,), (2, 1)))
        filled = [
            (draw.choice(("index({})", "{}")).format(self.places(size, form)) if p == "ix" else p)
            for p, size in zip(parts, shape, strict=True)
        ]
        return ", ".join(filled)

    def places(self, size: int, shape: tuple[int, ...]) -> Any:
        count = int(np.prod(shape))
        drawn = [self.random.randrange(-size, size) for _ in range(count)]
        return np.array(drawn).reshape(shape).tolist()

    def source(self, name: str, x: Reference, shape: tuple[int, ...]) -> str:
        """A value for a slot: a number, a tensor that broadcasts to it, part of the tensor that is written."""
        draw = self.random
        options = [str(draw.randrange(9)), f"stored({shape}, {draw.randrange(9)})"]
        for other in [*self.names(), *(f"{name}{cut}" for cut in ("[1:]", "[:-1]", "[::-1]"))]:
            try:
                value = eval(other, dict(self.space))
                fits = np.broadcast_shapes(value.shape, shape) == shape
            except (IndexError, ValueError):
                continue
            if fits and value.value.dtype == x.value.dtype:
                options += [other, f"{other} + 1", f"{other} * 2"]
        chosen = draw.choice(options)
        return "3" if "stored" in chosen and x.value.dtype != np.int32 else chosen


class _Key:
    def __getitem__(self, key: Any) -> Any:
        return key


KEYS: Space = {"KEY": _Key()}


def failure(seed: int) -> str | None:
    """The smallest program of a seed that is wrong, and what is wrong with it."""
    program = Writer(seed).write()
    if run(program) is None:
        return None
    small = shrunk(program)
    return f"seed {seed}:\n" + "\n".join(f"    {line}" for line in small) + f"\n{run(small)}"


def main(first: int, last: int) -> int:
    """Runs the programs of many seeds and reports."""
    start, wrong = time.perf_counter(), 0
    for seed in range(first, last):
        found = failure(seed)
        if found is not None:
            wrong += 1
            print(found, flush=True)  # noqa: T201
        if (seed + 1 - first) % 250 == 0:
            spent = time.perf_counter() - start
            print(f"{seed + 1 - first} programs, {wrong} wrong, {spent:.0f} s", flush=True)  # noqa: T201
    print(f"{last - first} programs, {wrong} wrong")  # noqa: T201
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
