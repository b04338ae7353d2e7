"""Random programs, compiled and evaluated.  `python -m tests.engine.test_random_programs FIRST LAST` runs more."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from loomgrad import Context, Tensor
from loomgrad.ir.evaluate import evaluate_tensors
from tests.engine.random_programs import Program

SEEDS_PER_TEST = 10


def check(seed: int) -> None:
    program = Program(seed)
    with np.errstate(all="ignore"):
        wanted = evaluate_tensors([output.uop for output in program.outputs], {})
    Tensor.realize(*program.outputs)
    for output, expected in zip(program.outputs, wanted, strict=True):
        np.testing.assert_allclose(
            output.numpy(), expected, rtol=1e-5, err_msg="\n".join([f"seed {seed}", *program.text])
        )


@pytest.mark.parametrize("block", range(8))
def test_compiled_equals_evaluated(block: int) -> None:
    for seed in range(block * SEEDS_PER_TEST, (block + 1) * SEEDS_PER_TEST):
        check(seed)


def test_without_optimisation() -> None:
    with Context(NOOPT=True):
        for seed in range(1000, 1030):
            check(seed)


def test_a_value_between_two_outputs_of_one_kernel() -> None:
    x = Tensor(np.arange(-3.0, 3.0, dtype=np.float32).reshape(2, 3))
    first = (x == 2).where(x, 3)
    second = first.relu() + 1
    outputs = [first, second * first, second.flip(0)]
    wanted = [np.array(v) for v in evaluate_tensors([output.uop for output in outputs], {})]
    Tensor.realize(*outputs)
    for output, expected in zip(outputs, wanted, strict=True):
        np.testing.assert_array_equal(output.numpy(), expected)


def test_a_kernel_with_several_outputs_reads_none_of_them() -> None:
    x = Tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
    total = x.sum(0)
    more = total + 1
    mixed = more + total.flip(0)
    Tensor.realize(total, more, mixed)
    assert mixed.tolist() == [34.0, 34.0, 34.0, 34.0]
    stored = x.sum(0).contiguous()
    product = (stored + 1).contiguous() * (stored * stored).sum()
    column = x.numpy().sum(0)
    np.testing.assert_array_equal(product.numpy(), (column + 1) * (column * column).sum())


def test_indices_of_several_dtypes() -> None:
    x = Tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
    for first, second in (("int32", "int64"), ("int64", "uint8"), ("int8", "int32")):
        row = x[Tensor(np.array(1, first))]
        assert row[Tensor(np.array([1, 3], second))].tolist() == [5.0, 7.0]


if __name__ == "__main__":
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        check(number)
