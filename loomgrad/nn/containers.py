"""Modules that hold modules in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Self

from loomgrad.errors import UnsupportedError
from loomgrad.nn.module import Module
from loomgrad.tensor import Tensor


class ModuleList(Module):
    """A list of modules, for a `forward` that says how they are used.  A plain list does as well."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        for module in modules:
            self.append(module)

    def append(self, module: Module) -> Self:
        """One more at the end."""
        self._hold(str(len(self)), module)
        return self

    def _hold(self, name: str, module: object) -> None:
        if not isinstance(module, Module):
            raise UnsupportedError(
                f"{type(self).__name__} holds modules, not a {type(module).__name__}",
                fix="use a layer such as nn.ReLU(), or write a Module with a method forward",
            )
        vars(self)[name] = module

    def __iter__(self) -> Iterator[Module]:
        return self.children()

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, place: int) -> Module:
        return list(self)[place]


class Sequential(ModuleList):
    """One module after the other: `Sequential(Linear(4, 8), ReLU(), Linear(8, 2))`, or a dict of them by name."""

    def __init__(self, *modules: Module | Mapping[str, Module]) -> None:
        super().__init__()
        for place, module in enumerate(modules):
            named = module if isinstance(module, Mapping) else {str(place): module}
            for name, inner in named.items():
                self._hold(name, inner)

    def forward(self, x: Tensor) -> Tensor:
        for module in self:
            x = module(x)
        return x
