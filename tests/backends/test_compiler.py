"""Compiling and loading: errors that quote the source, code that lives as long as it is held, threads, forks."""

import ctypes
import gc
import os
import subprocess
import sys
import threading

import pytest

from loomgrad.backends.cpu import compiler
from loomgrad.backends.cpu.compiler import (
    MachineCode,
    assembly_of,
    compile_and_load,
    compile_object,
    compiler_identity,
    load_object,
)
from loomgrad.errors import CompileError


def returning(value: int, name: str = "answer") -> str:
    return f"define i64 @{name}() {{\n  ret i64 {value}\n}}\n"


def call(code: MachineCode, name: str = "answer") -> int:
    result: int = ctypes.CFUNCTYPE(ctypes.c_int64)(code[name])()
    return result


def test_object_is_loaded_again() -> None:
    data = compile_object(returning(42))
    first, second = load_object(data, ["answer"]), load_object(data, ["answer"])
    assert call(first) == call(second) == 42
    assert first["answer"] != second["answer"]
    assert compile_object(returning(42)) == data


def test_constants_lie_near_their_code() -> None:
    """Code is position independent; the tables that it reads come with it, wherever it is loaded."""
    source = """
define double @pick(i64 %i) {
  %place = getelementptr double, ptr @table, i64 %i
  %value = load double, ptr %place
  ret double %value
}
@table = internal constant [3 x double] [double 1.5, double 2.5, double 3.5]
"""
    held = [compile_and_load(source, ["pick"]) for _ in range(20)]
    for code in held:
        pick = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(code["pick"])
        assert [pick(i) for i in range(3)] == [1.5, 2.5, 3.5]


def test_calls_of_given_and_of_library_functions() -> None:
    source = """
declare i64 @given(i64)
declare i32 @abs(i32)
define i64 @answer() {
  %a = call i64 @given(i64 20)
  %b = call i32 @abs(i32 -2)
  %c = zext i32 %b to i64
  %d = add i64 %a, %c
  ret i64 %d
}
"""
    given = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda value: value * 2)
    address = ctypes.cast(given, ctypes.c_void_p).value
    assert address is not None
    assert call(compile_and_load(source, ["answer"], {"given": address})) == 42
    with pytest.raises(CompileError, match="could not be linked"):
        compile_and_load(source, ["answer"])


def test_syntax_error_quotes_the_line() -> None:
    source = returning(1) + "define void @broken() {\n  %x = frobnicate i32 1\n  ret void\n}\n"
    with pytest.raises(CompileError, match="expected instruction opcode") as raised:
        compile_object(source)
    assert ">   %x = frobnicate i32 1" in str(raised.value)
    assert "define void @broken" in str(raised.value)


def test_ill_formed_code_is_refused_before_it_is_compiled() -> None:
    source = """
define i64 @answer(i1 %c) {
entry:
  br i1 %c, label %a, label %b
a:
  %x = add i64 1, 2
  br label %b
b:
  ret i64 %x
}
"""
    with pytest.raises(CompileError, match="does not dominate"):
        compile_object(source)


def test_assembly_text() -> None:
    assert "answer:" in assembly_of(returning(42))


def test_identity_names_processor_and_version() -> None:
    identity = compiler_identity()
    assert identity.startswith("llvm ")
    assert identity == compiler_identity()


def test_code_outlives_its_linker_and_memory_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "_LINKS_PER_LINKER", 16)
    data = compile_object(returning(42))
    held = [load_object(data, ["answer"]) for _ in range(40)]
    assert all(call(code) == 42 for code in held)

    def grown(times: int) -> int:
        for _ in range(times):
            load_object(data, ["answer"])
        gc.collect()
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1])

    if sys.platform == "linux":
        before = grown(300)
        assert grown(600) - before < 300  # pages: half a page for each that was loaded is too much
    assert all(call(code) == 42 for code in held)


def test_many_threads_compile() -> None:
    found: list[int] = []

    def work(number: int) -> None:
        for step in range(5):
            code = compile_and_load(returning(number * 100 + step), ["answer"])
            found.append(call(code))

    workers = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(found) == sorted(n * 100 + step for n in range(6) for step in range(5))


def run_program(body: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", body],
        capture_output=True,
        text=True,
        timeout=60,
        env=dict(os.environ),
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_the_device_is_imported_without_llvmlite_and_preloads_it() -> None:
    body = """
import sys, threading
import loomgrad.backends.cpu as cpu
assert "llvmlite" not in sys.modules and "numpy" not in sys.modules
cpu.make_device("CPU")
(thread,) = [t for t in threading.enumerate() if t.name == "loomgrad-preload"]
thread.join()
assert "llvmlite" in sys.modules and "numpy" not in sys.modules
print("loaded")
"""
    assert run_program(body) == "loaded"


def test_without_llvmlite_the_first_kernel_says_so() -> None:
    body = """
import sys
sys.modules["llvmlite"] = None  # as if it were not installed
from loomgrad.backends.cpu import compiler, make_device
make_device("CPU")
try:
    compiler.compile_object("")
except compiler.CompileError as error:
    print("pip install llvmlite" in str(error))
"""
    assert run_program(body) == "True"


def test_exit_during_the_preload() -> None:
    body = "import loomgrad.backends.cpu as cpu\ncpu.make_device('CPU')\nprint('bye')"
    for _ in range(3):
        assert run_program(body) == "bye"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_during_the_preload_and_while_others_compile() -> None:
    body = """
import os, threading, warnings
warnings.simplefilter("ignore")  # newer Pythons warn of any fork beside threads
from loomgrad.backends.cpu import compiler, make_device

make_device("CPU")
source = "define void @f() {\\n  ret void\\n}"
over = threading.Event()

def busy():
    while not over.is_set():
        compiler.compile_and_load(source, ["f"])

others = [threading.Thread(target=busy) for _ in range(2)]
for step in range(12):
    child = os.fork()
    if child == 0:
        compiler.compile_and_load(source, ["f"])
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    if step == 2:
        for other in others:
            other.start()
over.set()
for other in others:
    other.join()
print("done")
"""
    assert run_program(body) == "done"
