"""Every workload of the benchmarks builds, small ones give NumPy's results, and results are compared rightly."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.framework import Array, Function
from benchmarks.frameworks import FRAMEWORKS, Lazy
from benchmarks.inputs import Inputs
from benchmarks.measure import checksum, measure
from benchmarks.networks import Transformer
from benchmarks.outcome import Outcome, agree, verdicts
from benchmarks.report import ours_is_right, rows, summary
from benchmarks.workloads import WORKLOADS, Workload, convolution, transformer
from loomgrad import Tensor
from tests.meta.modules import ROOT

# fmt: off
SHAPES: dict[str, tuple[int, ...]] = {
    "gemm_256": (256, 256),                "gemm_512": (512, 512),
    "gemm_1024": (1024, 1024),             "gemm_2048": (2048, 2048),
    "gemm_bias_gelu": (512, 3072),         "gemv_4096": (1, 4096),
    "bmm_12x128x64": (96, 128, 128),
    "axpy": (1 << 23,),                    "chain": (1 << 23,),
    "softmax": (4096, 1024),               "layernorm": (4096, 1024),
    "sum_all": (),                         "sum_axis0": (2048,),
    "max_axis1": (4096,),                  "transpose": (2048, 4096),
    "conv3x3": (8, 64, 56, 56),            "conv7x7s2": (2, 64, 112, 112),
    "conv1x1": (8, 512, 28, 28),           "dwconv3x3": (8, 128, 56, 56),
    "sdpa_512": (1, 12, 512, 64),          "tiny_25": (64,),
    "mlp_train": (),                       "cnn_train": (),
    "gpt2_prefill128": (1, 128, 768),      "gpt2_decode": (1, 1, 768),
}
# fmt: on
SMALL = (
    convolution("small_convolution", (2, 4, 7, 6), (6, 2, 3, 3), stride=2, padding=1, groups=2),
    transformer("small_transformer", Transformer(3, past=2, layers=1, width=8, heads=2)),
)


class Zeros(Inputs):
    """Zeros that nobody reads and that take no memory."""

    def normal(self, *shape: int, scale: float = 1.0, mean: float = 0.0) -> NDArray[np.float32]:
        return np.zeros(shape, np.float32)


class Uncomputed(Lazy):
    """loomgrad without computing anything."""

    def __init__(self) -> None:
        super().__init__("loomgrad")
        self.tensor = lambda numbers: Tensor.zeros(*numbers.shape)

    def compiled(self, run: Function) -> Function:
        return run

    def computed(self, result: Array, *more: Array) -> Array:
        return result


@pytest.mark.parametrize("name", WORKLOADS)
def test_each_workload_builds(name: str) -> None:
    result = WORKLOADS[name].build(Uncomputed(), Zeros(name))()
    assert result.shape == SHAPES[name]


@pytest.mark.parametrize("workload", SMALL, ids=lambda workload: workload.name)
def test_small_workloads_agree_with_numpy(workload: Workload) -> None:
    ours, numpys = (
        measure(name, FRAMEWORKS[name](), workload, seconds=0.0) for name in ("loomgrad", "numpy")
    )
    assert agree(ours, numpys), (ours, numpys)
    assert ours.size > 0.5


def test_run_prints_a_table_and_succeeds() -> None:
    command = [sys.executable, "benchmarks/run.py", "--seconds", "0", "gemm_256"]
    plain = os.environ | {"LOOMGRAD_CHECK": "0", "LOOMGRAD_VERIFY": "0"}
    done = subprocess.run(command, cwd=ROOT, env=plain, capture_output=True, text=True, check=True)
    head, ours, numpys, _, end = done.stdout.splitlines()
    assert head.split()[:2] == ["workload", "framework"]
    assert ours.startswith("gemm_256") and ours.endswith("ok") and "GFLOP/s" in ours
    assert numpys.split()[1] == "numpy" and numpys.endswith("ok")
    assert end.startswith("loomgrad: 1 ok; ")


def test_run_refuses_an_unknown_workload() -> None:
    command = [sys.executable, "benchmarks/run.py", "gemm"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "no such workload: gemm" in done.stderr


def outcome(framework: str, check: float, typical: float = 1.0, error: str = "") -> Outcome:
    return Outcome(framework, "axpy", 2.0, typical, check, size=10.0, error=error)


def test_the_majority_is_right() -> None:
    outcomes = [outcome("loomgrad", 5.0), outcome("numpy", 7.0), outcome("torch", 7.05)]
    assert verdicts(outcomes) == {"loomgrad": "WRONG", "numpy": "ok", "torch": "ok"}
    assert not ours_is_right(outcomes)


def test_two_that_differ_are_both_wrong() -> None:
    outcomes = [outcome("loomgrad", 5.0), outcome("numpy", 7.0)]
    assert set(verdicts(outcomes).values()) == {"WRONG"}


def test_not_a_number_agrees_with_nothing() -> None:
    outcomes = [outcome(name, float("nan")) for name in ("loomgrad", "numpy", "torch")]
    assert set(verdicts(outcomes).values()) == {"WRONG"}


def test_a_failure_is_shown_and_counts() -> None:
    outcomes = [outcome("loomgrad", 0.0, error="it broke"), outcome("numpy", 7.0)]
    assert verdicts(outcomes) == {"loomgrad": "failed", "numpy": "alone"}
    assert not ours_is_right(outcomes)
    assert next(rows(outcomes)).split()[2:] == ["it", "broke"]
    assert summary([outcomes]) == "loomgrad: 1 failed"


def test_a_wrong_result_is_not_the_fastest() -> None:
    fast_but_wrong = outcome("numpy", 9.0, typical=0.1)
    outcomes = [outcome("loomgrad", 7.0, 4.0), fast_but_wrong, outcome("torch", 7.0, 2.0)]
    assert [line.split()[-2:] for line in rows(outcomes)] == [
        ["0.50", "ok"],
        ["20.00", "WRONG"],
        ["1.00", "ok"],
    ]
    assert "0.50 times as fast" in summary([outcomes])


def test_checksum_sees_the_order() -> None:
    numbers = np.random.default_rng(1).standard_normal((40, 30)).astype(np.float32)
    (sorted_sum, size), (moved_sum, _) = checksum(numbers), checksum(numbers.T)
    assert abs(sorted_sum - moved_sum) > 0.01 * size
