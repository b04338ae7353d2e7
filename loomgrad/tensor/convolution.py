"""Convolutions: a product and a sum over windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, TypeVar

from loomgrad.dtype import least_upper_dtype, sum_dtype
from loomgrad.errors import ShapeError
from loomgrad.ir.opcode import Ops
from loomgrad.tensor.linalg import Linalg
from loomgrad.tensor.windows import Sizes, Window, conjunction, each, windows_of

C = TypeVar("C", bound="Convolution")


class Convolution(Linalg):
    """Over any number of axes behind batch and channels; `conv2d` also serves one and three.

    Half floats are multiplied and added in float32, bools and small ints in int32.
    """

    __slots__ = ()

    def conv2d(
        self,
        weight: Self,
        bias: Self | None = None,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
    ) -> Self:
        """The cross-correlation with `weight`.

        `padding` is a count, one per axis, (left, right, top, bottom), "same" or "valid".

        **Shapes** x: (n, channels, h, w), weight: (out, channels / groups, kh, kw), bias: (out,)
        -> (n, out, h', w')

        **Raises** ShapeError where channels and groups, or windows and axes, do not fit.
        """
        rank = _checked_rank(self, weight)
        inner, outer = self.shape[1] // max(groups, 1), weight.shape[0]
        if groups < 1 or self.shape[1] != weight.shape[1] * groups or outer % groups:
            raise ShapeError(
                f"{self.shape[1]} channels in {groups} groups do not fit a weight of shape {weight.shape}",
                fix="weight: (out, channels / groups, ...), and groups must divide out",
            )
        windows = windows_of(self.shape[2:], weight.shape[2:], stride, padding, dilation)
        batch, kernels = self.shape[0], weight.shape[2:]
        x = self.reshape(batch, groups, inner, *self.shape[2:])
        w = weight.reshape(groups, outer // groups, inner, *kernels)
        x = x.permute(0, 1, *range(3, 3 + rank), 2)
        result = x._correlate(w, windows, transposed=False)
        return _with_bias(result.reshape(batch, outer, *result.shape[3:]), bias)

    def conv1d(
        self,
        weight: Self,
        bias: Self | None = None,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
    ) -> Self:
        """`conv2d` along one axis.

        **Shapes** x: (n, channels, length), weight: (out, channels / groups, k) -> (n, out, length')
        """
        return self.conv2d(weight, bias, stride, padding, dilation, groups)

    def conv_transpose2d(
        self,
        weight: Self,
        bias: Self | None = None,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        dilation: Sizes = 1,
    ) -> Self:
        """The transpose of `conv2d`: what its gradient does to its input.

        **Shapes** x: (n, channels, h, w), weight: (channels, out / groups, kh, kw) -> (n, out, h', w') with
        h' = (h - 1) * stride - 2 * padding + dilation * (kh - 1) + output_padding + 1
        """
        rank = _checked_rank(self, weight)
        if groups < 1 or self.shape[1] != weight.shape[0] or self.shape[1] % groups:
            raise ShapeError(
                f"{self.shape[1]} channels in {groups} groups do not fit a weight of shape {weight.shape}",
                fix="weight: (channels, out / groups, ...), and groups must divide channels",
            )
        batch, inner, kernels = self.shape[0], self.shape[1] // groups, weight.shape[2:]
        strides, dilations = each("stride", stride, rank), each("dilation", dilation, rank)
        around, extra = each("padding", padding, rank), each("output_padding", output_padding, rank)
        windows = [
            Window(
                (count - 1) * step - 2 * pad + apart * (k - 1) + more + 1,
                *(k, step, apart, pad, pad - more),
            )
            for count, k, step, apart, pad, more in zip(
                self.shape[2:], kernels, strides, dilations, around, extra, strict=True
            )
        ]
        if any(window.size < 1 for window in windows):
            raise ShapeError(f"padding {around} leaves nothing of the result")
        x = self.reshape(batch, groups, inner, *self.shape[2:])
        w = weight.reshape(groups, inner, -1, *kernels).transpose(1, 2)
        x = x.permute(0, 1, *range(3, 3 + rank), 2)
        result = x._correlate(w, windows, transposed=True)
        return _with_bias(result.reshape(batch, -1, *result.shape[3:]), bias)

    def _correlate(self, weight: Self, windows: Sequence[Window], transposed: bool) -> Self:
        """The sum over positions, channels and places of windows of x * weight where these meet.

        `transposed` sums over windows instead of positions.

        **Shapes** x: (n, groups, *summed, channels), weight: (groups, out, channels, *kernels)
        -> (n, groups, out, *kept)
        """
        rank = len(windows)
        meets = least_upper_dtype(self.dtype, weight.dtype)
        wide = sum_dtype(meets)
        batch, groups, *summed, inner = self.shape
        kept = [window.size if transposed else window.count for window in windows]
        outer, kernels = weight.shape[1], weight.shape[3:]
        # Axes: n, groups, summed, kept, out, channels, kernels.  The loops over `summed` come first, so that
        # they are the ones replaced by an index.
        shape = (batch, groups, *summed, *kept, outer, inner, *kernels)
        ones = (1,) * rank
        x = self.cast(wide).reshape(batch, groups, *summed, *ones, 1, inner, *ones)
        w = weight.cast(wide).reshape(1, groups, *ones, *ones, outer, inner, *kernels)
        first, second = 2, 2 + rank
        windowed, placed = (first, second) if transposed else (second, first)
        mask = conjunction([
            window.shows(windowed + i, 4 + 2 * rank + i, placed + i, len(shape))
            for i, window in enumerate(windows)
        ])  # fmt: skip
        meeting = type(self)._of(mask, None)
        product = meeting.where(x.expand(shape) * w.expand(shape), 0)
        axes = (*range(2, 2 + rank), 3 + 2 * rank, *range(4 + 2 * rank, len(shape)))
        total = product._reduce(Ops.ADD, axes, keepdim=False)
        result = total.permute(0, 1, 2 + rank, *range(2, 2 + rank))
        return result.cast(meets) if meets.is_float else result


def _checked_rank(x: Convolution, weight: Convolution) -> int:
    """How many axes windows slide along."""
    if x.ndim != weight.ndim or x.ndim < 3:
        raise ShapeError(
            f"a convolution of shape {x.shape} with a weight of shape {weight.shape}",
            fix="x: (n, channels, ...), weight: (out, channels, ...); x.unsqueeze(0) makes a batch of one",
        )
    return x.ndim - 2


def _with_bias(result: C, bias: C | None) -> C:
    if bias is None:
        return result
    if bias.shape != (result.shape[1],):
        raise ShapeError(f"a bias of shape {bias.shape} for {result.shape[1]} channels")
    return result + bias.reshape(-1, *(1 for _ in result.shape[2:]))
