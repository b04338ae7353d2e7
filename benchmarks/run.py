"""loomgrad beside NumPy and, where they are installed, PyTorch, JAX and tinygrad.

    python benchmarks/run.py [--peers DIR] [--only FRAMEWORK,...] [--seconds S] [--rounds N] [WORKLOAD ...]

Every measurement is a process of its own, and the frameworks take turns, so that whatever else the machine does
falls on all of them alike.  The exit code is 1 if loomgrad fails or gives a wrong result.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import asdict, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.frameworks import FRAMEWORKS
from benchmarks.outcome import Outcome
from benchmarks.report import HEAD, OURS, ours_is_right, rows, summary
from benchmarks.workloads import WORKLOADS

ROOT = Path(__file__).resolve().parents[1]
ALWAYS_THERE = (OURS, "numpy")
# These make OpenBLAS slow; and tinygrad is to use the processor, as the others do.
TAKEN_OUT = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
ADDED = {"tinygrad": {"DEV": "CPU"}}
PATIENCE = 300  # seconds for one measurement


def arguments() -> Namespace:
    """What is asked for on the command line."""
    parser = ArgumentParser(description="loomgrad beside other frameworks, on the same work")
    option = parser.add_argument
    option("workloads", nargs="*", metavar="WORKLOAD", help=", ".join(WORKLOADS))
    option(
        "--peers", type=Path, metavar="DIR", help="virtual environment with torch, jax, tinygrad"
    )
    option("--only", type=names, default=(), metavar="FRAMEWORK,...", help="leave out the others")
    option("--seconds", type=float, default=1.0, help="how long each measurement repeats the work")
    option("--rounds", type=int, default=1, help="the best of so many counts")
    option("--json", type=Path, metavar="FILE", help="append each outcome as a line of JSON")
    asked = parser.parse_args()
    if unknown := sorted(set(asked.workloads) - set(WORKLOADS)):
        parser.error(f"no such workload: {', '.join(unknown)}")
    return asked


def names(text: str) -> tuple[str, ...]:
    """Frameworks, with commas between them."""
    found = tuple(text.split(","))
    if unknown := sorted(set(found) - set(FRAMEWORKS)):
        raise ArgumentTypeError(f"no such framework: {', '.join(unknown)}")
    return found


def participants(workload: str, asked: Namespace) -> list[str]:
    """The frameworks that are to run a workload and can; loomgrad always takes part."""
    there = FRAMEWORKS if asked.peers else ALWAYS_THERE
    wanted = {OURS, *asked.only} if asked.only else set(there)
    able = set(there) if not WORKLOADS[workload].trains else set(there) - {"numpy"}
    return [name for name in there if name in wanted & able]


def run(framework: str, workload: str, peers: Path | None, seconds: float) -> Outcome:
    """Measure in a process of its own."""
    python = sys.executable
    if peers is not None and framework not in ALWAYS_THERE:
        python = str(peers / "bin" / "python")
    kept = {name: value for name, value in os.environ.items() if name not in TAKEN_OUT}
    try:
        done = subprocess.run(
            [python, "-m", "benchmarks.measure", framework, workload, str(seconds)],
            cwd=ROOT,
            env=kept | ADDED.get(framework, {}),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        return Outcome(framework, workload, error=f"no result in {PATIENCE} s")
    if done.returncode:
        printed = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return Outcome(framework, workload, error=printed[-1])
    return Outcome(**json.loads(done.stdout.splitlines()[-1]))


def better(one: Outcome, other: Outcome) -> Outcome:
    """The best times of two rounds; a failure in either stays."""
    if one.error or other.error:
        return one if one.error else other
    return replace(one, first=min(one.first, other.first), typical=min(one.typical, other.typical))


def measured(workload: str, asked: Namespace) -> list[Outcome]:
    """The outcomes of all frameworks."""
    best: dict[str, Outcome] = {}
    for _ in range(asked.rounds):
        for framework in participants(workload, asked):
            outcome = run(framework, workload, asked.peers, asked.seconds)
            if asked.json:
                with asked.json.open("a") as lines:
                    print(json.dumps(asdict(outcome)), file=lines)
            best[framework] = better(best.get(framework, outcome), outcome)
    return list(best.values())


def main() -> int:
    asked = arguments()
    print(HEAD)
    runs: list[list[Outcome]] = []
    for workload in asked.workloads or WORKLOADS:
        runs.append(measured(workload, asked))
        print(*rows(runs[-1]), "", sep="\n", flush=True)
    print(summary(runs))
    return 0 if all(map(ours_is_right, runs)) else 1


if __name__ == "__main__":
    sys.exit(main())
