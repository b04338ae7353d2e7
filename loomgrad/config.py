"""Every setting of loomgrad, in one table.

A setting is read from the environment when loomgrad is imported, as `LOOMGRAD_DEBUG` or as `DEBUG`;
the longer name wins.  The short names are common words that other programs use too, so a value of a
short name that does not fit is ignored with a warning, while under the long name it is an error.

`Context` changes settings for a block or a function, in the thread (or asyncio task) that runs it and
in no other.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from contextlib import ContextDecorator
from contextvars import ContextVar
from types import TracebackType
from typing import Generic, Self, TypeVar

from loomgrad.errors import SettingError, did_you_mean

PREFIX = "LOOMGRAD_"
Value = TypeVar("Value", bound=bool | int | str, covariant=True)
Kind = TypeVar("Kind", bound=bool | int | str)

SETTINGS: dict[str, Setting[bool | int | str]] = {}


def warn_of_variable(name: str, message: str) -> None:
    """Warn of a variable of the environment.  That is the place to look at: no line of a program set it."""
    where = f"environment variable {name}"
    warnings.warn_explicit(message, UserWarning, where, lineno=1, module=__name__)


class Setting(Generic[Value]):
    """One setting: `value` is what holds here and now."""

    __slots__ = ("_variable", "accept", "default", "meaning", "name")

    def __init__(
        self, name: str, default: Value, accept: Callable[[object], Value], meaning: str
    ) -> None:
        self.name = name
        self.default = default
        self.accept = accept
        self.meaning = meaning
        initial = self._from_environment()
        self._variable = ContextVar(name, default=initial)

    @property
    def value(self) -> Value:
        """The value in the current thread."""
        return self._variable.get()

    def check(self, value: object, asked: str = "") -> Value:
        """The value as this setting keeps it; `asked` is how the text of an error names the request."""
        try:
            return self.accept(value)
        except ValueError as problem:
            raise SettingError(
                f"{asked or f'{self.name}={value!r}'} is no value of this setting",
                fix=f"{self.name} takes {problem}; its default is {self.default!r}",
            ) from None

    def change(self, value: object) -> Callable[[], None]:
        """Set the value in the current thread; the function that comes back undoes it."""
        token = self._variable.set(self.check(value))
        return lambda: self._variable.reset(token)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __repr__(self) -> str:
        return f"{self.name}={self.value!r}"

    def _from_environment(self) -> Value:
        long = PREFIX + self.name
        if long in os.environ:
            return self.check(os.environ[long], asked=f"{long}={os.environ[long]}")
        if self.name in os.environ:
            try:
                return self.accept(os.environ[self.name])
            except ValueError as problem:
                ignored = f"{self.name}={os.environ[self.name]}"
                warn_of_variable(self.name, f"loomgrad ignores {ignored}: it takes {problem}")
        return self.default


def switch(value: object) -> bool:
    """A bool, or 0 or 1, also as text."""
    if (text := str(value).casefold()) in ("0", "1", "false", "true"):
        return text in ("1", "true")
    raise ValueError("0 or 1")


def number(low: int, high: int) -> Callable[[object], int]:
    """Accept an int from `low` to `high`, also as text."""

    def accept(value: object) -> int:
        if isinstance(value, (int, str)):
            try:
                found = int(value)
            except ValueError:
                found = low - 1
            if low <= found <= high:
                return found
        raise ValueError(f"a whole number from {low} to {high}")

    return accept


def text(value: object) -> str:
    """Accept a text that is not empty."""
    if isinstance(value, str) and value.strip():
        return value.strip()
    raise ValueError("a text that is not empty")


def setting(
    name: str, default: Kind, accept: Callable[[object], Kind], meaning: str
) -> Setting[Kind]:
    """Make a row of the table."""
    row = Setting(name, default, accept, meaning)
    SETTINGS[name] = row
    return row


# fmt: off
# ruff: noqa: E501
#                 name       default  accepts           meaning
DEBUG   = setting("DEBUG",   0,       number(0, 7),     "Print what runs: 1 a line per realize, 2 a line per kernel, 3 its actions, 4 its source, 5 its assembly.")
CHECK   = setting("CHECK",   False,   switch,           "Run each kernel in the reference evaluator too and compare.")
VERIFY  = setting("VERIFY",  False,   switch,           "Check the graph after each pass against the grammar of its level.")
NOOPT   = setting("NOOPT",   False,   switch,           "Compile each kernel as plain loops, without vectors, tiles and threads.")
THREADS = setting("THREADS", 0,       number(0, 4096),  "How many threads run a CPU kernel; 0 means one per core.")
DEVICE  = setting("DEVICE",  "CPU",   text,             "Where tensors are made unless a device is given.")
# fmt: on


class Context(ContextDecorator):
    """Change settings for a block or a function: `with Context(DEBUG=2):`, `@Context(CHECK=1)`.

    The change holds in the thread that runs the block, and is undone at its end whatever happens inside.

    Raises: SettingError on an unknown name or on a value that the setting does not take.
    """

    def __init__(self, **changes: bool | int | str) -> None:
        for name in changes:
            if name not in SETTINGS:
                raise SettingError(f"there is no setting {name}", fix=did_you_mean(name, SETTINGS))
        self._changes = {name: SETTINGS[name].check(value) for name, value in changes.items()}
        self._entered: list[list[Callable[[], None]]] = []

    def __enter__(self) -> Self:
        self._entered.append(
            [SETTINGS[name].change(value) for name, value in self._changes.items()]
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for restore in reversed(self._entered.pop()):
            restore()

    def _recreate_cm(self) -> Self:
        """A decorated function gets a Context of its own per call, so that threads may call it at once."""
        return type(self)(**self._changes)


def unknown_in_environment() -> list[str]:
    """Variables of the environment that carry our prefix and name no setting."""
    names = (name.removeprefix(PREFIX) for name in os.environ if name.startswith(PREFIX))
    return sorted(name for name in names if name not in SETTINGS)


for _name in unknown_in_environment():
    warn_of_variable(
        PREFIX + _name, f"loomgrad has no setting {_name}: {did_you_mean(_name, SETTINGS)}"
    )
