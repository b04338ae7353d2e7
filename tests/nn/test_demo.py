"""The demo: it learns, it says so, and its first steps are those of the reference evaluator."""

from __future__ import annotations

import re

import numpy as np
import pytest

from loomgrad import Context, Tensor
from loomgrad.cli import main
from loomgrad.ir.evaluate import evaluate_tensors
from loomgrad.nn import demo
from loomgrad.nn.demo import SEED, Network, Outcome, batches, report, run, train_step
from loomgrad.nn.optim import Adam


def test_the_first_losses_are_the_evaluators() -> None:
    """Loss and new parameters of two steps, evaluated from the same graph that is compiled."""
    Tensor.manual_seed(SEED)
    network = Network()
    optimizer = Adam(network.parameters, lr=0.005)
    for x, y in batches(2):
        optimizer.zero_grad()
        loss = network(x).cross_entropy(y).backward()
        changed = [loss, *optimizer.schedule_step()]
        wanted = evaluate_tensors([tensor.uop for tensor in changed], {})
        Tensor.realize(*changed)
        for tensor, expected in zip(changed, wanted, strict=True):
            np.testing.assert_allclose(tensor.numpy(), expected, 1e-4, 1e-4)


def test_a_short_run_learns_and_reports() -> None:
    with Context(CHECK=False):  # the test above checks the same kernels
        outcome = run(60)
    assert outcome.accuracy > 85
    assert np.mean(outcome.losses[-5:]) < np.mean(outcome.losses[:5]) / 2
    assert len(outcome.seconds) == 60 and outcome.kernels > 0
    lines = report(outcome)
    assert any(re.fullmatch(r"accuracy \d\d\.\d% on 449 held-out digits", line) for line in lines)
    assert any("kernels per step" in line for line in lines)
    assert sum("read" in line for line in lines) == 1


def test_a_step_changes_parameters_and_keeps_its_kernels() -> None:
    network = Network()
    optimizer = Adam(network.parameters)
    (first, second) = batches(2)
    before = network.w1.numpy().copy()
    train_step(network, optimizer, *first)
    train_step(network, optimizer, *second)
    assert np.abs(network.w1.numpy() - before).max() > 0


def test_the_drawing_shows_a_mistake() -> None:
    images = [[float(i % 2)] * 64 for i in range(8)]
    outcome = Outcome(
        [1, 2, 3, 4, 5, 6, 7, 9], [1, 2, 3, 4, 5, 6, 7, 8], images, [1.0], [0.5, 0.1, 0.1], 9
    )
    text = "\n".join(report(outcome))
    assert "read 9, is 8" in text and "accuracy 87.5% on 8 held-out digits" in text
    assert "first step 500 ms (it compiles), then 100.00 ms per step, 9 kernels per step" in text
    assert "█" in text


def test_the_command_runs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = Outcome([7], [7], [[0.5] * 64], [1.0], [0.5, 0.1], 9)
    monkeypatch.setattr(demo, "run", lambda: outcome)
    assert main(["demo"]) == 0
    assert "accuracy 100.0% on 1 held-out digits" in capsys.readouterr().out
