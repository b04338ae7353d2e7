"""Losses that compare each element with its target."""

from __future__ import annotations

from typing import Self

from loomgrad.errors import ShapeError
from loomgrad.tensor.functional import Functional, How, reduced
from loomgrad.tensor.halves import in_float32

# Below e**-100 a probability counts as that: what cannot happen costs much, not infinitely much.
LEAST_LOGARITHM = -100.0


class Losses(Functional):
    """Tensor and target must have one shape: (n, 1) beside (n,) would compare all with all."""

    __slots__ = ()

    @in_float32
    def mse_loss(self, target: Self, reduction: How = "mean") -> Self:
        """(x - target)**2."""
        difference = self - self._target(target)
        return reduced(difference * difference, reduction)

    @in_float32
    def l1_loss(self, target: Self, reduction: How = "mean") -> Self:
        """The size of x - target."""
        return reduced((self - self._target(target)).abs(), reduction)

    @in_float32
    def binary_cross_entropy(self, target: Self, reduction: How = "mean") -> Self:
        """-target log(x) - (1 - target) log(1 - x), for probabilities; logarithms are at least -100."""
        yes, wanted = self._as_float(), self._target(target)
        log_yes, log_no = (p.log().maximum(LEAST_LOGARITHM) for p in (yes, 1 - yes))
        return reduced(-(wanted * log_yes + (1 - wanted) * log_no), reduction)

    @in_float32
    def binary_cross_entropy_with_logits(self, target: Self, reduction: How = "mean") -> Self:
        """`binary_cross_entropy` of sigmoid(x), accurate for logits of any size."""
        logits = self._as_float()
        return reduced(logits.softplus() - logits * self._target(target), reduction)

    def _target(self, target: Self) -> Self:
        found = self._lift(target)
        if found.shape not in ((), self.shape):
            raise ShapeError(
                f"the target has shape {found.shape}, the tensor {self.shape}",
                fix="reshape or expand one of them",
            )
        return found
