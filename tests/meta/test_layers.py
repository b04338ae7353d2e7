"""Imports point one way, stand at the top, and never go in a circle."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

from tests.meta.modules import Import, imports_of, longest_known, package_files

LAYERS = (
    ("config", "errors", "dtype", "target", "memory"),
    ("ir",),
    ("rules",),
    ("schedule", "codegen"),
    ("pipeline",),
    ("backends",),
    ("engine",),
    ("tensor",),
    ("capture", "transforms", "nn"),
    ("cuda", "functions", "optim", "utils"),  # where programs written for PyTorch look
    ("viz",),
    ("cli", "__main__"),
)
INSIDE_IR = (
    ("opcode", "weak_table"),
    ("args",),
    ("shape", "bounds", "fold"),
    ("ops",),
    ("vocabulary",),
    ("uop",),
    # an empty slot that `rules` fills, so it may stand below what asks for simpler indices
    ("simplify",),
    ("movement",),
    ("pattern",),
    ("matcher",),
    ("rewrite",),
    ("estimate", "evaluate", "verify", "text"),
)
# `import loomgrad` must stay quick, so these are imported by the function that needs them.
HEAVY = ("numpy", "ml_dtypes", "llvmlite", "tqdm")
# The command imports what a subcommand needs when it runs.
LAZY_MODULES = ("loomgrad.cli",)

FILES = package_files()
IMPORTS = {name: imports_of(name, path) for name, path in FILES.items()}


def rank(name: str) -> tuple[int, int]:
    """The layer of a module, and its place inside `ir`."""
    parts = name.split(".")
    if parts == ["loomgrad"]:
        return (len(LAYERS), 0)
    layer = place(parts[1], LAYERS)
    assert layer is not None, f"say in LAYERS where {name} belongs"
    if parts[1] != "ir":
        return (layer, 0)
    if len(parts) == 2:
        return (layer, len(INSIDE_IR))
    inner = place(parts[2], INSIDE_IR)
    return (layer, helper_place(name) if inner is None else inner)


def place(module: str, order: tuple[tuple[str, ...], ...]) -> int | None:
    return next((index for index, names in enumerate(order) if module in names), None)


def helper_place(name: str) -> int:
    """A module of `ir` that the order does not name stands as low as its imports let it."""
    return max(
        (
            rank(target)[1]
            for found in IMPORTS[name]
            if (target := ours(found)) is not None and target.startswith("loomgrad.ir.")
        ),
        default=0,
    )


def ours(found: Import) -> str | None:
    return longest_known(found.module, FILES)


def test_imports_point_down() -> None:
    wrong = [
        f"{name}:{found.line} imports {target}"
        for name, imports in IMPORTS.items()
        for found in imports
        if (target := ours(found)) is not None and target != name
        if rank(target) > rank(name) and name not in LAZY_MODULES
    ]
    assert not wrong, "\n".join(wrong)


def test_imports_go_in_no_circle() -> None:
    graph = {
        name: {target for found in imports if (target := ours(found)) is not None} - {name}
        for name, imports in IMPORTS.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def test_imports_inside_functions_are_heavy_ones() -> None:
    wrong = [
        f"{name}:{found.line} imports {found.module} inside a function"
        for name, imports in IMPORTS.items()
        for found in imports
        if found.inside and name not in LAZY_MODULES
        if found.module.split(".")[0] not in HEAVY
    ]
    assert not wrong, "\n".join(wrong)


def test_heavy_imports_stand_inside_functions() -> None:
    wrong = [
        f"{name}:{found.line} imports {found.module} at the top"
        for name, imports in IMPORTS.items()
        for found in imports
        if not found.inside and found.module.split(".")[0] in HEAVY
    ]
    assert not wrong, "\n".join(wrong)


def test_no_module_bears_the_name_of_a_public_function() -> None:
    """`loomgrad.jit` is the function, always."""
    assert not {"loomgrad.jit", "loomgrad.grad", "loomgrad.vmap"} & set(FILES)
