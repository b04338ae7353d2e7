"""Targets read from a made-up machine, and from this one."""

from __future__ import annotations

import dataclasses
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from loomgrad.config import Context
from loomgrad.dtype import dtypes
from loomgrad.target import (
    DEFAULT_CACHES,
    DEFAULT_HERTZ,
    Target,
    available_processors,
    describe_cpu,
    host_target,
    parse_size,
)

AVX2_MACHINE = """processor\t: 0
model name\t: Some Processor
cpu MHz\t\t: 1800.000
flags\t\t: fpu sse sse2 avx fma f16c avx2 bmi2

processor\t: 1
cpu MHz\t\t: 3000.000
flags\t\t: fpu sse
"""


def machine(
    root: Path, cpuinfo: str, caches: tuple[tuple[str, str, str], ...] = (), kilohertz: str = ""
) -> Path:
    """Files of a made-up machine below `root`."""
    (root / "proc").mkdir()
    (root / "proc/cpuinfo").write_text(cpuinfo)
    cpu = root / "sys/devices/system/cpu/cpu0"
    for number, (level, kind, size) in enumerate(caches):
        index = cpu / f"cache/index{number}"
        index.mkdir(parents=True)
        (index / "level").write_text(level + "\n")
        (index / "type").write_text(kind + "\n")
        (index / "size").write_text(size + "\n")
    if kilohertz:
        (cpu / "cpufreq").mkdir(parents=True)
        (cpu / "cpufreq/cpuinfo_max_freq").write_text(kilohertz + "\n")
    return root


def test_an_avx2_machine(tmp_path: Path) -> None:
    caches = (
        ("1", "Data", "48K"),
        ("1", "Instruction", "64K"),
        ("2", "Unified", "1280K"),
        ("3", "Unified", "24M"),
    )
    target = describe_cpu(machine(tmp_path, AVX2_MACHINE, caches, "4000000"), cores=4)
    assert target == Target(
        name="CPU",
        vector_bits=256,
        vector_registers=16,
        cores=4,
        l1_bytes=48 << 10,
        l2_bytes=1280 << 10,
        l3_bytes=24 << 20,
        memory_bandwidth=40.0 * (1 << 30),
        core_flops=32 * 4e9,
        launch_overhead=1e-6,
        has_fma=True,
        max_buffers=255,
        features=("avx", "avx2", "f16c", "fma"),
    )
    assert target.peak_flops == 4 * 32 * 4e9


# fmt: off
FEATURES = [
    ("flags: avx avx2 fma avx512f avx512vl avx512dq", 512, 32, True),
    ("flags: avx avx2 fma avx512f",                   256, 16, True),
    ("flags: avx avx2",                               256, 16, False),
    ("flags: avx",                                    256, 16, False),
    ("flags: sse sse2",                               128, 16, False),
    ("Features: fp asimd crc32",                      128, 32, True),
    ("",                                              128, 16, False),
    ("no colon at all",                               128, 16, False),
]
# fmt: on


@pytest.mark.parametrize(("cpuinfo", "bits", "registers", "has_fma"), FEATURES)
def test_vector_unit(
    tmp_path: Path, cpuinfo: str, bits: int, registers: int, has_fma: bool
) -> None:
    target = describe_cpu(machine(tmp_path, cpuinfo), cores=1)
    assert (target.vector_bits, target.vector_registers) == (bits, registers)
    assert target.has_fma is has_fma


def test_clock_rate_falls_back(tmp_path: Path) -> None:
    running = describe_cpu(machine(tmp_path, AVX2_MACHINE, kilohertz="0"), cores=1)
    assert running.core_flops == 32 * 1.8e9
    (tmp_path / "proc/cpuinfo").write_text(AVX2_MACHINE.replace("1800.000", "fast"))
    assert describe_cpu(tmp_path, cores=1).core_flops == 32 * DEFAULT_HERTZ
    (tmp_path / "proc/cpuinfo").write_text(AVX2_MACHINE.replace("1800.000", "0.0"))
    assert describe_cpu(tmp_path, cores=1).core_flops == 32 * DEFAULT_HERTZ
    assert describe_cpu(tmp_path / "nowhere", cores=1).core_flops == 8 * DEFAULT_HERTZ


def test_unknown_machine_has_sane_caches(tmp_path: Path) -> None:
    target = describe_cpu(machine(tmp_path, "", (("2", "Unified", "what"),)), cores=1)
    caches = (target.l1_bytes, target.l2_bytes, target.l3_bytes)
    assert caches == tuple(DEFAULT_CACHES.values())


def test_parse_size() -> None:
    assert [parse_size(text) for text in ("512", "32K", "1M", "2G")] == [
        512,
        32768,
        1 << 20,
        2 << 30,
    ]
    assert [parse_size(text) for text in ("", "K", "-1K", "0K", "many")] == [None] * 5


def test_vector_width() -> None:
    target = host_target()
    lanes = target.vector_bits // 8
    assert target.vector_width(dtypes.int8) == target.vector_width(dtypes.bool) == lanes
    assert target.vector_width(dtypes.float16) == lanes // 2
    assert target.vector_width(dtypes.float32) == lanes // 4
    assert target.vector_width(dtypes.weakint) == target.vector_width(dtypes.int32)
    assert target.vector_width(dtypes.float64) == lanes // 8
    assert target.vector_width(dtypes.void) == 1
    narrow = dataclasses.replace(target, vector_bits=32)
    assert narrow.vector_width(dtypes.float64) == 1


def test_the_host_and_its_threads() -> None:
    found = host_target()
    assert found.cores == available_processors() >= 1
    assert host_target() is found
    with Context(THREADS=3):
        assert host_target() == dataclasses.replace(found, cores=3)
    assert host_target() is found
    assert found.l1_bytes <= found.l2_bytes <= found.l3_bytes
    assert pickle.loads(pickle.dumps(found)) == found
    assert hash(found) == hash(dataclasses.replace(found))
    assert dataclasses.replace(found, has_fma=not found.has_fma) != found


def test_cores_respect_affinity_and_the_share_of_a_container(tmp_path: Path) -> None:
    allowed = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    quota = tmp_path / "cpu.max"
    for text, expected in (("max 100000", allowed), ("50000 100000", 1), ("nonsense", allowed)):
        quota.write_text(text + "\n")
        assert available_processors(quota) == expected
    assert available_processors(tmp_path / "missing") == allowed


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has affinity masks")
def test_affinity_mask_of_a_process() -> None:
    one = min(os.sched_getaffinity(0))
    code = (
        f"import os; os.sched_setaffinity(0, {{{one}}}); from loomgrad.target import host_target; "
        "assert host_target().cores == 1"
    )
    environment = {name: value for name, value in os.environ.items() if "THREADS" not in name}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
