"""Every exception that loomgrad raises, each with a stable code that `loom explain CODE` tells more about.

The text of an error has one layout: code and problem, the user's file and line, the facts by name, what to
write instead.  The docstring of a class is its explanation, so that the two cannot drift apart.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from inspect import cleandoc
from types import FrameType
from typing import ClassVar

PACKAGE_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
LIBRARY_FOLDER = os.path.dirname(os.path.abspath(os.__file__)) + os.sep


class LoomError(Exception):
    """Something went wrong that no more specific code describes.

    All errors of loomgrad derive from this class, so `except loomgrad.errors.LoomError` catches them all,
    and from the built-in exception that fits, so `except ValueError` catches what a reader expects.
    """

    code: ClassVar[str] = "LG000"

    def __init__(
        self, problem: str, *, fix: str = "", where: str | None = None, **facts: object
    ) -> None:
        """Describe one mistake.

        `problem` is one line in the user's terms, `facts` are the values seen, by name (`left=(2, 3)`), and
        `fix` says what to write instead.  `where` is "file:line"; left out, it is the line that called into
        loomgrad.
        """
        super().__init__(problem)
        self.problem = problem
        self.fix = fix
        self.facts = facts
        self.where = user_line() if where is None else where

    def __str__(self) -> str:
        lines = [f"{self.code} · {self.problem}"]
        if self.where:
            lines[0] += f" (at {self.where})"
        if self.facts:
            lines.append("  " + ", ".join(f"{name}: {fact}" for name, fact in self.facts.items()))
        if self.fix:
            lines.append(f"  Fix: {self.fix}")
        if self.code != LoomError.code:
            lines.append(f"  More: python -m loomgrad explain {self.code}")
        return "\n".join(lines)


class CaptureError(LoomError, RuntimeError):
    """A captured function asked for something that exists only outside of a capture.

    `jit` calls a function once and records the kernels it runs; later calls run these again.  So no value can be
    read inside (`item`, `numpy`, `tolist`, `if tensor:`): return the tensor and read it outside, choose with
    `where`, or take that part out of the function.
    """

    code = "LG101"


class ShapeError(LoomError, ValueError):
    """The shapes of two operands, or a shape and what was asked of it, do not fit.

    Elementwise operations broadcast as in NumPy: shapes are aligned at the right, and two axes fit when they
    are equal or one of them is 1.  `(2, 3) + (3,)` works, `(2, 3) + (2,)` does not: write
    `x + y.reshape(2, 1)`.  In `x @ w` the last axis of `x` must equal the last but one of `w`.  A reshape
    must keep the number of elements.
    """

    code = "LG211"


class BroadcastWriteError(ShapeError):
    """A write into a view that shows one element at several places.

    `x.expand(...)` repeats elements without copying them, so a write to one of its places would change others as
    well.  Write to the tensor that was expanded, or to a copy: `y = x.expand(4, 3).contiguous(); y[0] = 1`.
    """

    code = "LG202"


class IndexingError(LoomError, IndexError):
    """An index or an axis lies outside the shape it selects from.

    An axis of a tensor with n axes is one of -n .. n-1, an index into an axis of size s one of -s .. s-1.
    """

    code = "LG212"


class DTypeError(LoomError, TypeError):
    """An operation does not exist for this dtype, a name is no dtype, or a conversion would lose data.

    Python numbers take the dtype of the tensor they meet.  Where a result needs another dtype, ask for it:
    `x.cast(dtypes.float32)`.  Bit operations and shifts need integers or bools.
    """

    code = "LG213"


class LossyWriteError(DTypeError):
    """A value was to be written into a tensor whose dtype cannot hold all values of the value's dtype.

    Python numbers and lists convert where each number keeps its value.  A tensor or an array converts where every
    value of its dtype exists in the target's: int8 to float32, not int64 to float32.  Where rounding is intended,
    cast: `x.assign(value.cast(x.dtype))`.
    """

    code = "LG203"


class GradientError(LoomError, RuntimeError):
    """A gradient was asked for that does not exist.

    `backward` starts at a floating-point scalar (use `.sum()` or `.mean()` to get one), and reaches only
    tensors of floating-point dtype that took part in computing it.
    """

    code = "LG214"


class ArgumentError(LoomError, TypeError):
    """An argument is of a kind that is not taken here, or two arguments say the same.

    `axis` may be written `dim`, and `keepdim` `keepdims`, but only one of the two.  Operands of a tensor are
    tensors, Python numbers, and NumPy's arrays and scalars; of a list make a tensor first: `Tensor([1, 2])`.
    """

    code = "LG215"


class MissingNameError(LoomError, AttributeError):
    """A tensor has no method or attribute of this name.

    Names are NumPy's and PyTorch's where both or one of them have what loomgrad has; `dir(Tensor)` lists all.
    """

    code = "LG216"


class RewriteLoopError(LoomError, RuntimeError):
    """Two or more rewrite rules undo each other, so that a graph never comes to rest.

    The rules that fired last are named.  With rules of your own: let one of them demand something that the
    other's result does not have.  With loomgrad's own rules this is a mistake of loomgrad.
    """

    code = "LG301"

    def __init__(
        self,
        problem: str,
        *,
        rules: Iterable[str] = (),
        fix: str = "",
        where: str | None = None,
        **facts: object,
    ) -> None:
        """As for every error; `rules` are the names of the rules that undo each other."""
        self.rules = tuple(rules)
        if self.rules:
            facts = {"rules": ", ".join(self.rules), **facts}
        super().__init__(problem, fix=fix, where=where, **facts)


class VerifyError(LoomError, RuntimeError):
    """A pass produced a graph that its level does not allow.

    Raised between passes under `VERIFY=1`.  The pass and the node are named.  With a pass or rule of your
    own: the level's grammar says which nodes may stand there.  Otherwise it is a mistake of loomgrad.
    """

    code = "LG302"


class CheckError(LoomError, AssertionError):
    """A compiled kernel and the reference evaluator disagree.

    Raised under `CHECK=1`, which runs every kernel twice.  Integers must be equal, floats within the rounding
    that the number of additions allows.  The first element that differs is named.
    """

    code = "LG303"


class DeviceError(LoomError, ValueError):
    """A device is unknown or not usable here, or operands live on different devices.

    `loom info` lists the devices of this machine.  `x.to("CPU")` moves a tensor.
    """

    code = "LG401"


class UnsupportedError(LoomError, NotImplementedError):
    """What was asked for is well defined, but loomgrad cannot do it.

    The text names what is missing.
    """

    code = "LG501"


class OutOfMemoryError(LoomError, MemoryError):
    """A device could not provide the memory that a tensor or an intermediate result needs.

    Smaller batches need less.  Lazy tensors that are still alive keep their inputs alive: `realize` them, or
    drop the last reference.
    """

    code = "LG601"


class CompileError(LoomError, RuntimeError):
    """The compiler of a device refused a kernel, or no compiler was found.

    With `DEBUG=4` the source is printed.  A refused kernel is a mistake of loomgrad.
    """

    code = "LG701"


class SettingError(LoomError, ValueError):
    """A setting has an unknown name or a value that it does not accept.

    `loom info` lists all settings with their values.  Each is read from the environment, as `LOOMGRAD_NAME`
    or, shorter, `NAME` (the longer one wins), and changed for a block by `with Context(NAME=value):`.
    """

    code = "LG901"


class DataError(LoomError, RuntimeError):
    """A file of data or of parameters is missing, damaged or not what it should be, or does not fit the model.

    The text names the file and what is wrong with it.  A file that ships with loomgrad comes back when loomgrad is
    installed again.  Parameters are read from safetensors files: other formats, such as pickles, could execute what
    they hold.
    """

    code = "LG902"


def user_line() -> str:
    """The innermost line outside loomgrad and the standard library, as "file:line"; "" if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if not _is_internal(path):
            return f"{_short(path)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _is_internal(path: str) -> bool:
    """Whether a frame of this file says nothing to a user."""
    if path.startswith((PACKAGE_FOLDER, "<frozen ")):
        return True
    return path.startswith(LIBRARY_FOLDER) and "-packages" + os.sep not in path


def _short(path: str) -> str:
    """A path relative to the current folder where the file lies inside it."""
    prefix = os.getcwd() + os.sep
    return path[len(prefix) :] if path.startswith(prefix) else path


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`did you mean X?`, or the list of what is known where nothing is near."""
    names = sorted(known)
    by_folded = {known_name.casefold(): known_name for known_name in names}
    near = get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    if near:
        return f"did you mean {by_folded[near[0]]}?"
    return f"known: {', '.join(names)}"


def error_classes() -> dict[str, type[LoomError]]:
    """Every class of error by its code."""
    found: dict[str, type[LoomError]] = {}
    pending: list[type[LoomError]] = [LoomError]
    while pending:
        error = pending.pop()
        found[error.code] = error
        pending.extend(error.__subclasses__())
    return dict(sorted(found.items()))


def explain(code: str) -> str:
    """What an error code means and what to do about it."""
    classes = error_classes()
    if (error := classes.get(code.upper())) is None:
        raise LoomError(f"{code} is not an error code", fix=did_you_mean(code, classes))
    return f"{error.code} · {error.__name__}\n\n{cleandoc(error.__doc__ or '')}"
