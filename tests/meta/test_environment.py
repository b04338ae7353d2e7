"""The environment is read in one place, and importing loomgrad costs little."""

from __future__ import annotations

import ast
import subprocess
import sys

from tests.meta.modules import ROOT, package_files

READERS = ("environ", "environb", "getenv", "putenv")
PROBE = """
import sys, time
start = time.perf_counter()
import loomgrad
seconds = time.perf_counter() - start
print(seconds, *(name for name in ("numpy", "ml_dtypes", "llvmlite", "tqdm") if name in sys.modules))
"""


def test_only_config_reads_the_environment() -> None:
    wrong = [
        f"{name}:{node.lineno}"
        for name, path in package_files().items()
        if name != "loomgrad.config"
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Attribute) and node.attr in READERS)
        or (isinstance(node, ast.alias) and node.name in READERS)
    ]
    assert not wrong, f"read settings through loomgrad.config, not the environment: {wrong}"


def test_import_is_quick_and_loads_nothing_heavy() -> None:
    seconds = []
    for _ in range(5):
        command = [sys.executable, "-c", PROBE]
        printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        first, *heavy = printed.stdout.split()
        assert not heavy, f"`import loomgrad` loads {heavy}"
        seconds.append(float(first))
    assert min(seconds) < 0.1, f"`import loomgrad` takes {min(seconds):.3f} s"
