"""LLVM IR text to machine code in this process, through llvmlite.

llvmlite is imported at first use, or earlier by the thread that `preload` starts.  Compiling and loading are
apart, so that an object can be kept on disk: loading one takes a fraction of a millisecond.

All use of LLVM goes through one lock, which is also held across `fork`: a child never inherits LLVM in the
middle of something.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import threading
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from loomgrad.errors import CompileError

if TYPE_CHECKING:
    from llvmlite import binding

_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )

# LLVM keeps some kilobytes of every library that was ever linked by an LLJIT until that LLJIT goes, so after this
# many links the next one starts; each goes with the last of its libraries.
_LINKS_PER_LINKER = 256


class MachineCode:
    """Loaded machine code: `code[name]` is the address of a function, good for as long as `code` lives."""

    __slots__ = ("__weakref__", "_addresses")

    def __init__(self, addresses: Mapping[str, int]) -> None:
        self._addresses = addresses

    def __getitem__(self, name: str) -> int:
        return self._addresses[name]


@dataclass
class _Linker:
    """An LLJIT and how many libraries it has linked."""

    engine: binding.LLJIT
    links: int = 0


@dataclass
class _Session:
    """What compiling needs and is made once."""

    machine: binding.TargetMachine
    builder: binding.PassBuilder
    passes: binding.FunctionPassManager
    identity: str
    linker: _Linker = field(init=False)

    def __post_init__(self) -> None:
        self.linker = _new_linker()


def compile_object(source: str) -> bytes:
    """The object file of a module in LLVM IR.

    Raises: CompileError, which quotes the line, if LLVM does not accept the text.
    """
    with _lock:
        machine_code: bytes = _session().machine.emit_object(_optimised(source))
    return machine_code


def assembly_of(source: str) -> str:
    """The assembly text that `compile_object` would encode."""
    with _lock:
        text: str = _session().machine.emit_assembly(_optimised(source))
    return text


def load_object(
    data: bytes, names: Iterable[str], imports: Mapping[str, int] | None = None
) -> MachineCode:
    """Load an object file; `names` are the functions wanted, `imports` the addresses of what it calls.

    What it calls beyond `imports` (say memset) is taken from the libraries of this process.
    """
    with _lock:
        return _link(data, tuple(names), imports or {})


def compile_and_load(
    source: str, names: Iterable[str], imports: Mapping[str, int] | None = None
) -> MachineCode:
    """`load_object` of `compile_object`."""
    return load_object(compile_object(source), names, imports)


def compiler_identity() -> str:
    """What besides its source decides the object of a kernel; a part of the key of every cache of objects."""
    with _lock:
        return _session().identity


def preload() -> None:
    """Import llvmlite and set LLVM up in the background.

    Not a daemon thread: the interpreter waits for it at exit rather than stop in the middle of the import.
    """
    threading.Thread(target=_preload, name="loomgrad-preload").start()


def _preload() -> None:
    with contextlib.suppress(CompileError):  # the first kernel will say it to somebody who listens
        compiler_identity()


@functools.cache
def _session() -> _Session:
    try:
        from llvmlite import binding
    except (ImportError, OSError) as problem:
        raise CompileError(
            f"the CPU device needs llvmlite, which does not load here: {problem}",
            fix="pip install llvmlite",
        ) from problem
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = _host_machine()
    builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(2))
    version = ".".join(map(str, binding.llvm_version_info))
    identity = f"llvm {version} {machine.triple} {_host_name()} {_host_features()} {_PASSES}"
    return _Session(machine, builder, _pass_list(), identity)


# The IR is vector code whose invariant and repeated instructions were never written twice.  What is left: registers
# for accumulators, simpler comparisons and selections, branches.
_PASSES = ("sroa", "instruction_combine", "simplify_cfg")


def _pass_list() -> binding.FunctionPassManager:
    from llvmlite import binding

    passes = binding.create_new_function_pass_manager()
    for name in _PASSES:
        getattr(passes, f"add_{name}_pass")()
    return passes


def _host_machine() -> binding.TargetMachine:
    from llvmlite import binding

    return binding.Target.from_default_triple().create_target_machine(
        cpu=_host_name(),
        features=_host_features(),
        opt=2,
        reloc="pic",
        codemodel="small",
        jit=True,
    )


def _host_name() -> str:
    from llvmlite import binding

    name: str = binding.get_host_cpu_name()
    return name


@functools.cache
def _host_features() -> str:
    from llvmlite import binding

    features: str = binding.get_host_cpu_features().flatten()
    return features


def _optimised(source: str) -> binding.ModuleRef:
    from llvmlite import binding

    session = _session()
    try:
        module = binding.parse_assembly(source)
        module.triple = session.machine.triple
        module.data_layout = str(session.machine.target_data)
        module.verify()
    except RuntimeError as problem:
        raise _refusal(source, str(problem)) from None
    for function in module.functions:
        if not function.is_declaration:
            session.passes.run(function, session.builder)
    return module


def _refusal(source: str, problem: str) -> CompileError:
    """An error that quotes the lines around the one that LLVM names."""
    lines = source.splitlines()
    context = ""
    if (found := re.search(r"<string>:(\d+):\d+", problem)) is not None:
        line = int(found[1]) - 1
        around = range(max(line - 3, 0), min(line + 2, len(lines)))
        context = "\n" + "\n".join(f"{'>' if i == line else ' '} {lines[i]}" for i in around)
    return CompileError(f"LLVM refused a kernel: {problem.strip()}{context}")


def _new_linker() -> _Linker:
    from llvmlite import binding

    return _Linker(
        binding.create_lljit_compiler(_host_machine(), use_jit_link=True, suppress_errors=True)
    )


def _link(data: bytes, names: tuple[str, ...], imports: Mapping[str, int]) -> MachineCode:
    try:
        linker, tracker = _try_link(data, names, imports, whole_process=False)
    except RuntimeError:  # it needs a symbol; to look in all libraries doubles the time
        try:
            linker, tracker = _try_link(data, names, imports, whole_process=True)
        except RuntimeError as problem:
            raise CompileError(f"a kernel could not be linked: {problem}") from None
    code = MachineCode({name: tracker[name] for name in names})
    weakref.finalize(code, _unload, tracker, linker).atexit = False
    return code


def _try_link(
    data: bytes, names: tuple[str, ...], imports: Mapping[str, int], *, whole_process: bool
) -> tuple[_Linker, binding.ResourceTracker]:
    from llvmlite import binding

    session = _session()
    if session.linker.links >= _LINKS_PER_LINKER:
        session.linker = _new_linker()
    linker = session.linker
    linker.links += 1
    library = binding.JITLibraryBuilder().add_object_img(data)
    if whole_process:
        library.add_current_process()
    for name, address in imports.items():
        library.import_symbol(name, address)
    for name in names:
        library.export_symbol(name)
    return linker, library.link(linker.engine, f"library{linker.links}")


def _unload(tracker: binding.ResourceTracker, linker: _Linker) -> None:
    """Free the code; `linker` is here because it must outlive its libraries."""
    with _lock:
        tracker.close()
