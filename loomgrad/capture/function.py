"""`jit`: a function that is called once and from then on runs as the kernels that it ran.

The first call with arguments of a kind (shapes, dtypes and devices of Tensors, values of everything else) is an
ordinary call under a recording.  Later calls run the recorded kernels on their own arguments, on captured Tensors as
they then are, and on new random numbers; Tensors that the function assigns to are assigned to again.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable, Hashable
from typing import Any, Generic, ParamSpec, TypeVar, cast

from loomgrad.capture.signature import flatten, normaliser
from loomgrad.capture.trace import Capture, trace
from loomgrad.config import CHECK, NOOPT
from loomgrad.engine.cache import Cache
from loomgrad.engine.recording import active
from loomgrad.tensor import Tensor
from loomgrad.tensor.core import recording

P = ParamSpec("P")
R = TypeVar("R")
MOST_CAPTURES = 64
MANY_CAPTURES = 8


class Captured(Generic[P, R]):
    """A function with its captures.  `captures` counts how often it has been called for real."""

    def __init__(self, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.captures = 0
        self._normalise = normaliser(function)
        self._found: Cache[Hashable, Capture] = Cache(MOST_CAPTURES)
        self._lock = threading.RLock()
        self._name = getattr(function, "__name__", "function")

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if active.get() is not None:  # inside of another capture it is a part of that
            return self.function(*args, **kwargs)
        plain, named = self._normalise(args, kwargs)
        flat = flatten((plain, named))
        key = (flat.key, Tensor.training, recording.get(), NOOPT.value, CHECK.value)
        with self._lock:
            capture = self._found.get(key)
            if capture is not None and capture.fits():
                return cast(R, capture.replay(flat.tensors))
            capture, result = trace(self.function, plain, named)
            self._found.put(key, capture)
            self._count()
        return cast(R, result)

    def _count(self) -> None:
        self.captures += 1
        if self.captures == MANY_CAPTURES:
            warnings.warn(
                f"{self._name} has been captured {MANY_CAPTURES} times, for arguments of other shapes, dtypes or "
                "values; each capture costs a call and memory.  Pass numbers that change as Tensors",
                stacklevel=3,
            )

    def reset(self) -> None:
        """Forgets all captures."""
        with self._lock:
            self._found.clear()

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """As a method: each object has captures of its own."""
        if instance is None:
            return self
        method: Callable[..., R] = functools.partial(
            cast(Callable[..., R], self.function), instance
        )
        bound: Captured[..., R] = Captured(method)
        bound._name = self._name
        instance.__dict__[self._name] = bound
        return bound


def jit(function: Callable[P, R]) -> Captured[P, R]:
    """Captures a function: a decorator.

        @jit
        def step(x, y):
            optimizer.zero_grad()
            loss = model(x).cross_entropy(y).backward()
            return loss.realize(*optimizer.schedule_step())

    Tensors among the arguments may be in lists, tuples and dicts.  What is returned is never overwritten by a later
    call; it is a value, without history and no view of an argument.  Gradients made inside stay inside.

    Not noticed by a later call: other values of globals, closures and attributes of objects, and what the function
    does besides computing (appending to a list, printing).  Pass numbers that change as arguments.

    **Raises** CaptureError where a value is read inside, or an argument is a NumPy array.
    """
    return Captured(function)
