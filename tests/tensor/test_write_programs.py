"""Random programs of writes against the reference."""

from __future__ import annotations

import pytest

from loomgrad.tensor import views
from tests.tensor import write_fuzzer

PROGRAMS = (
    """
x1 = lazy((4,), 7)
x1[...] += x1[::-1]
x2 = x1 + 1
x3 = x2.sum(0)
x4 = x2.sum(0)
x5 = x1[...]
x1[None] += x4 + 1
realize(x3, x5, x1, x2, x4)
check(x1)
""",
    """
x1 = stored((3, 4), 2)
x2 = x1.expand(2, 3, 4)
del x1
realize(x2)
x2[:, 0:-2:2, 3::2, ...] = 8
check(x2)
""",
    """
x1 = stored((3, 4), 3)
x2 = x1.expand(2, 3, 4)
x4 = x2[...]
x2[...] = x4
""",
)


@pytest.mark.parametrize("part", range(4))
def test_random_programs_of_writes(part: int) -> None:
    for seed in range(20_000 + part * 10, 20_010 + part * 10):
        assert (found := write_fuzzer.failure(seed)) is None, found


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_that_were_wrong_once(program: str) -> None:
    assert (found := write_fuzzer.run(program.strip().split("\n"))) is None, found


def test_the_fuzzer_finds_a_wrong_inverse_and_shortens_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(views.Moved, "undo", lambda self, written, source, device: source)
    found = next(f for seed in range(9) if (f := write_fuzzer.failure(seed)) is not None)
    assert found.count("\n    ") <= 5
