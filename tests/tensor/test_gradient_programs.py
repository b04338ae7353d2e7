"""A few of the random programs of `gradient_programs`."""

from __future__ import annotations

import pytest

from tests.tensor.gradient_programs import errors


@pytest.mark.parametrize("seed", range(6))
def test_gradients_and_their_gradients_are_slopes(seed: int) -> None:
    first, second = errors(seed)
    assert first < 1e-6 and second < 1e-4
