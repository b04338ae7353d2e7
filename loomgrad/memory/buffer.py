"""A Buffer: flat storage on one device, allocated at first use and freed by reference counting."""

from __future__ import annotations

import pickle
import threading
import weakref
from typing import TYPE_CHECKING

from loomgrad.dtype import DType
from loomgrad.errors import DTypeError
from loomgrad.memory.allocator import Block, HostArray, host_array
from loomgrad.memory.device import Device
from loomgrad.memory.holders import lease

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

    from loomgrad.memory.lru import LRUAllocator

EMPTY = memoryview(b"")
# Two threads that use a Buffer first must get the same storage.
_allocating = threading.RLock()


class Storage:
    """An allocated block.  When the last reference goes, its lease gives the block back."""

    __slots__ = ("__weakref__", "_exported", "allocator", "block")

    def __init__(self, allocator: LRUAllocator, nbytes: int, label: str) -> None:
        self.allocator = allocator
        self.block: Block = allocator.alloc(nbytes)
        self._exported: weakref.ref[HostArray] | None = None
        lease(self, allocator, self.block, label)

    def export(self) -> HostArray:
        """The block as an array of this process; it holds the storage, and views of it hold it."""
        array = self.exported()
        if array is None:
            array = host_array(self.block.address, self.block.nbytes)
            array.storage = self  # type: ignore[attr-defined]  # arrays of ctypes have a __dict__
            self._exported = weakref.ref(array)
        return array

    def exported(self) -> HostArray | None:
        """What `export` gave last, if anybody still holds it."""
        return None if self._exported is None else self._exported()


class Buffer:
    """`size` elements of `dtype` on `device`.

    A view shares the storage of its `base`, from `offset` bytes on.  `label` says in reports what
    the memory is for.
    """

    __slots__ = (
        "__weakref__",
        "_storage",
        "base",
        "device",
        "dtype",
        "label",
        "nbytes",
        "offset",
        "size",
    )

    def __init__(self, device: str, size: int, dtype: DType, *, label: str = "") -> None:
        if dtype.itemsize == 0:
            raise DTypeError(f"dtype {dtype.name} has no storage, so there is no Buffer of it")
        self.device = Device.canonicalize(device)
        self.size = size
        self.dtype = dtype
        self.nbytes = size * dtype.itemsize
        self.offset = 0
        self.base: Buffer | None = None
        self.label = label or f"{dtype.name}[{size}]"
        self._storage: Storage | None = None

    def __repr__(self) -> str:
        state = "" if self.is_allocated else " unallocated"
        view = "" if self.base is None else f" view+{self.offset}"
        return f"<Buffer {self.device} {self.dtype.name}[{self.size}]{view}{state}>"

    def view(self, size: int, dtype: DType, offset: int = 0) -> Buffer:
        """`size` elements of `dtype` from `offset` bytes on, in the same storage."""
        if offset < 0 or offset + size * dtype.itemsize > self.nbytes:
            raise ValueError(f"{dtype.name}[{size}] at byte {offset} is not inside {self!r}")
        made = Buffer(self.device, size, dtype, label=self.label)
        made.base = self if self.base is None else self.base
        made.offset = self.offset + offset
        return made

    @property
    def is_allocated(self) -> bool:
        """Whether it has memory."""
        return (self if self.base is None else self.base)._storage is not None

    @property
    def is_exported(self) -> bool:
        """Whether a host view of its storage is alive: then it must not be written in place."""
        storage = (self if self.base is None else self.base)._storage
        return storage is not None and storage.exported() is not None

    @property
    def address(self) -> int:
        """Where kernels of the device find the first element; allocates."""
        if self.nbytes == 0:
            return 0
        return self._allocated().block.address + self.offset

    def ensure_allocated(self) -> Buffer:
        """Allocate unless that has happened.  Raises: OutOfMemoryError."""
        if self.nbytes > 0:
            self._allocated()
        return self

    def copyin(self, data: BytesLike) -> Buffer:
        """Fill it with `data`, which must have exactly its size in bytes."""
        source = memoryview(data)
        if source.nbytes != self.nbytes:
            raise ValueError(f"{source.nbytes} bytes cannot fill {self!r} of {self.nbytes} bytes")
        if source.nbytes:
            storage = self._allocated()
            storage.allocator.inner.copy_in(storage.block, self.offset, source.cast("B"))
        return self

    def copyout(self) -> bytearray:
        """A copy of its bytes."""
        target = bytearray(self.nbytes)
        if self.nbytes:
            storage = self._allocated()
            storage.allocator.inner.copy_out(storage.block, self.offset, memoryview(target))
        return target

    def as_memoryview(self, *, readonly: bool = True) -> memoryview:
        """Its bytes: in place where the device's memory is the host's, else a copy.

        The view keeps the storage allocated; while it lives `is_exported` is true.
        """
        if self.nbytes == 0:
            return EMPTY
        storage = self._allocated()
        if storage.allocator.inner.is_host:
            whole = memoryview(storage.export()).cast("B")
            bytes_ = whole[self.offset : self.offset + self.nbytes]
        elif readonly:
            bytes_ = memoryview(self.copyout())
        else:
            raise ValueError(f"memory of {self.device} cannot be written through a view")
        return bytes_.toreadonly() if readonly else bytes_

    def _allocated(self) -> Storage:
        owner = self if self.base is None else self.base
        if owner._storage is None:
            with _allocating:
                if owner._storage is None:
                    allocator = Device[owner.device].allocator
                    owner._storage = Storage(allocator, owner.nbytes, owner.label)
        return owner._storage

    def __reduce_ex__(self, protocol: object) -> tuple[object, ...]:
        """A view pickles as a part of its base; several of them in one pickle share its data."""
        if self.base is not None:
            return _view_of, (self.base, self.size, self.dtype, self.offset)
        data: object = None
        if self.is_allocated:
            out_of_band = isinstance(protocol, int) and protocol >= 5
            data = pickle.PickleBuffer(self.as_memoryview()) if out_of_band else self.copyout()
        return _filled, (self.device, self.size, self.dtype, self.label, data)


def _filled(device: str, size: int, dtype: DType, label: str, data: BytesLike | None) -> Buffer:
    made = Buffer(device, size, dtype, label=label)
    return made if data is None else made.copyin(data)


def _view_of(base: Buffer, size: int, dtype: DType, offset: int) -> Buffer:
    return base.view(size, dtype, offset)
