"""Layers as functions, with PyTorch's names and arguments: `F.relu(x)`, `F.cross_entropy(logits, labels)`."""

from __future__ import annotations

from typing import Literal

from loomgrad.nn.affine import affine, last_axes
from loomgrad.tensor import Tensor
from loomgrad.tensor.functional import How, reduced
from loomgrad.tensor.windows import Sizes

# ---- of each element


def relu(x: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    return x.relu()


def gelu(x: Tensor, approximate: Literal["tanh"] = "tanh") -> Tensor:
    """x times the normal distribution function of x, by its tanh approximation."""
    return x.gelu(approximate)


def silu(x: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x)."""
    return x.silu()


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + e**-x)."""
    return x.sigmoid()


def tanh(x: Tensor) -> Tensor:
    """tanh(x)."""
    return x.tanh()


def leaky_relu(x: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x above 0, negative_slope * x below."""
    return x.leaky_relu(negative_slope)


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    """e**x over its sum along an axis."""
    return x.softmax(dim)


def log_softmax(x: Tensor, dim: int = -1) -> Tensor:
    """The logarithm of softmax."""
    return x.log_softmax(dim)


def dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """If `training`, 0 with probability `p`, and what is left times 1 / (1 - p)."""
    with Tensor.train(training):
        return x.dropout(p)


# ---- layers


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """A sum over windows of an image, with other weights for each output channel."""
    return x.conv2d(weight, bias, stride, padding, dilation, groups)


def max_pool2d(
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """The greatest element of each window."""
    return x.max_pool2d(kernel_size, stride, padding, dilation, ceil_mode)


def avg_pool2d(
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window."""
    return x.avg_pool2d(kernel_size, stride, padding, ceil_mode, count_include_pad)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """softmax(query @ key.T * scale) @ value."""
    with Tensor.train(dropout_p > 0):
        return query.scaled_dot_product_attention(
            key, value, attn_mask, dropout_p, is_causal, scale
        )


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x @ weight.T + bias.

    **Shapes** x: (..., n), weight: (m, n), bias: (m,) -> (..., m)
    """
    return x.linear(weight.T, bias)


def embedding(numbers: Tensor, weight: Tensor) -> Tensor:
    """The rows of the weight that numbers name."""
    return weight[numbers]


def one_hot(numbers: Tensor, num_classes: int) -> Tensor:
    """1 at the class that each element names, 0 elsewhere, along a new last axis."""
    return numbers.one_hot(num_classes)


def layer_norm(
    x: Tensor,
    normalized_shape: tuple[int, ...],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Mean 0 and variance 1 over the last axes, then times weight, plus bias."""
    return affine(x.layernorm(last_axes(x, tuple(normalized_shape)), eps), weight, bias, x.dtype)


# ---- losses


def cross_entropy(
    logits: Tensor,
    target: Tensor,
    ignore_index: int = -100,
    reduction: How = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The cross entropy of logits against class numbers or probabilities.

    Elements labelled `ignore_index` do not count, in the mean neither.

    **Shapes** logits: (n, classes, ...), target: (n, ...) of ints or (n, classes, ...) of floats
    """
    if target.dtype.is_float:
        return logits.cross_entropy(target, reduction, label_smoothing)
    counted = target != ignore_index
    losses = counted.where(logits.cross_entropy(target, "none", label_smoothing), 0)
    if reduction != "mean":
        return reduced(losses, reduction)
    return losses.sum() / counted.sum().cast(losses.dtype)


def nll_loss(log_probabilities: Tensor, target: Tensor, reduction: How = "mean") -> Tensor:
    """Minus the log-probability of each class number."""
    return log_probabilities.nll_loss(target, reduction)


def mse_loss(x: Tensor, target: Tensor, reduction: How = "mean") -> Tensor:
    """The squared difference."""
    return x.mse_loss(target, reduction)


def l1_loss(x: Tensor, target: Tensor, reduction: How = "mean") -> Tensor:
    """The size of the difference."""
    return x.l1_loss(target, reduction)


def binary_cross_entropy(x: Tensor, target: Tensor, reduction: How = "mean") -> Tensor:
    """The cross entropy of probabilities of yes against those wanted."""
    return x.binary_cross_entropy(target, reduction)


def binary_cross_entropy_with_logits(
    logits: Tensor, target: Tensor, reduction: How = "mean"
) -> Tensor:
    """The cross entropy of logits of yes against probabilities of yes."""
    return logits.binary_cross_entropy_with_logits(target, reduction)
