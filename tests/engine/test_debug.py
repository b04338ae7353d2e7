"""What DEBUG prints, level by level."""

from __future__ import annotations

import numpy as np
import pytest

from loomgrad import Context, GlobalCounters, Tensor


@pytest.fixture
def data() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((24, 24)).astype(np.float32)


def printed(level: int, scale: float, data: np.ndarray, capture: pytest.CaptureFixture[str]) -> str:
    with Context(DEBUG=level):
        ((Tensor(data) @ Tensor(data)) * scale).relu().realize()
    return capture.readouterr().err


def test_each_level_adds_to_the_one_below(
    data: np.ndarray, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(0, 2.0, data, capsys) == ""
    one = printed(1, 3.0, data, capsys)
    assert "realize 1 value (24, 24): 1 kernel, scheduled in" in one and one.count("\n") == 1
    two = printed(2, 4.0, data, capsys)
    assert two.count("\n") == 2 and "GFLOP/s" in two and "GB/s" in two and "  r_" in two
    assert "actions: Upcast" in printed(3, 5.0, data, capsys).replace("Swap(1, 0) ", "")
    four = printed(4, 6.0, data, capsys)
    assert "define void @r_" in four and ".text" not in four
    assert ".text" in printed(5, 7.0, data, capsys)


def test_a_source_is_printed_once(data: np.ndarray, capsys: pytest.CaptureFixture[str]) -> None:
    assert "define" in printed(4, 8.0, data, capsys)
    again = printed(4, 8.0, data, capsys)
    assert "define" not in again and "GFLOP/s" in again


def test_counters_add_up(data: np.ndarray) -> None:
    x = Tensor(data).realize()
    GlobalCounters.reset()
    (x + 1).realize()
    assert GlobalCounters.kernel_count == 1
    assert GlobalCounters.global_ops == 24 * 24
    assert GlobalCounters.global_mem == 2 * 4 * 24 * 24
