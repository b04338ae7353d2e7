"""The `loom` command.  Each subcommand imports what it needs, so that the cheap ones start at once."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from importlib import metadata

import loomgrad
from loomgrad.config import SETTINGS
from loomgrad.errors import LoomError, explain

DEPENDENCIES = ("llvmlite", "ml_dtypes", "numpy", "tqdm")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the result is the exit status."""
    options = _parser().parse_args(arguments)
    try:
        lines: list[str] = options.run(options)
    except LoomError as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(lines))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="loom", description="Deep learning from Tensor to machine code."
    )
    parser.add_argument("--version", action="version", version=f"loomgrad {loomgrad.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    info = commands.add_parser("info", help="versions, this machine's devices, settings")
    info.set_defaults(run=_info)
    demo = commands.add_parser("demo", help="train on handwritten digits and show the result")
    demo.set_defaults(run=_demo)
    about = commands.add_parser("explain", help="what an error code means and what to do")
    about.add_argument("code", metavar="CODE", help="for example LG211")
    about.set_defaults(run=lambda options: [explain(options.code)])
    return parser


def _demo(_: argparse.Namespace) -> list[str]:
    from loomgrad.nn.demo import report, run

    return report(run())


def _info(_: argparse.Namespace) -> list[str]:
    python = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    return [
        f"loomgrad {loomgrad.__version__}, {python}, {os.cpu_count()} cores",
        ", ".join(_version(name) for name in DEPENDENCIES),
        "",
        "Settings (in the environment: LOOMGRAD_NAME or NAME):",
        *(f"  {row!s:<13} {row.meaning}" for row in SETTINGS.values()),
    ]


def _version(package: str) -> str:
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return f"{package} is not installed"
