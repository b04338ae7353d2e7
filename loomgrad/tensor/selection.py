"""What index tensors, lists, arrays and masks select for a write, by NumPy's rules.

An int beside an index tensor counts as an index tensor too.  The axes of the indices stand where the indexed axes
were if those are neighbours in the key, else first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import index as as_int
from typing import Generic, SupportsIndex, TypeVar

from loomgrad.dtype import dtypes
from loomgrad.errors import DTypeError, IndexingError
from loomgrad.ir.counting import counting
from loomgrad.ir.opcode import Ops
from loomgrad.ir.shape import Shape, broadcast, size_of
from loomgrad.tensor.data import Nested, flattened, is_numpy
from loomgrad.tensor.values import Values

V = TypeVar("V", bound=Values)
INT32_LIMIT = 2**31
FULL = slice(None)


@dataclass(frozen=True, slots=True)
class Selection(Generic[V]):
    """Elements named by index tensors.

    `basic` is the key with whole axes in place of the indexed ones; in the view it selects, `order` brings those to
    the front, where they have `count` positions together, and `rest` are the others.  `positions` names one of the
    `count` for each index, -1 for none.  A value has the shape `slot`, with the axes of the indices at `place`.
    """

    basic: tuple[object, ...]
    order: Shape
    count: int
    rest: Shape
    positions: V
    slot: Shape
    place: int

    def scatter(self, target: V, value: V) -> V:
        """`target`, of shape (count, *rest), with `value` at the positions; the last of equal ones wins."""
        total, rank = self.positions.numel(), self.positions.ndim
        if total == 0 or self.count == 0:
            return target
        place = self.place
        axes = range(value.ndim)
        first = (*axes[place : place + rank], *axes[:place], *axes[place + rank :])
        rows = value.permute(first).reshape(total, *self.rest)
        targets = type(target)._of(counting(self.count, self.positions.dtype), None)
        writes = type(target)._of(counting(total), None)
        named = self.positions.reshape(1, total).eq(targets.reshape(self.count, 1))
        # 0 where nothing is written, else 1 more than the number of the last write.
        last = named.where(writes + 1, 0).max(1)
        chosen = rows._make(Ops.INDEX, ((last - 1).maximum(0),))
        return (last > 0).reshape(self.count, *(1 for _ in self.rest)).where(chosen, target)


@dataclass(frozen=True, slots=True)
class Mask(Generic[V]):
    """Elements chosen by a mask alone: `mask` broadcasts to what `basic` selects.

    `selected` is the same as a Selection, which must know the mask.
    """

    source: V
    basic: tuple[object, ...]
    parts: list[object]
    mask: V
    rank: int
    behind: int

    def widened(self, shape: Shape) -> Shape | None:
        """A value's shape with the mask's axes in place of one for all chosen elements; None if they differ."""
        if len(shape) <= self.behind:
            return shape
        split = len(shape) - self.behind
        if shape[split - 1] != 1:
            return None
        return (*shape[: split - 1], *(1 for _ in range(self.rank)), *shape[split:])

    def selected(self) -> Selection[V]:
        """The chosen elements by their positions, which are computed now."""
        return _selection(self.source, [p for part in self.parts for p in _positions_of(part)])


def selection(source: V, key: object) -> Selection[V] | Mask[V] | None:
    """What a key with index tensors, lists, arrays or masks selects; None for a key without."""
    parts = list(key) if isinstance(key, tuple) else [key]
    if not any(_is_advanced(part) for part in parts):
        return None
    given = parts
    parts = [_as_indices(source, part) if _is_advanced(part) else part for part in given]
    _check(source, parts, given)
    masks = [part for part in parts if _is_mask(part)]
    if len(masks) == 1 and all(_is_mask(p) or _is_free(p) for p in parts):
        return _mask(source, parts)
    return _selection(source, [p for part in parts for p in _positions_of(part)])


def _is_advanced(part: object) -> bool:
    if is_numpy(part):
        return part.ndim > 0
    return isinstance(part, (list, Values))


def _is_mask(part: object) -> bool:
    return isinstance(part, Values) and part.dtype.is_bool


def _is_free(part: object) -> bool:
    return part is None or part is ... or isinstance(part, slice)


def _as_indices(source: V, part: object) -> V:
    """Indices as a tensor; an empty list is of ints."""
    if isinstance(part, type(source)):
        found = part
    elif isinstance(part, list) and not flattened(part)[0]:
        found = type(source)(part, dtype=dtypes.int32, device=source.device)
    else:
        found = type(source)(part, device=source.device)
    if not (found.dtype.is_int or found.dtype.is_bool):
        raise DTypeError(
            f"a tensor index must have an integer dtype or be a mask, not {found.dtype.name}",
            fix="cast indices, e.g. i.int()",
        )
    return found


def _check(source: Values, parts: list[object], given: list[object]) -> None:
    """Put an Ellipsis for whole axes at the end; compare masks and indices that are known with the shape.

    What a tensor of indices holds is not known before it is computed: out of range, it names nothing.
    """
    used = sum(_rank(part) for part in parts)
    if used > source.ndim or sum(part is ... for part in parts) > 1:
        raise IndexingError(
            f"{used} indices for a tensor of {source.ndim} axes",
            shape=source.shape,
            fix="at most one per axis, and one Ellipsis",
        )
    axis = 0
    for part, known in zip(parts, given, strict=True):
        if isinstance(part, Values) and part.dtype.is_bool:
            _check_mask(part, source.shape, axis)
        elif isinstance(part, Values) and not isinstance(known, Values):
            for position in flattened(known.tolist() if is_numpy(known) else known)[0]:
                _checked(position, source.shape, axis)
        axis += source.ndim - used if part is ... else _rank(part)
    if not any(part is ... for part in parts):
        parts.append(...)


def _check_mask(mask: Values, shape: Shape, axis: int) -> None:
    chosen = shape[axis : axis + mask.ndim]
    if chosen != mask.shape:
        raise IndexingError(
            f"a mask of shape {mask.shape} cannot choose from axes of shape {chosen}",
            shape=shape,
            fix="a mask has the shape of the axes it stands for",
        )


def _rank(part: object) -> int:
    """How many axes a part of a key stands for, apart from the Ellipsis."""
    if part is None or part is ...:
        return 0
    return part.ndim if isinstance(part, Values) and part.dtype.is_bool else 1


def _mask(source: V, parts: list[object]) -> Mask[V]:
    basic: list[object] = []
    for part in parts:
        basic.extend([FULL] * part.ndim if isinstance(part, Values) else [part])
    place = next(i for i, part in enumerate(parts) if _is_mask(part))
    mask = parts[place]
    assert isinstance(mask, type(source))
    used = sum(_rank(part) for part in parts)
    behind = sum(_width(part, source.ndim - used) for part in parts[place + 1 :])
    wide = mask.reshape(*mask.shape, *(1 for _ in range(behind)))
    return Mask(source, tuple(basic), parts, wide, mask.ndim, behind)


def _width(part: object, omitted: int) -> int:
    """How many axes of the result a basic part makes."""
    return omitted if part is ... else 1


def _positions_of(part: object) -> list[object]:
    """A mask as one index tensor per axis, of the positions that it chooses."""
    if not isinstance(part, Values) or not part.dtype.is_bool:
        return [part]
    values = part.reshape(-1).tolist()
    chosen = [place for place, value in enumerate(_flat(values)) if value]
    strides = [size_of(part.shape[axis + 1 :]) for axis in range(part.ndim)]
    return [
        type(part)(
            [place // stride % size for place in chosen], dtype=dtypes.int32, device=part.device
        )
        for stride, size in zip(strides, part.shape, strict=True)
    ]


def _flat(values: Nested) -> list[Nested]:
    return list(values) if isinstance(values, (list, tuple)) else [values]


@dataclass(slots=True)
class _Walk(Generic[V]):
    """A key, part by part: the basic key, the indices with the sizes of their axes, and where axes come to stand."""

    basic: list[object] = field(default_factory=list)
    gathered: list[tuple[int, V]] = field(default_factory=list)
    indexed: list[int] = field(default_factory=list)
    others: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    place: int = 0

    def index(self, part: object, source: V, axis: int) -> None:
        """An axis that an index tensor or an int selects from."""
        if not self.indexed:
            self.place = len(self.others)
        self.indexed.append(len(self.basic))
        if isinstance(part, type(source)):
            self.gathered.append((source.shape[axis], part))
            self.basic.append(FULL)
        else:
            position = _checked(part, source.shape, axis)
            self.basic.append(slice(position, position + 1))

    def keep(self, part: object, size: int) -> None:
        """An axis of the view beside those."""
        self.others.append(len(self.basic))
        self.sizes.append(size)
        self.basic.append(part)


def _selection(source: V, parts: list[object]) -> Selection[V]:
    omitted = source.ndim - sum(_rank(part) for part in parts)
    walk: _Walk[V] = _Walk()
    axis = 0
    for part in parts:
        if part is None:
            walk.keep(None, 1)
        elif part is ...:
            for _ in range(omitted):
                walk.keep(FULL, source.shape[axis])
                axis += 1
        else:
            if isinstance(part, slice):
                walk.keep(part, len(range(*part.indices(source.shape[axis]))))
            else:
                walk.index(part, source, axis)
            axis += 1
    shape = broadcast([indices.shape for _, indices in walk.gathered])
    if shape is None:
        shapes = " and ".join(str(indices.shape) for _, indices in walk.gathered)
        raise IndexingError(
            f"index tensors of shapes {shapes} do not broadcast",
            fix="aligned at the right, two sizes must be equal or one of them 1",
        )
    named = [i for i, part in enumerate(parts) if not _is_free(part)]
    place = walk.place if named[-1] - named[0] + 1 == len(named) else 0
    rest = tuple(walk.sizes)
    return Selection(
        tuple(walk.basic),
        (*walk.indexed, *walk.others),
        size_of(size for size, _ in walk.gathered),
        rest,
        _combined(walk.gathered).expand(shape),
        (*rest[:place], *shape, *rest[place:]),
        place,
    )


def _checked(part: object, shape: Shape, axis: int) -> int:
    if isinstance(part, bool) or not isinstance(part, SupportsIndex):
        raise IndexingError(
            f"an index of type {type(part).__name__} is not known",
            fix="use ints, slices, None, ..., lists, arrays or tensors of ints, or masks",
        )
    position, size = as_int(part), shape[axis]
    if not -size <= position < size:
        raise _out_of_range(position, shape, axis)
    return position % size


def _out_of_range(position: object, shape: Shape, axis: int) -> IndexingError:
    size = shape[axis]
    return IndexingError(
        f"index {position} is out of range for axis {axis} of size {size}",
        fix=f"indices are {-size} to {size - 1}" if size else "the axis is empty",
        shape=shape,
    )


def _combined(gathered: list[tuple[int, V]]) -> V:
    """One number for each place that the indices name together, row-major; -1 where one is out of range."""
    total = size_of(size for size, _ in gathered)
    wide = dtypes.int32 if total < INT32_LIMIT else dtypes.int64
    flat: V | None = None
    valid: V | None = None
    stride = 1
    for size, indices in reversed(gathered):
        exact = indices.cast(dtypes.int32 if indices.dtype.itemsize < 4 else dtypes.int64)
        inside = (exact < size) & (exact >= -size)
        wrapped = (exact < 0).where(exact + size, exact).cast(wide) * stride
        flat = wrapped if flat is None else flat + wrapped
        valid = inside if valid is None else valid & inside
        stride *= size
    assert flat is not None and valid is not None, "a selection has index tensors"
    return valid.where(flat, -1)
