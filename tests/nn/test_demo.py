"""The demo: it learns, it says so, and its first steps are those of the reference evaluator."""

from __future__ import annotations

import re

import numpy as np
import pytest

from loomgrad import Context, Tensor, jit
from loomgrad.cli import main
from loomgrad.ir.evaluate import evaluate_tensors
from loomgrad.nn import demo
from loomgrad.nn.demo import SEED, Network, Outcome, batches, report, run, step_of
from loomgrad.nn.optim import Adam
from loomgrad.nn.state import get_parameters, get_state_dict


def test_the_first_losses_are_the_evaluators() -> None:
    """Loss, new parameters and statistics of two steps, evaluated from the graph that is compiled."""
    Tensor.manual_seed(SEED)
    network = Network()
    optimizer = Adam(get_parameters(network), lr=0.005)
    with Tensor.train(), Context(CHECK=False):  # the whole is evaluated here
        for x, y in batches(2):
            optimizer.zero_grad()
            loss = network(x[:4]).cross_entropy(y[:4]).backward()
            changed = [loss, *optimizer.schedule_step()]
            assert network.norm1.running_var in set(changed)
            wanted = evaluate_tensors([tensor.uop for tensor in changed], {})
            Tensor.realize(*changed)
            for tensor, expected in zip(changed, wanted, strict=True):
                np.testing.assert_allclose(tensor.numpy(), expected, 1e-3, 1e-4)


def test_a_short_run_learns_and_reports() -> None:
    with Context(CHECK=False):  # these take their time in NumPy
        outcome = run(40)
    assert outcome.accuracy > 85
    assert np.mean(outcome.losses[-5:]) < np.mean(outcome.losses[:5]) / 2
    assert len(outcome.seconds) == 40 and outcome.kernels > 0
    lines = report(outcome)
    assert any(re.fullmatch(r"accuracy \d\d\.\d% on 449 held-out digits", line) for line in lines)
    assert any("kernels per step" in line for line in lines)
    assert sum("read" in line for line in lines) == 1


def test_the_captured_step_is_the_step() -> None:
    """The same losses and parameters, to the last bit, with and without jit; CHECK would not capture."""
    results = []
    for wrap in (lambda step: step, jit):
        Tensor.manual_seed(SEED)
        network = Network()
        step = wrap(step_of(network, Adam(get_parameters(network))))
        with Tensor.train(), Context(CHECK=False):
            losses = [step(x, y).item() for x, y in batches(4)]
        results.append((losses, [value.tolist() for value in get_state_dict(network).values()]))
    assert results[0] == results[1]
    assert network.norm1.num_batches_tracked.item() == 4


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
