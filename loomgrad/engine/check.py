"""CHECK=1: every kernel also runs in the reference evaluator, and the first that differs is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loomgrad.dtype import numpy_dtype
from loomgrad.engine.compile import CompiledKernel
from loomgrad.engine.schedule import Call
from loomgrad.ir.check import check_kernel
from loomgrad.memory import Buffer

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class Before:
    """A kernel and copies of its buffers from before it ran."""

    kernel: CompiledKernel
    arrays: list[np.ndarray]


def _array(buffer: Buffer) -> np.ndarray:
    import numpy as np

    flat = np.frombuffer(buffer.as_memoryview(), dtype=np.uint8)
    return flat.view(numpy_dtype(buffer.dtype)).copy()


def before(kernel: CompiledKernel, call: Call, buffers: Sequence[Buffer]) -> Before:
    """What the evaluator starts from."""
    return Before(kernel, [_array(buffers[number]) for number in call.arguments])


def after(checked: Before, call: Call, buffers: Sequence[Buffer]) -> None:
    """Raises CheckError where the compiled result differs from the evaluator's."""
    results = [_array(buffers[number]) for number in call.arguments]
    check_kernel(checked.kernel.kernel, checked.arrays, results)
