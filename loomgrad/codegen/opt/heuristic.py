"""Chooses the actions for a kernel from the target's numbers.

Lanes come from the loop along which the stores and the loads are contiguous.  A kernel with a reduction whose
operands are each used again along another output loop gets a register tile: rows of several lanes vectors, all
accumulated at once.  A reduction that is contiguous along its own loop gets lanes there, in several accumulators.
"""

from __future__ import annotations

from dataclasses import dataclass

from loomgrad.codegen.opt.actions import Action, Cascade, Swap, Thread, Unroll, Upcast
from loomgrad.codegen.opt.loops import output_loops, reductions
from loomgrad.codegen.strides import Access, access_of, loads_below
from loomgrad.ir.args import AxisType
from loomgrad.ir.estimate import estimate
from loomgrad.ir.opcode import Ops
from loomgrad.ir.shape import extent_of, size_of
from loomgrad.ir.uop import UOp
from loomgrad.target import Target

PARALLEL_SECONDS = 25e-6  # work that is worth waking the other workers, which takes about as long
ACCUMULATORS = 4  # independent vectors of a reduction, enough to hide the latency of an addition
ELEMENTWISE_VECTORS = 2  # vectors per iteration of an elementwise loop
MOST_WASTE = 1.15  # iterations with those that a mask switches off, over those without
LONGEST_SUM = 1024  # terms that one accumulator adds before it is itself a term: the error grows with both counts


@dataclass(frozen=True, slots=True)
class Shape:
    """What the heuristic looks at: the loops, the accesses and the width of a vector."""

    outputs: tuple[UOp, ...]
    main: UOp | None
    stores: tuple[Access, ...]
    loads: tuple[Access, ...]
    width: int


def choose_actions(effect: UOp, target: Target) -> list[Action]:
    """The actions for an effect, in the order in which they apply."""
    shape = _shape_of(effect, target)
    actions = _lanes(shape, target) if shape.main is None else _reduction(shape, target)
    taken = {action.axis for action in actions}
    for reduce in reductions(effect):
        if reduce is not shape.main:
            actions += [a for a in _row_reduction(reduce, target) if a.axis not in taken]
            taken |= {action.axis for action in actions}
    if _is_worth_sharing(effect, target) and output_loops(effect):
        actions.append(Thread())
    return actions


def _shape_of(effect: UOp, target: Target) -> Shape:
    stores = [node for node in effect.toposort() if node.op is Ops.STORE]
    outputs = output_loops(effect)
    dtypes = [store.src[1].dtype for store in stores] + [r.dtype for r in reductions(effect)]
    width = target.vector_width(max(dtypes, key=lambda dtype: dtype.itemsize))
    own = frozenset(outputs)
    mains = [r for r in reductions(effect) if r.ranges == own and own]
    mains = mains or ([] if outputs else reductions(effect)[-1:])
    main = max(mains, key=lambda r: estimate(r).work, default=None)
    loads = loads_below(main.src[0]) if main is not None else loads_below(effect)
    return Shape(
        outputs,
        main,
        tuple(access_of(store.src[0]) for store in stores),
        tuple(load for load in loads if load.index not in {s.src[0] for s in stores}),
        width,
    )


def _fits(accesses: tuple[Access, ...], loop: UOp) -> bool:
    """Whether every access along a loop is contiguous or does not move."""
    return all(access.stride(loop) in (0, 1) for access in accesses)


def _contiguous(accesses: tuple[Access, ...], loop: UOp) -> int:
    return sum(access.stride(loop) == 1 for access in accesses)


def _lanes(shape: Shape, target: Target) -> list[Action]:
    """Elementwise: vectors along the loop in which most accesses are contiguous, stores first."""
    if not shape.outputs:
        return []
    loop = max(
        reversed(shape.outputs),
        key=lambda r: (_contiguous(shape.stores, r), _contiguous(shape.loads, r)),
    )
    if not _contiguous(shape.stores, loop) and not _contiguous(shape.loads, loop):
        return []
    lanes = _lane_count(extent_of(loop), shape.width, ELEMENTWISE_VECTORS)
    across = _crossing_loop(shape, loop)
    if across is None:
        return [Upcast(loop.arg.axis, lanes)]
    square = _lane_count(extent_of(loop), shape.width, 1)
    rows = _row_count(extent_of(across), shape.width)
    return [Upcast(across.arg.axis, rows), Upcast(loop.arg.axis, square)]


def _crossing_loop(shape: Shape, loop: UOp) -> UOp | None:
    """Another loop in which loads are contiguous that stride along the lanes: a transposition.

    A tile of both uses each cache line whole while it is there.
    """
    strided = [load for load in shape.loads if load.stride(loop) not in (0, 1, None)]
    loops = [
        other
        for other in shape.outputs
        if other is not loop and any(load.stride(other) == 1 for load in strided)
    ]
    return max(loops, key=extent_of, default=None)


def _lane_count(extent: int, width: int, vectors: int) -> int:
    """As many whole vectors as divide the extent; masked ones where that wastes little; a short extent whole."""
    for count in range(vectors, 0, -1):
        if extent % (count * width) == 0:
            return count * width
    if extent <= width * max(vectors, 2):
        return extent
    for count in range(vectors, 0, -1):
        lanes = count * width
        if -(-extent // lanes) * lanes <= MOST_WASTE * extent:
            return lanes
    half = width // 2
    return half if half > 1 and extent % half == 0 else width


def _reduction(shape: Shape, target: Target) -> list[Action]:
    assert shape.main is not None
    columns = _column_loop(shape)
    inner = _inner_loop(shape)
    if columns is None and (inner is None or extent_of(inner) < 2 * shape.width):
        columns = _strided_column_loop(shape)
    if columns is not None:
        return _tile(shape, columns, target)
    return _dot_tile(shape, inner, target) if inner is not None else _lanes(shape, target)


def _column_loop(shape: Shape) -> UOp | None:
    """The output loop for lanes: loads contiguous or fixed along it, stores contiguous if possible."""
    loops = [
        loop
        for loop in shape.outputs
        if _fits(shape.loads, loop)
        and _contiguous(shape.loads, loop)
        and extent_of(loop) * 2 >= shape.width
    ]
    return max(loops, key=lambda loop: _contiguous(shape.stores, loop), default=None)


def _strided_column_loop(shape: Shape) -> UOp | None:
    """The same where loads stride along the lanes, as under a convolution's stride, but are used for several rows."""
    loops = [
        loop
        for loop in shape.outputs
        if _contiguous(shape.stores, loop)
        and extent_of(loop) * 2 >= shape.width
        and all(load.stride(loop) is not None for load in shape.loads)
        and _row_loop(shape, loop) is not None
    ]
    return max(loops, key=extent_of, default=None)


def _inner_loop(shape: Shape) -> UOp | None:
    """The reduction's own loop for lanes."""
    assert shape.main is not None
    loops = [
        loop
        for loop in shape.main.src[1:]
        if _fits(shape.loads, loop) and _contiguous(shape.loads, loop) and extent_of(loop) > 1
    ]
    return max(loops, key=extent_of, default=None)


def _tile(shape: Shape, columns: UOp, target: Target) -> list[Action]:
    """A register tile: lanes along `columns`, rows along a loop on which the contiguous loads do not move."""
    rows = _row_loop(shape, columns)
    vectors = 2 if rows is not None else ACCUMULATORS
    lanes = _lane_count(extent_of(columns), shape.width, vectors)
    actions: list[Action] = []
    if rows is not None:
        per_row = -(-lanes // shape.width)
        most = max(1, (target.vector_registers * 3 // 4 + per_row - 1) // per_row)
        count = _row_count(extent_of(rows), min(most, 8))
        if _streams_less(shape, columns, lanes, rows, count):
            actions.append(Swap(columns.arg.axis, other=rows.arg.axis))
        if count > 1:
            actions.append(Upcast(rows.arg.axis, count))
    actions.append(Upcast(columns.arg.axis, lanes))
    return actions


def _streams_less(shape: Shape, columns: UOp, lanes: int, rows: UOp, count: int) -> bool:
    """Whether the loop of columns should stand outside of that of rows, if it stands inside.

    The operand of the inner loop is read again for every tile of the outer one.
    """
    if shape.outputs.index(columns) < shape.outputs.index(rows):
        return False
    of_rows = _bytes_along(shape, rows) * -(-extent_of(columns) // lanes)
    of_columns = _bytes_along(shape, columns) * -(-extent_of(rows) // count)
    return of_rows < of_columns


def _bytes_along(shape: Shape, loop: UOp) -> int:
    """Bytes of the operands that move with an output loop."""
    assert shape.main is not None
    loops = (loop, *shape.main.src[1:])
    return sum(
        load.index.dtype.itemsize * size_of(extent_of(r) for r in loops if load.stride(r) != 0)
        for load in shape.loads
        if load.stride(loop) != 0
    )


def _row_loop(shape: Shape, columns: UOp) -> UOp | None:
    moving = [load for load in shape.loads if load.stride(columns) != 0]
    loops = [
        loop
        for loop in shape.outputs
        if loop is not columns
        and extent_of(loop) > 1
        and any(load.stride(loop) == 0 for load in moving)
        and all(load.stride(loop) is not None for load in shape.loads)
    ]
    return max(loops, key=extent_of, default=None)


def _row_count(extent: int, most: int) -> int:
    """The largest divisor up to `most`; a masked tile where there is none worth having."""
    best = max(count for count in range(1, most + 1) if extent % count == 0)
    return best if best * 2 > most or extent <= most else most


def _dot_tile(shape: Shape, inner: UOp, target: Target) -> list[Action]:
    """Lanes along the reduction; outputs upcast where that uses a load again."""
    assert shape.main is not None
    reused = [
        loop
        for loop in shape.outputs
        if extent_of(loop) > 1
        and any(load.stride(loop) == 0 and load.stride(inner) == 1 for load in shape.loads)
        and all(load.stride(loop) is not None for load in shape.loads)
    ]
    actions: list[Action] = []
    for loop in sorted(reused, key=extent_of, reverse=True)[:2]:
        count = _row_count(extent_of(loop), 4)
        if count > 1:
            actions.append(Upcast(loop.arg.axis, count))
    vectors = 1 if actions else ACCUMULATORS
    lanes = _lane_count(extent_of(inner), shape.width, vectors)
    return [*actions, Unroll(inner.arg.axis, lanes)]


def _row_reduction(reduce: UOp, target: Target) -> list[Action]:
    """Lanes along the loop of a reduction that stands outside of the output's inner loops."""
    loads = tuple(loads_below(reduce.src[0]))
    width = target.vector_width(reduce.dtype)
    for loop in reversed(reduce.src[1:]):
        if extent_of(loop) > 1 and _fits(loads, loop) and _contiguous(loads, loop):
            return [Unroll(loop.arg.axis, _lane_count(extent_of(loop), width, ACCUMULATORS))]
    return []


def long_sums(effect: UOp, target: Target) -> list[Action]:
    """Float sums over long loops become sums of sums."""
    actions: list[Action] = []
    for reduce in reductions(effect):
        if reduce.arg.op is not Ops.ADD or not reduce.dtype.is_float:
            continue
        loop = max((r for r in reduce.src[1:]), key=extent_of)
        extent = extent_of(loop)
        if extent <= 2 * LONGEST_SUM or loop.arg.kind is not AxisType.REDUCE:
            continue
        parts = [n for n in range(LONGEST_SUM, 15, -1) if extent % n == 0]
        if parts:
            actions.append(Cascade(loop.arg.axis, parts[0]))
    return actions


def _is_worth_sharing(effect: UOp, target: Target) -> bool:
    cost = estimate(effect)
    seconds = max(
        cost.work / (target.core_flops * 0.5),
        cost.moved * target.cores / target.memory_bandwidth,
    )
    return target.cores > 1 and seconds > PARALLEL_SECONDS
