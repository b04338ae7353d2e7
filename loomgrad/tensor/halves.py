"""Half floats: what takes several steps is computed in float32."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from loomgrad.dtype import sum_dtype
from loomgrad.tensor.casts import Casts

T = TypeVar("T", bound=Casts)
P = ParamSpec("P")


def in_float32(method: Callable[Concatenate[T, P], T]) -> Callable[Concatenate[T, P], T]:
    """Let a method compute half floats in float32, and round once, at the end."""

    @functools.wraps(method)
    def called(self: T, /, *args: P.args, **named: P.kwargs) -> T:
        wide = sum_dtype(self.dtype) if self.dtype.is_float else self.dtype
        if wide is self.dtype:
            return method(self, *args, **named)
        return method(self.cast(wide), *args, **named).cast(self.dtype)

    return called
