"""Windows that slide along axes: where each of their places lies in the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loomgrad.dtype import dtypes
from loomgrad.errors import ShapeError
from loomgrad.ir.counting import counting
from loomgrad.ir.shape import Shape
from loomgrad.ir.uop import UOp

Sizes = int | Sequence[int]


@dataclass(frozen=True, slots=True)
class Window:
    """Along one axis of `size`: window o shows the positions o * stride + k * dilation - before, k < kernel.

    `before` and `after` positions are added around the axis.  With `ceil` a last window may reach beyond them.
    """

    size: int
    kernel: int
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0
    ceil: bool = False

    @property
    def span(self) -> int:
        """How many positions a window reaches over."""
        return self.dilation * (self.kernel - 1) + 1

    @property
    def count(self) -> int:
        """How many windows there are.  One that would begin behind the axis and what is before it is none."""
        room = self.size + self.before + self.after - self.span
        if not self.ceil:
            return room // self.stride + 1
        last = -(-room // self.stride)
        return last + 1 if last * self.stride < self.size + self.before else last

    @property
    def tiles(self) -> bool:
        """Whether the windows lie side by side, inside of the axis."""
        side_by_side = self.kernel == self.stride and self.dilation == 1
        return side_by_side and not (self.before or self.after or self.ceil)

    def position(self, window_axis: int, kernel_axis: int, rank: int) -> UOp:
        """Which position each place of each window shows; those outside of the axis count on."""
        start = along(self.count, window_axis, rank) * self.stride
        return start + along(self.kernel, kernel_axis, rank) * self.dilation - self.before

    def shows(self, window_axis: int, kernel_axis: int, place_axis: int, rank: int) -> UOp:
        """Whether a place of a window shows a position of the axis.

        Sums under this mask are what windows mean: the scheduler replaces the loop over positions by their
        index, and in gradients the loop over windows by theirs.
        """
        place = along(self.size, place_axis, rank)
        return place.eq(self.position(window_axis, kernel_axis, rank))


def along(count: int, axis: int, rank: int) -> UOp:
    """0 .. count - 1 along one of `rank` axes."""
    shape = tuple(count if a == axis else 1 for a in range(rank))
    return counting(count, dtypes.weakint).reshape(shape)


def conjunction(masks: Sequence[UOp]) -> UOp:
    """Where all masks hold."""
    result = masks[0]
    for mask in masks[1:]:
        result = result & mask
    return result


def windows_of(
    sizes: Shape,
    kernels: Sequence[int],
    stride: Sizes,
    padding: Sizes | str,
    dilation: Sizes,
    ceil: bool = False,
) -> tuple[Window, ...]:
    """A Window for each axis.

    `padding` is a count for all axes, one for each axis, or (before, after) of the last axis, then of the one in
    front of it, ...; or "valid" for none, "same" for as much as keeps the sizes.
    """
    rank = len(kernels)
    strides, dilations = each("stride", stride, rank), each("dilation", dilation, rank)
    if any(n < 1 for n in (*strides, *dilations, *kernels)):
        raise ShapeError(
            "stride, dilation and kernel sizes must be at least 1",
            stride=strides,
            dilation=dilations,
            kernel=tuple(kernels),
        )
    spans = [d * (k - 1) for d, k in zip(dilations, kernels, strict=True)]
    pairs = _pairs(padding, spans, strides)
    made = tuple(
        Window(size, kernel, step, apart, *pair, ceil)
        for size, kernel, step, apart, pair in zip(
            sizes, kernels, strides, dilations, pairs, strict=True
        )
    )
    for window in made:
        if window.span > window.size + window.before + window.after:
            raise ShapeError(
                f"windows of sizes {tuple(kernels)} do not fit into axes of sizes {tuple(sizes)}",
                padding=padding,
                dilation=dilations,
                fix="pad more, or use smaller windows",
            )
    return made


def each(name: str, value: Sizes, rank: int) -> tuple[int, ...]:
    """One number for each axis."""
    numbers = (value,) * rank if isinstance(value, int) else tuple(value)
    if len(numbers) == 1:
        numbers = numbers * rank
    if len(numbers) != rank:
        raise ShapeError(
            f"{name} {numbers} names {len(numbers)} axes, there are {rank}",
            fix=f"give one number, or {rank}",
        )
    return numbers


def _pairs(
    padding: Sizes | str, spans: Sequence[int], strides: Sequence[int]
) -> list[tuple[int, int]]:
    rank = len(spans)
    if isinstance(padding, str):
        return _named(padding, spans, strides)
    if isinstance(padding, int) or len(padding) in (1, rank):
        found = [(count, count) for count in each("padding", padding, rank)]
    elif len(padding) == 2 * rank:
        found = [(padding[2 * i], padding[2 * i + 1]) for i in reversed(range(rank))]
    else:
        raise ShapeError(
            f"padding {tuple(padding)} does not fit {rank} axes",
            fix=f"give one count, {rank}, or {2 * rank}: (before, after) from the last axis on",
        )
    if any(count < 0 for pair in found for count in pair):
        raise ShapeError(f"padding {padding} is negative", fix="cut with x.shrink or a slice")
    return found


def _named(name: str, spans: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    if name == "valid":
        return [(0, 0) for _ in spans]
    if name != "same" or any(step != 1 for step in strides):
        raise ShapeError(
            f"padding {name!r} with strides {tuple(strides)} is not known",
            fix='use counts, "valid", or, with stride 1, "same"',
        )
    return [(span // 2, span - span // 2) for span in spans]
