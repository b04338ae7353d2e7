"""The `loom` command as a user runs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from loomgrad import __version__
from loomgrad.cli import main
from loomgrad.config import SETTINGS
from loomgrad.errors import error_classes
from loomgrad.target import host_target


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    printed = capsys.readouterr().out
    assert f"loomgrad {__version__}" in printed
    assert "numpy " in printed and "llvmlite " in printed
    assert all(row.meaning in printed for row in SETTINGS.values())
    cpu = host_target()
    assert "Devices: CPU (default)" in printed
    assert f"CPU vectors   {cpu.vector_bits} bits, {cpu.vector_bits // 32} float32" in printed
    assert "CPU caches    L1 " in printed and all(name in printed for name in cpu.features)


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "LG211"]) == 0
    assert "x + y.reshape(2, 1)" in capsys.readouterr().out


def test_explain_of_an_unknown_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "LG219"]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("loom: LG219 is no error code, did you mean LG2")
    assert printed.err.count("\n") == 1 and not printed.out


def test_explain_without_a_code_lists_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[:5] for line in lines] == list(error_classes())
    assert "LG211  ShapeError          The shapes of two operands" in "\n".join(lines)
    assert all(line.endswith((".", ",")) for line in lines)


def test_a_missing_command_shows_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([])
    assert "usage: loom" in capsys.readouterr().err


def test_the_package_runs_as_a_program() -> None:
    command = [sys.executable, "-m", "loomgrad", "--version"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed == f"loomgrad {__version__}\n"
