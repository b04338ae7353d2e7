"""Tensors among Python's and NumPy's values: operands of other kinds, conversions, formats, names."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Self

from loomgrad.errors import ArgumentError, MissingNameError, ShapeError, did_you_mean
from loomgrad.ir.arguments import axis_argument
from loomgrad.tensor.autograd import Autograd
from loomgrad.tensor.data import is_number, is_numpy

if TYPE_CHECKING:
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

    from loomgrad.dtype import Number
    from loomgrad.ir.shape import Shape


class Interop(Autograd):
    """NumPy's arrays and scalars are operands: they become tensors of their own dtype, which is strong."""

    __slots__ = ()

    # ---- operands

    def _lift(self, value: object) -> Self:
        if isinstance(value, type(self)):
            return value
        if is_numpy(value):
            return type(self)(value, device=self.device)
        if is_number(value):
            return super()._lift(value)
        raise _no_operand(value)

    def where(self, chosen: object, otherwise: object) -> Self:
        """`chosen` where this is true, `otherwise` elsewhere.  Shapes broadcast."""
        return super().where(self._arm(chosen), self._arm(otherwise))

    def _arm(self, value: object) -> Self | Number:
        """Numbers stay: they take the dtype of the other arm."""
        return value if is_number(value) else self._lift(value)

    # ---- NumPy

    # An operator with an array at its left is left to the tensor; ufuncs take x.numpy().
    __array_ufunc__ = None

    def __array__(
        self, dtype: np.dtype[np.generic] | None = None, copy: bool | None = None
    ) -> NDArray[Any]:
        """The value, for `numpy.asarray(x)`: read-only memory of the tensor unless a copy is needed."""
        import numpy

        return numpy.array(self.numpy(), dtype, copy=copy)

    # ---- Python

    def __format__(self, spec: str) -> str:
        """`f"{loss:.3f}"` formats the one element."""
        if not spec:
            return repr(self)
        if self.numel() != 1:
            raise ShapeError(
                f"the format {spec!r} needs one element, shape {self.shape} has {self.numel()}",
                fix="format x.numpy() or x.tolist(), or select one element",
            )
        return format(self.item(), spec)

    def __contains__(self, value: object) -> bool:
        """Whether some element equals `value`."""
        return bool((self == self._lift(value)).any())

    # ---- names that other frameworks use

    def size(self, dim: int | None = None) -> Shape | int:
        """`shape`, or the size of one axis."""
        return self.shape if dim is None else self.shape[axis_argument(dim, self.shape)]

    def dim(self) -> int:
        """`ndim`."""
        return self.ndim

    if not TYPE_CHECKING:  # type checkers find what is missing by themselves

        def __getattr__(self, name: str) -> object:
            """Called for names that do not exist.  Those that Python and libraries try get a plain answer."""
            if name.startswith("_"):
                raise AttributeError(f"a tensor has no {name}")
            raise MissingNameError(f"a tensor has no {name}", fix=_known_name(type(self), name))


@functools.cache
def _known_name(kind: type[Interop], name: str) -> str:
    """What to write instead.  Remembered, as programs may ask for a name in a loop: `hasattr(x, name)`."""
    fix = did_you_mean(name, (known for known in dir(kind) if not known.startswith("_")))
    return fix if fix.startswith("did you mean") else "dir(Tensor) lists all names"


def _no_operand(value: object) -> ArgumentError:
    kind = type(value).__name__
    listed = isinstance(value, (list, tuple))
    return ArgumentError(
        f"a {kind} is no operand of a tensor",
        fix="make a tensor of it: Tensor(...)"
        if listed
        else "operands are tensors, arrays and numbers",
    )
