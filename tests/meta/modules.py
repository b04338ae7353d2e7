"""What the meta tests know about the source: its modules and what each of them imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "loomgrad"


@dataclass(frozen=True)
class Import:
    """One imported name: `module` is absolute, `inside` says that a function does it."""

    module: str
    line: int
    inside: bool


def package_files() -> dict[str, Path]:
    """Every module of the package by its dotted name; a package goes by the name of its folder."""
    files: dict[str, Path] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


def imports_of(name: str, path: Path) -> list[Import]:
    """What a module imports when it runs; what only a type checker reads is left out."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return list(_imports(ast.parse(path.read_text()), package, inside=False))


def _imports(node: ast.AST, package: str, *, inside: bool) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Import(alias.name, node.lineno, inside)
    elif isinstance(node, ast.ImportFrom):
        base = _absolute(node, package)
        for alias in node.names:
            yield Import(f"{base}.{alias.name}", node.lineno, inside)
    elif isinstance(node, ast.If) and _for_type_checkers(node):
        for statement in node.orelse:
            yield from _imports(statement, package, inside=inside)
    else:
        inside = inside or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for child in ast.iter_child_nodes(node):
            yield from _imports(child, package, inside=inside)


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if node.level == 0:
        return node.module or ""
    parts = package.split(".")
    parents = parts[: len(parts) - node.level + 1]
    return ".".join(parents + ([node.module] if node.module else []))


def _for_type_checkers(node: ast.If) -> bool:
    return "TYPE_CHECKING" in ast.unparse(node.test)


def longest_known(module: str, known: dict[str, Path]) -> str | None:
    """The module of ours that `import module` runs: `loomgrad.ir.uop.UOp` is `loomgrad.ir.uop`."""
    while module:
        if module in known:
            return module
        module = module.rpartition(".")[0]
    return None
