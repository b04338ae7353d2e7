"""Losses as modules: `nn.CrossEntropyLoss()(logits, labels)`."""

from __future__ import annotations

from loomgrad.nn import functional
from loomgrad.nn.module import Module
from loomgrad.tensor import Tensor
from loomgrad.tensor.functional import How


class Loss(Module):
    """A comparison of what a model gave with what it should have given."""

    def __init__(self, reduction: How = "mean") -> None:
        self.reduction = reduction


class CrossEntropyLoss(Loss):
    """Of logits against class numbers or probabilities; elements labelled `ignore_index` do not count."""

    def __init__(
        self, ignore_index: int = -100, reduction: How = "mean", label_smoothing: float = 0.0
    ) -> None:
        super().__init__(reduction)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        return functional.cross_entropy(
            logits, target, self.ignore_index, self.reduction, self.label_smoothing
        )


class NLLLoss(Loss):
    """Minus the log-probability of each class number."""

    def forward(self, log_probabilities: Tensor, target: Tensor) -> Tensor:
        return functional.nll_loss(log_probabilities, target, self.reduction)


class MSELoss(Loss):
    """The squared difference."""

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return functional.mse_loss(x, target, self.reduction)


class L1Loss(Loss):
    """The size of the difference."""

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return functional.l1_loss(x, target, self.reduction)


class BCEWithLogitsLoss(Loss):
    """The cross entropy of logits of yes against probabilities of yes."""

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(logits, target, self.reduction)
