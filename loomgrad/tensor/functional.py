"""Softmax, losses, one-hot."""

from __future__ import annotations

import math
from typing import Literal, Self, TypeVar, Unpack

from loomgrad.dtype import dtypes
from loomgrad.errors import DTypeError, LoomError, ShapeError
from loomgrad.ir.arguments import axis_argument
from loomgrad.ir.opcode import Ops
from loomgrad.ir.shape import Shape
from loomgrad.tensor.halves import in_float32
from loomgrad.tensor.pooling import Pooling
from loomgrad.tensor.spelling import Axes, OneAxis, SeveralAxes, other_names

How = Literal["mean", "sum", "none"]
F = TypeVar("F", bound="Functional")


class Functional(Pooling):
    """Functions of neural networks."""

    __slots__ = ()

    def _greatest(self, axis: Axes) -> Self:
        """The maximum along an axis, a constant to gradients."""
        return self.max(axis, keepdim=True)._make(Ops.DETACH)

    @other_names
    @in_float32
    def softmax(self, axis: int = -1, **other: Unpack[OneAxis]) -> Self:
        """e**x over its sum along an axis."""
        x = self._as_float()
        weights = (x - x._greatest(axis)).exp()
        return weights / weights.sum(axis, keepdim=True)

    @other_names
    @in_float32
    def log_softmax(self, axis: int = -1, **other: Unpack[OneAxis]) -> Self:
        """The logarithm of softmax, accurate also where softmax is tiny."""
        x = self._as_float()
        shifted = x - x._greatest(axis)
        return shifted - shifted.exp().sum(axis, keepdim=True).log()

    @other_names
    @in_float32
    def logsumexp(
        self, axis: Axes = None, keepdim: bool = False, **other: Unpack[SeveralAxes]
    ) -> Self:
        """log(sum(e**x)), without overflow; infinite where the greatest element is."""
        x = self._as_float()
        top = x._greatest(axis)
        infinite = top.eq(math.inf) | top.eq(-math.inf)
        finite = infinite.where(0.0, top)
        total = (x - finite).exp().sum(axis, keepdim).log()
        return total + finite.reshape(total.shape)

    def one_hot(self, num_classes: int) -> Self:
        """1 at the class that each element names, 0 elsewhere, along a new last axis.  int32.

        An element that names none of 0 .. num_classes - 1 gives zeros.
        """
        return self._names_class(num_classes, self.ndim).where(1, 0)

    def _names_class(self, classes: int, axis: int) -> Self:
        """Whether the class numbers of this tensor are 0 .. classes - 1, along a new axis."""
        if not self.dtype.is_int:
            raise DTypeError(
                f"class numbers must have an integer dtype, not {self.dtype.name}",
                fix="cast them, e.g. labels.int()",
            )
        labels = self.unsqueeze(axis)
        return labels.eq(labels._numbers(classes, axis % labels.ndim))

    @in_float32
    def cross_entropy(
        self, target: Self, reduction: How = "mean", label_smoothing: float = 0.0
    ) -> Self:
        """The cross entropy of logits against class numbers or class probabilities.

        It is NaN for a class number that is not one of 0 .. classes - 1.

        **Shapes** self: (n, classes, ...), target: (n, ...) of ints or (n, classes, ...) of floats
        """
        axis = 1 if self.ndim > 1 else 0
        logp, target = self.log_softmax(axis), self._lift(target)
        if target.dtype.is_float:
            classes = self.shape[:axis] + self.shape[axis + 1 :]
            fix = "class numbers are ints, e.g. labels.int()" if target.shape == classes else ""
            _same_shape("probabilities", target.shape, self.shape, fix)
            losses = -(target * logp).sum(axis)
        else:
            losses = logp._negative_likelihood(target, axis)
        if label_smoothing:
            losses = losses * (1 - label_smoothing) - logp.mean(axis) * label_smoothing
        return reduced(losses, reduction)

    @in_float32
    def sparse_categorical_crossentropy(
        self,
        labels: Self,
        ignore_index: int | None = -1,
        label_smoothing: float = 0.0,
        reduction: How = "mean",
    ) -> Self:
        """The cross entropy of logits against class numbers along the last axis.

        Elements whose label is `ignore_index` do not count, in the mean neither.  Other labels that are not one of
        0 .. classes - 1 give NaN.

        **Shapes** self: (..., classes), labels: (...)
        """
        logp, labels = self.log_softmax(-1), self._lift(labels)
        losses = logp._negative_likelihood(labels, self.ndim - 1)
        if label_smoothing:
            losses = losses * (1 - label_smoothing) - logp.mean(-1) * label_smoothing
        if ignore_index is None:
            return reduced(losses, reduction)
        counted = labels.ne(ignore_index)
        losses = counted.where(losses, 0)
        if reduction != "mean":
            return reduced(losses, reduction)
        return losses.sum() / counted.sum().cast(losses.dtype)

    def _negative_likelihood(self, labels: Self, axis: int) -> Self:
        """Minus the log-probability, along an axis, of each label.

        It is selected under a comparison, which the scheduler turns into a load at the label's index.  What labels
        hold is not known before it is computed: where one is no class, the result is NaN.
        """
        place = axis_argument(axis, self.shape)
        _same_shape("labels", labels.shape, self.shape[:place] + self.shape[place + 1 :])
        chosen = labels._names_class(self.shape[place], place)
        found = -chosen.where(self, 0).sum(place)
        numbers = labels.cast(dtypes.int32) if labels.dtype.bits < 32 else labels
        return ((numbers >= 0) & (numbers < self.shape[place])).where(found, math.nan)

    @in_float32
    def nll_loss(self, target: Self, reduction: How = "mean") -> Self:
        """Minus the log-probability of each class number; `self` holds log-probabilities.

        **Shapes** self: (n, classes, ...), target: (n, ...)
        """
        axis = 1 if self.ndim > 1 else 0
        return reduced(self._negative_likelihood(self._lift(target), axis), reduction)


def reduced(losses: F, how: How) -> F:
    """The mean of losses, their sum, or all of them.  Raises LoomError for another word."""
    if how == "mean":
        return losses.mean()
    if how == "sum":
        return losses.sum()
    if how != "none":
        raise LoomError(f"reduction {how!r} is not known", fix='use "mean", "sum" or "none"')
    return losses


def _same_shape(what: str, found: Shape, wanted: Shape, fix: str = "") -> None:
    if found != wanted:
        raise ShapeError(f"the {what} have shape {found}, the logits need {wanted}", fix=fix)
