"""The worker pool: every chunk once, whatever the number of threads, callers and processors."""

import ctypes
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from loomgrad.backends.cpu.compiler import compile_and_load
from loomgrad.backends.cpu.pool import CHUNKS_PER_THREAD, Pool, pool
from loomgrad.config import Context

# `count` adds 1 to element i of its only argument for each i of its interval; `mark` counts its calls there.
KERNELS = compile_and_load(
    """
define void @count(ptr %arguments, i64 %lo, i64 %hi) {
  %counts = load ptr, ptr %arguments
  br label %head
head:
  %i = phi i64 [ %lo, %0 ], [ %next, %body ]
  %inside = icmp slt i64 %i, %hi
  br i1 %inside, label %body, label %exit
body:
  %address = getelementptr i32, ptr %counts, i64 %i
  %old = atomicrmw add ptr %address, i32 1 monotonic
  %next = add i64 %i, 1
  br label %head
exit:
  ret void
}

define void @mark(ptr %arguments, i64 %lo, i64 %hi) {
  %counts = load ptr, ptr %arguments
  %old = atomicrmw add ptr %counts, i32 1 monotonic
  ret void
}
""",
    ["count", "mark"],
)

linux = pytest.mark.skipif(sys.platform != "linux", reason="workers need a futex")


class Counts:
    """An array and its address as the argument block of a kernel."""

    def __init__(self, size: int) -> None:
        self.values = np.zeros(size, np.int32)
        self.block = (ctypes.c_void_p * 1)(self.values.ctypes.data)
        self.arguments = ctypes.addressof(self.block)


@pytest.fixture(autouse=True)
def no_workers_left() -> None:
    pool.stop()


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_every_index_once(threads: int) -> None:
    with Context(THREADS=threads):
        for extent in (0, 1, 2, 3, 7, 8, 9, 100, 1001):
            counts = Counts(extent + 1)
            for _ in range(50):
                pool.launch(KERNELS["count"], counts.arguments, extent)
            assert counts.values[:extent].tolist() == [50] * extent
            assert counts.values[extent] == 0


@linux
def test_many_launches_with_and_without_sleep_between() -> None:
    counts = Counts(64)
    with Context(THREADS=4):
        for number in range(5000):
            pool.launch(KERNELS["count"], counts.arguments, 64)
            if number % 500 == 0:
                time.sleep(0.002)  # long enough for the workers to sleep on the futex
    assert counts.values.tolist() == [5000] * 64


@linux
def test_chunks_by_setting() -> None:
    counts = Counts(1)
    with Context(THREADS=3):
        pool.launch(KERNELS["mark"], counts.arguments, 1000)
        assert counts.values[0] == 3 * CHUNKS_PER_THREAD
        pool.launch(KERNELS["mark"], counts.arguments, 2)
        assert counts.values[0] == 3 * CHUNKS_PER_THREAD + 2
    with Context(THREADS=2):  # three threads exist now: no more chunks than two of them can take
        pool.launch(KERNELS["mark"], counts.arguments, 1000)
        assert counts.values[0] == 3 * CHUNKS_PER_THREAD + 4
    with Context(THREADS=1):
        pool.launch(KERNELS["mark"], counts.arguments, 1000)
        assert counts.values[0] == 3 * CHUNKS_PER_THREAD + 5


@linux
def test_two_python_threads_at_once() -> None:
    size, launches = 257, 3000
    mine = [Counts(size) for _ in range(3)]

    def run(counts: Counts) -> None:
        with Context(THREADS=3):
            for _ in range(launches):
                pool.launch(KERNELS["count"], counts.arguments, size)

    callers = [threading.Thread(target=run, args=(counts,)) for counts in mine]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    for counts in mine:
        assert counts.values.tolist() == [launches] * size


@linux
def test_processors_follow_the_affinity_mask() -> None:
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert Pool().chunks() == 1
    finally:
        os.sched_setaffinity(0, allowed)
    pool_of_all = Pool()
    assert 1 <= pool_of_all.chunks() <= len(allowed) * CHUNKS_PER_THREAD
    pool_of_all.stop()


PROGRAM = """
import ctypes, os, sys, threading
from loomgrad.backends.cpu.compiler import compile_and_load
from loomgrad.backends.cpu.pool import pool

code = compile_and_load('''
define void @add(ptr %arguments, i64 %lo, i64 %hi) {
  %size = sub i64 %hi, %lo
  %total = load ptr, ptr %arguments
  %old = atomicrmw add ptr %total, i64 %size monotonic
  ret void
}''', ["add"])
total = ctypes.c_int64()
block = (ctypes.c_void_p * 1)(ctypes.addressof(total))

def launch(times):
    total.value = 0
    for _ in range(times):
        pool.launch(code["add"], ctypes.addressof(block), 100)
    assert total.value == 100 * times, total.value

def threads():
    return len(os.listdir(f"/proc/{os.getpid()}/task"))
"""


def run_program(body: str, *, prefix: tuple[str, ...] = (), **settings: str) -> str:
    """The output of a fresh interpreter that runs PROGRAM and `body`, and ends as it should."""
    done = subprocess.run(
        [*prefix, sys.executable, "-c", PROGRAM + body],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **settings},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()


@linux
def test_stop_and_start_again() -> None:
    body = """
import time

def settles_at(count):
    until = time.monotonic() + 10  # a thread that was joined may be listed for another moment
    while threads() != count and time.monotonic() < until:
        time.sleep(0.001)
    return threads() == count

for _ in range(20):
    launch(10)
    assert threads() == 5
    pool.stop()
    assert settles_at(1)
print("done")
"""
    assert run_program(body, THREADS="5") == "done"


@linux
def test_fork_gives_the_child_workers_of_its_own() -> None:
    body = """
launch(100)
before = threads()
child = os.fork()
if child == 0:
    assert threads() == 1
    launch(100)
    assert threads() == before, threads()
    os._exit(7)
status = os.waitpid(child, 0)[1]
assert os.waitstatus_to_exitcode(status) == 7
launch(100)
print(before)
"""
    assert run_program(body, THREADS="3") == "3"


@linux
def test_fork_while_another_thread_launches() -> None:
    body = """
import warnings
warnings.simplefilter("ignore")  # newer Pythons warn of any fork beside threads
over = threading.Event()

def busy():
    while not over.is_set():
        pool.launch(code["add"], ctypes.addressof(block), 100)

other = threading.Thread(target=busy)
other.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        launch(50)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
over.set()
other.join()
print("done")
"""
    assert run_program(body, THREADS="2") == "done"


@linux
def test_one_processor_means_one_thread() -> None:
    body = "launch(1000)\nprint(threads())"
    one = str(min(os.sched_getaffinity(0)))
    assert run_program(body, prefix=("taskset", "-c", one)) == "1"
    assert run_program(body, THREADS="1") == "1"


@linux
def test_more_threads_than_processors() -> None:
    one = str(min(os.sched_getaffinity(0)))
    body = "launch(300)\nprint(threads())"
    assert run_program(body, prefix=("taskset", "-c", one), THREADS="4") == "4"


@linux
def test_exit_with_a_daemon_thread_in_the_middle() -> None:
    body = """
def busy():
    while True:
        pool.launch(code["add"], ctypes.addressof(block), 100)

threading.Thread(target=busy, daemon=True).start()
print("bye")
"""
    assert run_program(body, THREADS="2") == "bye"
