"""The front end: lazy Tensors with gradients."""

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from loomgrad.tensor.autograd import no_grad as no_grad
from loomgrad.tensor.tensor import Tensor as Tensor

if TYPE_CHECKING:
    from loomgrad.dtype.argument import DTypeLike


class _Package(ModuleType):
    """This package, which is a function too: in PyTorch `tensor(data)` makes a Tensor."""

    def __call__(
        self,
        data: object,
        *,
        dtype: "DTypeLike | None" = None,
        device: str | None = None,
        requires_grad: bool = False,
    ) -> Tensor:
        return Tensor(data, dtype=dtype, device=device, requires_grad=requires_grad)


sys.modules[__name__].__class__ = _Package
