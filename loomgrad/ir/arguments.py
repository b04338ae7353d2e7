"""Reading the axes and sizes that users write: f(2, 3), f((2, 3)), negative axes."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index

from loomgrad.errors import IndexingError
from loomgrad.ir.shape import Shape


def sizes_argument(sizes: Sequence[int | Sequence[int]]) -> Shape:
    """(2, 3) from f(2, 3) and from f((2, 3))."""
    flat: list[int] = []
    for size in sizes:
        if isinstance(size, (tuple, list)):
            flat.extend(index(item) for item in size)
        else:
            flat.append(index(size))  # type: ignore[arg-type]
    return tuple(flat)


def axis_argument(axis: int, shape: Shape) -> int:
    """A nonnegative axis number.  Raises IndexingError outside of the rank."""
    rank = len(shape)
    if not -rank <= axis < rank:
        span = f"-{rank} to {rank - 1}" if rank else "none: it has no axes"
        raise IndexingError(
            f"axis {axis} is out of range for shape {shape}", fix=f"axes are {span}"
        )
    return axis % rank


def axes_argument(
    axes: Sequence[int | Sequence[int]], shape: Shape, default_all: bool = False
) -> tuple[int, ...]:
    """Sorted axis numbers, each once.  Raises IndexingError for repeats."""
    if default_all:
        return tuple(range(len(shape)))
    named = [axis_argument(axis, shape) for axis in sizes_argument(axes)]
    if len(set(named)) != len(named):
        raise IndexingError(f"an axis is named twice in {tuple(named)}", fix="name each axis once")
    return tuple(sorted(named))
