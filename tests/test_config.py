"""Settings: where values come from, how they are changed, what a mistake says."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from loomgrad import config
from loomgrad.config import CHECK, DEBUG, DEVICE, SETTINGS, THREADS, Context
from loomgrad.errors import SettingError


def in_new_process(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program with only these settings in its environment."""
    names = {*SETTINGS, *(config.PREFIX + name for name in SETTINGS)}
    kept = {name: value for name, value in os.environ.items() if name not in names}
    command = [sys.executable, "-c", f"from loomgrad.config import *\n{program}"]
    return subprocess.run(command, env=kept | environment, capture_output=True, text=True)


def test_defaults() -> None:
    printed = in_new_process("print(*SETTINGS.values())").stdout
    assert printed == "DEBUG=0 CHECK=False VERIFY=False NOOPT=False THREADS=0 DEVICE='CPU'\n"


def test_the_environment_sets_values() -> None:
    printed = in_new_process("print(DEBUG, CHECK)", DEBUG="3", LOOMGRAD_CHECK="1").stdout
    assert printed == "DEBUG=3 CHECK=True\n"


def test_the_long_name_wins() -> None:
    printed = in_new_process("print(DEBUG)", DEBUG="3", LOOMGRAD_DEBUG="1").stdout
    assert printed == "DEBUG=1\n"


def test_a_bad_value_under_the_long_name_is_an_error() -> None:
    failed = in_new_process("", LOOMGRAD_DEBUG="much")
    assert failed.returncode != 0
    assert "SettingError: LG901 · LOOMGRAD_DEBUG=much is no value of this setting" in failed.stderr
    assert "Fix: DEBUG takes a whole number from 0 to 7; its default is 0" in failed.stderr


def test_a_bad_value_under_the_short_name_may_be_meant_for_another_program() -> None:
    done = in_new_process("print(DEBUG)", DEBUG="app:*")
    assert done.stdout == "DEBUG=0\n"
    warning = "environment variable DEBUG:1: UserWarning: loomgrad ignores DEBUG=app:*: it takes a whole number"
    assert done.stderr.startswith(warning)
    assert ".py" not in done.stderr


def test_a_misspelt_name_in_the_environment_is_noticed() -> None:
    warned = in_new_process("", LOOMGRAD_DEBGU="2").stderr
    place = "environment variable LOOMGRAD_DEBGU:1: UserWarning: "
    assert warned == f"{place}loomgrad has no setting DEBGU: did you mean DEBUG?\n"


def test_context_changes_and_restores() -> None:
    before = DEBUG.value, DEVICE.value
    with Context(DEBUG=2, DEVICE="PYTHON"):
        assert (DEBUG.value, DEVICE.value) == (2, "PYTHON")
        with Context(DEBUG=4):
            assert (DEBUG.value, DEVICE.value) == (4, "PYTHON")
        assert DEBUG.value == 2
    assert (DEBUG.value, DEVICE.value) == before


def test_context_restores_after_an_exception() -> None:
    before = DEBUG.value
    with pytest.raises(KeyError), Context(DEBUG=5):
        raise KeyError
    assert DEBUG.value == before


def test_one_context_can_be_entered_inside_itself() -> None:
    before = DEBUG.value
    context = Context(DEBUG=5)
    with context, context:
        assert DEBUG.value == 5
    assert DEBUG.value == before


def test_context_as_decorator() -> None:
    @Context(DEBUG=3)
    def countdown(depth: int) -> list[int]:
        return [DEBUG.value] + (countdown(depth - 1) if depth else [])

    before = DEBUG.value
    assert countdown(2) == [3, 3, 3]
    assert DEBUG.value == before


def test_a_context_holds_in_its_own_thread_only() -> None:
    """Two threads run one decorated function at once, and a third sees the change of neither."""
    inside = threading.Barrier(3)
    seen: list[int] = []

    @Context(THREADS=7)
    def work() -> None:
        inside.wait(10)
        seen.append(THREADS.value)
        inside.wait(10)

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    inside.wait(10)
    here = THREADS.value
    inside.wait(10)
    for worker in workers:
        worker.join()
    assert seen == [7, 7]
    assert here == THREADS.default


def test_values_are_accepted_as_text_and_kept_in_their_type() -> None:
    with Context(CHECK=1, DEBUG="2", THREADS=True):
        assert CHECK.value is True
        assert DEBUG.value == 2
        assert THREADS.value == 1 and type(THREADS.value) is int


def test_a_setting_is_as_true_as_its_value() -> None:
    with Context(CHECK=0, DEBUG=0):
        assert not CHECK and not DEBUG
    with Context(CHECK=1, DEBUG=1):
        assert CHECK and DEBUG


def test_an_unknown_name_gets_the_near_one() -> None:
    with pytest.raises(SettingError) as caught:
        Context(debgu=2)
    assert "LG901 · there is no setting debgu" in str(caught.value)
    assert "Fix: did you mean DEBUG?" in str(caught.value)


def test_an_unknown_name_far_from_all_gets_the_list() -> None:
    with pytest.raises(SettingError, match="known: CHECK, DEBUG, DEVICE, NOOPT, THREADS, VERIFY"):
        Context(QUX=1)


@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("DEBUG", 9, "DEBUG takes a whole number from 0 to 7; its default is 0"),
        ("DEBUG", "loud", "DEBUG takes a whole number from 0 to 7; its default is 0"),
        ("CHECK", 2, "CHECK takes 0 or 1; its default is False"),
        ("DEVICE", " ", "DEVICE takes a text that is not empty; its default is 'CPU'"),
    ],
)
def test_a_bad_value_says_what_is_taken(name: str, value: int | str, advice: str) -> None:
    before = repr(list(SETTINGS.values()))
    with pytest.raises(SettingError) as caught:
        Context(**{"THREADS": 3, name: value})
    assert f"{name}={value!r} is no value of this setting" in str(caught.value)
    assert advice in str(caught.value)
    assert repr(list(SETTINGS.values())) == before


def test_every_row_is_complete() -> None:
    for name, row in SETTINGS.items():
        assert row is getattr(config, name)
        assert name == row.name == name.upper()
        assert row.meaning.endswith(".") and row.meaning[0].isupper()
        assert row.check(row.default) == row.default
