"""The devices of this process, opened by name at first use.

A backend is found in the table below, among those registered by a program, or through the entry
points `loomgrad.backends` of an installed package (name = "package.module", as in the table).
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from loomgrad.config import DEVICE
from loomgrad.errors import DeviceError, did_you_mean

if TYPE_CHECKING:
    from loomgrad.memory.lru import LRUAllocator
    from loomgrad.target import Target

# Kind of device -> module with a function make_device(name).
BUILT_IN = {"CPU": "loomgrad.backends.cpu"}
ENTRY_POINTS = "loomgrad.backends"


class DeviceBackend(Protocol):
    """An open device."""

    @property
    def name(self) -> str:
        """The canonical name, e.g. "CPU" or "CPU:1"."""
        ...

    @property
    def target(self) -> Target:
        """What it can do."""
        ...

    @property
    def allocator(self) -> LRUAllocator:
        """Its memory."""
        ...

    def synchronize(self) -> None:
        """Wait until all work given to the device is done."""
        ...


MakeDevice = Callable[[str], DeviceBackend]


class DeviceRegistry:
    """Devices by name: `Device["CPU"]`, `Device["cpu:1"]`; `Device.DEFAULT` is a name."""

    def __init__(self) -> None:
        self._makers: dict[str, MakeDevice] = {}
        self._open: dict[str, DeviceBackend] = {}
        self._lock = threading.RLock()

    @property
    def DEFAULT(self) -> str:
        """The canonical name of the device where tensors are made; the setting DEVICE."""
        return canonical_name(DEVICE.value)

    @DEFAULT.setter
    def DEFAULT(self, name: str) -> None:
        DEVICE.change(canonical_name(name))

    def __getitem__(self, name: str) -> DeviceBackend:
        """The device of this name, opened if it is not yet.  Raises: DeviceError."""
        if (found := self._open.get(name)) is not None:
            return found
        canonical = canonical_name(name)
        with self._lock:
            if canonical not in self._open:
                self._open[canonical] = self._maker(canonical.partition(":")[0])(canonical)
            return self._open[canonical]

    def canonicalize(self, name: str | None = None) -> str:
        """The one spelling of a name: "cpu:0" is "CPU"; None is the default device."""
        return self.DEFAULT if name is None else canonical_name(name)

    def register(self, kind: str, make_device: MakeDevice) -> None:
        """Make `Device["KIND"]`, `Device["KIND:1"]` ... the devices that `make_device(name)` gives."""
        with self._lock:
            self._makers[kind.upper()] = make_device
            self._forget(kind.upper())

    def unregister(self, kind: str) -> None:
        """Undo `register`; Buffers on such devices stay valid."""
        with self._lock:
            self._makers.pop(kind.upper(), None)
            self._forget(kind.upper())

    def opened(self) -> list[str]:
        """The names of the open devices."""
        return sorted(self._open)

    def known(self) -> list[str]:
        """The kinds of device that can be asked for."""
        return sorted({*BUILT_IN, *self._makers, *_installed_backends()})

    def _forget(self, kind: str) -> None:
        for name in [name for name in self._open if name.partition(":")[0] == kind]:
            del self._open[name]

    def _maker(self, kind: str) -> MakeDevice:
        if (registered := self._makers.get(kind)) is not None:
            return registered
        module_name = BUILT_IN.get(kind) or _installed_backends().get(kind)
        if module_name is None:
            known = ", ".join(self.known())
            near = did_you_mean(kind, self.known())
            fix = "" if known in near else near
            raise DeviceError(f"there is no device {kind}", fix=fix, known=known)
        try:
            make_device: MakeDevice = importlib.import_module(module_name).make_device
        except ImportError as error:
            raise DeviceError(f"device {kind} cannot be used here: {error}") from error
        return make_device


def canonical_name(name: str) -> str:
    """The one spelling of the name of a device.  Raises: DeviceError on text that is no name."""
    kind, colon, index = name.strip().upper().partition(":")
    if not kind.isidentifier() or (colon and not (index.isascii() and index.isdigit())):
        raise DeviceError(f"{name!r} is not the name of a device", fix='write "CPU" or "CPU:1"')
    return f"{kind}:{int(index)}" if index and int(index) > 0 else kind


def _installed_backends() -> dict[str, str]:
    """Backends of other packages: kind -> module.

    The module that finds them takes longer to import than all of loomgrad, so it is imported here.
    """
    metadata = importlib.import_module("importlib.metadata")
    return {point.name.upper(): point.module for point in metadata.entry_points(group=ENTRY_POINTS)}


Device = DeviceRegistry()
