"""Kernels through the passes of code generation."""

from __future__ import annotations

import pytest

from loomgrad.codegen.opt.actions import Action, Swap, Thread, Unroll, Upcast
from loomgrad.codegen.opt.heuristic import choose_actions
from loomgrad.codegen.opt.loops import merged, output_loops, split
from loomgrad.codegen.optimise import merge_loops, optimise
from loomgrad.config import Context
from loomgrad.dtype import dtypes
from loomgrad.errors import UnsupportedError
from loomgrad.ir.args import AxisType
from loomgrad.ir.opcode import Ops
from loomgrad.ir.shape import extent_of
from loomgrad.ir.uop import UOp
from loomgrad.ir.verify import verify
from loomgrad.pipeline import KERNEL_PASSES, SCHEDULE_PASSES, check_order, run_passes
from tests.schedule.lowering import TARGET, Inputs, kernels_of, matmul


def matmul_kernel(m: int, k: int, n: int) -> UOp:
    new = Inputs()
    (kernel,) = kernels_of(matmul(new(m, k), new(k, n)))
    return kernel


def test_a_tile_is_few_nodes_at_every_level() -> None:
    kernel = matmul_kernel(512, 512, 512)
    for step in KERNEL_PASSES:
        kernel = step.run(kernel, TARGET)
        verify(kernel, step.leaves, step.name)
        assert len(kernel.toposort()) <= 300, step.name


def test_matmul_gets_a_register_tile() -> None:
    actions = choose_actions(matmul_kernel(512, 512, 512).src[0], TARGET)
    assert actions == [Swap((1,), other=(0,)), Upcast((0,), 4), Upcast((1,), 16), Thread()]


def test_a_transposed_operand_gets_lanes_along_the_reduction() -> None:
    new = Inputs()
    (kernel,) = kernels_of(matmul(new(128, 512), new(64, 512).permute(1, 0)))
    kinds = [type(action) for action in choose_actions(kernel.src[0], TARGET)]
    assert kinds == [Upcast, Upcast, Unroll, Thread]


def test_lanes_of_two_reductions_and_the_output_do_not_multiply() -> None:
    x = Inputs()(64, 1024)
    shifted = x - x.max(1, keepdim=True)
    (kernel,) = kernels_of(shifted)
    linear = run_passes(KERNEL_PASSES, kernel, TARGET)
    assert {n.shape for n in linear.src if n.op is Ops.LOAD} == {(32,), (16,)}


def test_vectors_lie_along_a_contiguous_reduction() -> None:
    new = Inputs()
    (kernel,) = kernels_of(matmul(new(64, 512), new(64, 512).permute(1, 0)))
    linear = run_passes(KERNEL_PASSES, kernel, TARGET)
    register = next(n for n in linear.src if n.op is Ops.BUFFER)
    assert register.shape == (4, 4, 8)


def test_a_strided_convolution_uses_its_loads_for_several_rows() -> None:
    new = Inputs()
    x, w = new(3, 64), new(16, 3, 7)
    strided = x.reshape(3, 32, 2).shrink((None, None, (0, 1))).reshape(1, 3, 32)
    (kernel,) = kernels_of((strided * w.shrink((None, None, (0, 1)))).sum(1))
    kinds = [type(action) for action in choose_actions(kernel.src[0], TARGET)]
    assert kinds.count(Upcast) == 2 and Unroll not in kinds


def test_a_transposition_gets_a_tile() -> None:
    (kernel,) = kernels_of(Inputs()(64, 128).permute(1, 0) * 2)
    assert choose_actions(kernel.src[0], TARGET)[:2] == [Upcast((0,), 8), Upcast((1,), 8)]


def test_a_sum_has_several_accumulators() -> None:
    (kernel,) = kernels_of(Inputs()(1 << 16).sum())
    assert choose_actions(kernel.src[0], TARGET) == [Unroll((0,), 32)]


def test_a_long_sum_is_a_sum_of_sums() -> None:
    (kernel,) = kernels_of(Inputs()(1 << 20).sum())
    optimised = optimise(merge_loops(kernel, TARGET), TARGET)
    assert optimised.arg.actions == ("Unroll(0, 32)", "Cascade(0.0, 1024)")
    (integers,) = kernels_of(Inputs()(1 << 20, dtype=dtypes.int32).sum())
    assert len(optimise(merge_loops(integers, TARGET), TARGET).arg.actions) == 1


def test_without_optimisation_there_are_no_lanes() -> None:
    with Context(NOOPT=True):
        linear = run_passes(KERNEL_PASSES, matmul_kernel(8, 8, 8), TARGET)
    kinds = {node.arg.kind for node in linear.src if node.op is Ops.RANGE}
    assert kinds == {AxisType.LOOP, AxisType.REDUCE}


def test_adjacent_loops_merge_where_no_division_appears() -> None:
    new = Inputs()
    x, b = new(30, 40), new(40)
    (flat,) = kernels_of(x * 2)
    assert [extent_of(loop) for loop in output_loops(merged(flat.src[0]))] == [1200]
    (rows,) = kernels_of(x + b)
    assert [extent_of(loop) for loop in output_loops(merged(rows.src[0]))] == [30, 40]


def test_a_split_that_divides_needs_no_mask() -> None:
    (kernel,) = kernels_of(Inputs()(64) * 2)
    (loop,) = output_loops(kernel.src[0])
    effect, outer, inner = split(kernel.src[0], loop, 16, AxisType.UPCAST)
    assert outer is not None and (extent_of(outer), extent_of(inner)) == (4, 16)
    assert not any(node.op is Ops.WHERE for node in effect.toposort())


def test_a_split_that_does_not_divide_masks_the_rest() -> None:
    (kernel,) = kernels_of(Inputs()(61) * 2)
    (loop,) = output_loops(kernel.src[0])
    effect, outer, _ = split(kernel.src[0], loop, 16, AxisType.UPCAST)
    assert outer is not None and extent_of(outer) == 4
    assert any(node.op is Ops.WHERE for node in effect.toposort())


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (Upcast((7,), 4), "has no loop"),
        (Upcast((2,), 4), "not one of the output's"),
        (Unroll((0,), 4), "not a reduction's"),
        (Swap((0,), other=(2,)), "both loops must be the output's"),
    ],
)
def test_actions_refuse_what_they_cannot_do(action: Action, text: str) -> None:
    with pytest.raises(UnsupportedError, match=text):
        action.apply(matmul_kernel(32, 32, 32).src[0])


def test_a_multiplication_under_a_sum_is_contracted_and_no_other() -> None:
    new = Inputs()
    x, y = new(64, 64), new(64)
    (kernel,) = kernels_of((x * x).sum(1) + y * y)
    linear = run_passes(KERNEL_PASSES, kernel, TARGET)
    ops = [node.op for node in linear.src if node.dtype.is_float]
    assert ops.count(Ops.MULACC) == 1 and ops.count(Ops.MUL) == 1


def test_invariant_code_stands_outside_of_inner_loops() -> None:
    new = Inputs()
    x, scale = new(64, 512), new(64)
    (kernel,) = kernels_of(x * (scale.exp2() + 1).reshape(64, 1))
    with Context(NOOPT=True):
        linear = run_passes(KERNEL_PASSES, kernel, TARGET)
    places = [n for n in linear.src if n.op in (Ops.RANGE, Ops.LOAD)]
    assert [n.op for n in places] == [Ops.RANGE, Ops.LOAD, Ops.RANGE, Ops.LOAD]


def test_indices_are_32_bits_where_they_fit_and_64_where_not() -> None:
    for size, dtype in ((1 << 20, dtypes.int32), (1 << 33, dtypes.int64)):
        (kernel,) = kernels_of(Inputs()(size) * 2)
        linear = run_passes(KERNEL_PASSES, kernel, TARGET)
        assert {n.dtype for n in linear.src if n.op is Ops.RANGE} == {dtype}


def test_the_order_of_passes_is_checked() -> None:
    check_order(SCHEDULE_PASSES)
    with pytest.raises(ValueError, match="must come after"):
        check_order((SCHEDULE_PASSES[1], SCHEDULE_PASSES[0]))
    with pytest.raises(ValueError, match="takes"):
        check_order((SCHEDULE_PASSES[0], KERNEL_PASSES[0]))
    assert all(step.does for step in SCHEDULE_PASSES + KERNEL_PASSES)
