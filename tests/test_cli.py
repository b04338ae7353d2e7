"""The `loom` command as a user runs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from loomgrad import __version__
from loomgrad.cli import main
from loomgrad.config import SETTINGS


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    printed = capsys.readouterr().out
    assert f"loomgrad {__version__}" in printed
    assert "numpy " in printed and "llvmlite " in printed
    assert all(row.meaning in printed for row in SETTINGS.values())


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "LG211"]) == 0
    assert "x + y.reshape(2, 1)" in capsys.readouterr().out


def test_explain_of_an_unknown_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "LG217"]) == 1
    assert "LG217 is not an error code" in capsys.readouterr().err


def test_a_missing_command_shows_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([])
    assert "usage: loom" in capsys.readouterr().err


def test_the_package_runs_as_a_program() -> None:
    command = [sys.executable, "-m", "loomgrad", "--version"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed == f"loomgrad {__version__}\n"
