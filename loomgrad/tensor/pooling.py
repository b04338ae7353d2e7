"""Pooling: the greatest, or the mean, of each window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self

from loomgrad.dtype import dtypes, sum_dtype
from loomgrad.errors import ShapeError
from loomgrad.ir.opcode import Ops
from loomgrad.ir.uop import UOp
from loomgrad.tensor.convolution import Convolution
from loomgrad.tensor.windows import Sizes, Window, conjunction, each, windows_of


class Pooling(Convolution):
    """Windows slide along the last axes; all axes in front of them stay."""

    __slots__ = ()

    def max_pool2d(
        self,
        kernel_size: Sizes = 2,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
    ) -> Self:
        """The greatest element of each window; what `padding` adds never wins.  Strides are window sizes if not given.

        **Shapes** x: (..., h, w) -> (..., h', w')
        """
        return self._greatest_of_windows(2, kernel_size, stride, padding, dilation, ceil_mode)

    def max_pool1d(
        self,
        kernel_size: Sizes = 2,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
    ) -> Self:
        """`max_pool2d` along one axis."""
        return self._greatest_of_windows(1, kernel_size, stride, padding, dilation, ceil_mode)

    def avg_pool2d(
        self,
        kernel_size: Sizes = 2,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Self:
        """The mean of each window.  Padding counts as zeros, or, without `count_include_pad`, not at all.

        **Shapes** x: (..., h, w) -> (..., h', w')
        """
        return self._mean_of_windows(2, kernel_size, stride, padding, ceil_mode, count_include_pad)

    def avg_pool1d(
        self,
        kernel_size: Sizes = 2,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Self:
        """`avg_pool2d` along one axis."""
        return self._mean_of_windows(1, kernel_size, stride, padding, ceil_mode, count_include_pad)

    def _greatest_of_windows(
        self,
        rank: int,
        kernel: Sizes,
        stride: Sizes | None,
        padding: Sizes,
        dilation: Sizes,
        ceil: bool,
    ) -> Self:
        windows = self._pool_windows(rank, kernel, stride, padding, dilation, ceil)
        if all(window.tiles for window in windows):
            tiles = self._tiles(windows)
        else:
            tiles = self._windows(windows, dtypes.min(self.dtype))
        lead = self.ndim - rank
        return tiles.max([lead + rank + i for i in range(rank)])

    def _mean_of_windows(
        self,
        rank: int,
        kernel: Sizes,
        stride: Sizes | None,
        padding: Sizes,
        ceil: bool,
        count_padding: bool,
    ) -> Self:
        x = self if self.dtype.is_float else self.cast(dtypes.default_float)
        windows = x._pool_windows(rank, kernel, stride, padding, 1, ceil)
        lead, dtype = x.ndim - rank, x.dtype
        x = x.cast(sum_dtype(dtype))
        if all(window.tiles for window in windows):
            total = x._tiles(windows).sum([lead + rank + i for i in range(rank)])
        else:
            total = x._window_sums(windows)
        return (total / x._counts(windows, count_padding)).cast(dtype)

    def _pool_windows(
        self,
        rank: int,
        kernel: Sizes,
        stride: Sizes | None,
        padding: Sizes,
        dilation: Sizes,
        ceil: bool,
    ) -> tuple[Window, ...]:
        """The windows along the last axes."""
        if self.ndim < rank:
            raise ShapeError(f"pooling over {rank} axes of shape {self.shape}")
        sizes = each("kernel_size", kernel, rank)
        steps = sizes if stride is None else stride
        return windows_of(self.shape[-rank:], sizes, steps, padding, dilation, ceil)

    def _tiles(self, windows: Sequence[Window]) -> Self:
        """Windows that lie side by side, as views.

        **Shapes** x: (..., *sizes) -> (..., *counts, *kernels)
        """
        lead, rank = self.ndim - len(windows), len(windows)
        bounds: list[tuple[int, int] | None] = [None] * lead
        bounds += [(0, window.count * window.kernel) for window in windows]
        split = [size for window in windows for size in (window.count, window.kernel)]
        cut = self.shrink(bounds).reshape(*self.shape[:lead], *split)
        counts, kernels = range(lead, lead + 2 * rank, 2), range(lead + 1, lead + 2 * rank, 2)
        return cut.permute(*range(lead), *counts, *kernels)

    def _spread(self, windows: Sequence[Window]) -> Self:
        """Each element at each place that shows it, 0 elsewhere.

        **Shapes** x: (..., *sizes) -> (..., *sizes, *counts, *kernels)
        """
        lead, rank = self.ndim - len(windows), len(windows)
        shape = (*self.shape, *(w.count for w in windows), *(w.kernel for w in windows))
        mask = conjunction([
            window.shows(lead + rank + i, lead + 2 * rank + i, lead + i, len(shape))
            for i, window in enumerate(windows)
        ])  # fmt: skip
        x = self.reshape(*self.shape, *(1 for _ in range(2 * rank)))
        zero = False if self.dtype.is_bool else 0
        return type(self)._of(mask, None).where(x.expand(shape), zero)

    def _windows(self, windows: Sequence[Window], outside: float) -> Self:
        """All windows; their places outside of the axes hold a number.

        **Shapes** x: (..., *sizes) -> (..., *counts, *kernels)
        """
        lead, rank = self.ndim - len(windows), len(windows)
        shown = self._spread(windows)._reduce(
            Ops.ADD, tuple(range(lead, lead + rank)), keepdim=False
        )
        if all(window.before == window.after == 0 and not window.ceil for window in windows):
            return shown
        inside = conjunction([
            _within(window, 0, window.size, lead + i, lead + rank + i, shown.ndim)
            for i, window in enumerate(windows)
        ])  # fmt: skip
        return type(self)._of(inside, None).where(shown, outside)

    def _window_sums(self, windows: Sequence[Window]) -> Self:
        """The sum of each window.

        **Shapes** x: (..., *sizes) -> (..., *counts)
        """
        lead, rank = self.ndim - len(windows), len(windows)
        axes = (*range(lead, lead + rank), *range(lead + 2 * rank, lead + 3 * rank))
        return self._spread(windows)._reduce(Ops.ADD, axes, keepdim=False)

    def _counts(self, windows: Sequence[Window], count_padding: bool) -> Self | float:
        """How many places of each window count."""
        if not any(window.ceil for window in windows) and (
            count_padding or all(window.before == window.after == 0 for window in windows)
        ):
            return float(math.prod(window.kernel for window in windows))
        rank = len(windows)
        total: UOp | None = None
        for i, window in enumerate(windows):
            low, high = (
                (-window.before, window.size + window.after) if count_padding else (0, window.size)
            )
            within = _within(window, low, high, i, rank, rank + 1)
            places = within.cast(dtypes.weakint).sum(rank)
            total = places if total is None else total * places
        assert total is not None
        return type(self)._of(total.cast(self.dtype), None)


def _within(
    window: Window, low: int, high: int, window_axis: int, kernel_axis: int, rank: int
) -> UOp:
    """Whether the places of windows show positions from `low` up to `high`."""
    position = window.position(window_axis, kernel_axis, rank)
    return ~(position < low) & (position < high)
