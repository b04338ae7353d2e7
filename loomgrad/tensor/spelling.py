"""Other names of arguments: `dim`, as PyTorch says, for `axis`, and NumPy's `keepdims` for `keepdim`.

A method that takes them is declared so:

    @other_names
    def sum(self, axis: Axes = None, keepdim: bool = False, **other: Unpack[SeveralAxes]) -> Self:

The TypedDict tells type checkers; when the method runs, `other` is empty.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import ParamSpec, TypedDict, TypeVar

from loomgrad.errors import ArgumentError, did_you_mean

P = ParamSpec("P")
R = TypeVar("R")

Axes = int | Sequence[int] | None
# Names that mean the same; a method has one of each row as its usual one.
SAME = (("axis", "dim", "dims"), ("keepdim", "keepdims"))


class OneAxis(TypedDict, total=False):
    """Beside `axis: int`."""

    dim: int


class AxisOrAll(TypedDict, total=False):
    """Beside `axis: int | None` and `keepdim`."""

    dim: int | None
    keepdims: bool


class SeveralAxes(TypedDict, total=False):
    """Beside `axis: Axes` and `keepdim`."""

    dim: Axes
    keepdims: bool


class AsAxis(TypedDict, total=False):
    """Beside `dim: int`."""

    axis: int


class AsAxes(TypedDict, total=False):
    """Beside `dims`."""

    axis: Axes
    dim: Axes


class OnlyAxes(TypedDict, total=False):
    """Beside `axis: Axes`."""

    dim: Axes
    dims: Axes


def other_names(method: Callable[P, R]) -> Callable[P, R]:
    """Let a method take its arguments by their other names too.  Raises ArgumentError for both at once."""
    parameters = list(signature(method).parameters.values())
    places = {
        parameter.name: len(parameters) if parameter.kind is Parameter.KEYWORD_ONLY else place
        for place, parameter in enumerate(parameters)
        if parameter.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    }

    @functools.wraps(method)
    def called(*args: P.args, **named: P.kwargs) -> R:
        if named.keys() <= places.keys():
            return method(*args, **named)
        usual = _usual(method.__name__, places, len(args), named)
        return method(*args, **usual)  # type: ignore[arg-type]  # they are what the method takes

    return called


def _usual(
    method: str, places: Mapping[str, int], given: int, named: Mapping[str, object]
) -> dict[str, object]:
    """Arguments by the names that the method has."""
    usual = {name: value for name, value in named.items() if name in places}
    for name in named.keys() - places.keys():
        same = next((row for row in SAME if name in row), ())
        wanted = next((other for other in same if other in places), None)
        if wanted is None:
            fix = did_you_mean(name, places.keys() - {"self"})
            raise ArgumentError(f"{method}() takes no argument {name}", fix=fix)
        if wanted in usual or places[wanted] < given:
            raise ArgumentError(
                f"{method}() got both {wanted} and {name}",
                fix="they are the same: give one of them",
            )
        usual[wanted] = named[name]
    return usual
