"""What a machine can do, as plain data: passes and cost models see a Target, never a backend."""

from __future__ import annotations

import functools
import math
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from loomgrad.config import THREADS
from loomgrad.dtype import DType, commit_dtype

KIB, GIB = 1 << 10, 1 << 30


@dataclass(frozen=True, slots=True)
class Target:
    """A machine.  Two equal Targets get the same code, so a Target is part of every cache key.

    `vector_bits`, `vector_registers`: the registers of one core.  `cores`: how many threads may
    run.  `l1_bytes`, `l2_bytes` belong to a core, `l3_bytes` to all.  `memory_bandwidth`: bytes per
    second of all cores together.  `core_flops`: float32 operations per second of one core, a fused
    multiply-add counting as two.  `launch_overhead`: seconds to start a kernel from Python.
    `max_buffers`: how many buffers a kernel may have.  `features`: names of instruction sets.
    """

    name: str
    vector_bits: int
    vector_registers: int
    cores: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    memory_bandwidth: float
    core_flops: float
    launch_overhead: float
    has_fma: bool
    max_buffers: int
    features: tuple[str, ...]

    def vector_width(self, dtype: DType) -> int:
        """How many values of `dtype` a vector register holds; a weak dtype counts as committed."""
        bits = commit_dtype(dtype).bits
        return max(1, self.vector_bits // bits) if bits else 1

    @property
    def peak_flops(self) -> float:
        """float32 operations per second of all cores."""
        return self.cores * self.core_flops


@dataclass(frozen=True, slots=True)
class VectorUnit:
    """Vector registers, and how many bits of fused multiply-adds a core starts per cycle."""

    bits: int
    registers: int
    fma_bits_per_cycle: int


# fmt: off
# The first row whose features the processor has; the empty row holds for any 64-bit processor.
VECTOR_UNITS = (
    (("avx512f", "avx512vl", "avx512dq"), VectorUnit(512, 32, 512)),
    (("avx2", "fma"),                     VectorUnit(256, 16, 512)),
    (("avx",),                            VectorUnit(256, 16, 256)),
    (("asimd",),                          VectorUnit(128, 32, 256)),
    ((),                                  VectorUnit(128, 16, 128)),
)
# fmt: on
FEATURES = ("asimd", "avx", "avx2", "avx512_bf16", "avx512dq", "avx512f", "avx512vl", "f16c", "fma")
ALWAYS_FMA = "asimd"

# Where the system says nothing: a small machine of about 2015.
DEFAULT_CACHES = {1: 32 * KIB, 2: 256 * KIB, 3: 8192 * KIB}
DEFAULT_HERTZ = 2.5e9
CORE_BANDWIDTH = 12.0 * GIB  # what one core gets from memory
SOCKET_BANDWIDTH = 40.0 * GIB  # where more cores get no more
LAUNCH_OVERHEAD = 1e-6
CPU_MAX_BUFFERS = 255


def host_target() -> Target:
    """The CPU of this machine, found at first use; the setting THREADS overrides its cores."""
    return _with_cores(THREADS.value)


@functools.cache
def _with_cores(threads: int) -> Target:
    return replace(_host(), cores=threads) if threads > 0 else _host()


@functools.cache
def _host() -> Target:
    return describe_cpu(Path("/"), cores=available_processors())


def describe_cpu(root: Path, *, cores: int) -> Target:
    """The CPU that the files below `root` (proc/cpuinfo, sys/devices) describe."""
    cpuinfo = read_cpuinfo(root / "proc/cpuinfo")
    features = frozenset((cpuinfo.get("flags") or cpuinfo.get("Features") or "").split())
    unit = next(unit for needed, unit in VECTOR_UNITS if features.issuperset(needed))
    caches = DEFAULT_CACHES | read_caches(root / "sys/devices/system/cpu/cpu0/cache")
    has_fma = "fma" in features or ALWAYS_FMA in features
    return Target(
        name="CPU",
        vector_bits=unit.bits,
        vector_registers=unit.registers,
        cores=cores,
        l1_bytes=caches[1],
        l2_bytes=caches[2],
        l3_bytes=caches[3],
        memory_bandwidth=min(cores * CORE_BANDWIDTH, SOCKET_BANDWIDTH),
        core_flops=unit.fma_bits_per_cycle / 32 * 2 * clock_rate(root, cpuinfo),
        launch_overhead=LAUNCH_OVERHEAD,
        has_fma=has_fma,
        max_buffers=CPU_MAX_BUFFERS,
        features=tuple(name for name in FEATURES if name in features),
    )


def read_cpuinfo(path: Path) -> dict[str, str]:
    """The fields of the first processor; empty where there is no such file."""
    fields: dict[str, str] = {}
    for line in read_text(path).partition("\n\n")[0].splitlines():
        name, _, value = line.partition(":")
        fields[name.strip()] = value.strip()
    return fields


def read_caches(folder: Path) -> dict[int, int]:
    """Bytes of each level of data cache that the system knows about."""
    found: dict[int, int] = {}
    for index in sorted(folder.glob("index*")):
        level, kind, size = (read_text(index / name).strip() for name in ("level", "type", "size"))
        nbytes = parse_size(size)
        if level.isdecimal() and kind != "Instruction" and nbytes is not None:
            found[int(level)] = nbytes
    return found


def parse_size(text: str) -> int | None:
    """The bytes of a size such as 32K, 32768; None if the text is no size."""
    units = {"K": KIB, "M": KIB * KIB, "G": GIB}
    digits, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    return int(digits) * unit if digits.isdecimal() and int(digits) > 0 else None


def clock_rate(root: Path, cpuinfo: dict[str, str]) -> float:
    """Cycles per second: the most the processor is made for, else what it runs at now."""
    kilohertz = read_text(root / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq").strip()
    if kilohertz.isdecimal() and int(kilohertz) > 0:
        return int(kilohertz) * 1e3
    try:
        megahertz = float(cpuinfo.get("cpu MHz", ""))
    except ValueError:
        return DEFAULT_HERTZ
    return megahertz * 1e6 if 100 < megahertz < 10_000 else DEFAULT_HERTZ


def read_text(path: Path) -> str:
    """The text of a small file of the system; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def available_processors(quota_file: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """How many processors this process may use: its affinity mask, and its container's share."""
    if sys.platform != "linux":
        return os.cpu_count() or 1
    allowed = len(os.sched_getaffinity(0))
    quota, _, period = read_text(quota_file).strip().partition(" ")
    if quota.isdecimal() and period.isdecimal() and int(period) > 0:
        return max(1, min(allowed, math.ceil(int(quota) / int(period))))
    return allowed
