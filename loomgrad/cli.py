"""The `loom` command.  Each subcommand imports what it needs, so that the cheap ones start at once."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from importlib import metadata

import loomgrad
from loomgrad.config import SETTINGS
from loomgrad.dtype import dtypes
from loomgrad.errors import LoomError, did_you_mean, error_classes, explain
from loomgrad.memory import Device
from loomgrad.target import KIB, host_target

MIB = 1024 * KIB
DEPENDENCIES = ("llvmlite", "ml_dtypes", "numpy", "tqdm")


class UsageError(Exception):
    """The command was not given what it needs; one line says so, and the exit status is 2."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the result is the exit status."""
    options = _parser().parse_args(arguments)
    try:
        lines: list[str] = options.run(options)
    except UsageError as error:
        print(f"loom: {error}", file=sys.stderr)
        return 2
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
    about.add_argument("code", metavar="CODE", nargs="?", help="for example LG211; all without one")
    about.set_defaults(run=_explain)
    return parser


def _demo(_: argparse.Namespace) -> list[str]:
    from loomgrad.nn.demo import report, run

    return report(run())


def _explain(options: argparse.Namespace) -> list[str]:
    classes = error_classes()
    if options.code is None:
        first = {code: (error.__doc__ or "").partition("\n")[0] for code, error in classes.items()}
        return [f"{code}  {classes[code].__name__:<19} {line}" for code, line in first.items()]
    if options.code.upper() not in classes:
        raise UsageError(f"{options.code} is no error code, {did_you_mean(options.code, classes)}")
    return [explain(options.code)]


def _info(_: argparse.Namespace) -> list[str]:
    python = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    return [
        f"loomgrad {loomgrad.__version__}, {python}, {os.cpu_count()} cores",
        ", ".join(_version(name) for name in DEPENDENCIES),
        "",
        *_devices(),
        "",
        "Settings (in the environment: LOOMGRAD_NAME or NAME):",
        *(f"  {row!s:<13} {row.meaning}" for row in SETTINGS.values()),
    ]


def _devices() -> list[str]:
    cpu = host_target()
    names = (f"{name} (default)" if name == Device.DEFAULT else name for name in Device.known())
    caches = (
        f"L{i + 1} {_size(n)}" for i, n in enumerate((cpu.l1_bytes, cpu.l2_bytes, cpu.l3_bytes))
    )
    return [
        f"Devices: {', '.join(names)}",
        f"  CPU threads   {cpu.cores}",
        f"  CPU vectors   {cpu.vector_bits} bits, {cpu.vector_width(dtypes.float32)} float32, "
        f"in {cpu.vector_registers} registers",
        f"  CPU caches    {', '.join(caches)}",
        f"  CPU features  {', '.join(cpu.features) or 'none that loomgrad asks for'}",
    ]


def _size(nbytes: int) -> str:
    """Bytes in the largest unit of which there is at least one."""
    return f"{nbytes / MIB:.4g} MiB" if nbytes >= MIB else f"{nbytes / KIB:.4g} KiB"


def _version(package: str) -> str:
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return f"{package} is not installed"
