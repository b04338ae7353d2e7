"""Who holds memory: one lease per allocated block, alive as long as its storage.

A lease is the weak reference that gives the block back, so storage needs no finaliser method, and
the leases together are the list that an out-of-memory error and a memory report read.
"""

from __future__ import annotations

import weakref
from collections import Counter
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from loomgrad.memory.allocator import Block


class Giver(Protocol):
    """What a block goes back to."""

    def free(self, block: Block) -> None:
        """Take back a block."""
        ...


class Lease(weakref.ref[object]):
    """A reference to the storage of a block that frees the block when the storage dies."""

    __slots__ = ("block", "giver", "label")

    block: Block
    giver: Giver
    label: str


_leases: set[Lease] = set()


def lease(owner: object, giver: Giver, block: Block, label: str) -> None:
    """From now until `owner` dies, it holds `block`; then the block goes back to `giver`."""
    made = Lease(owner, _end)
    made.block, made.giver, made.label = block, giver, label
    hash(made)  # remembered: a dead reference can only be found in the set by it
    _leases.add(made)


def _end(ended: weakref.ref[object]) -> None:
    assert isinstance(ended, Lease)
    _leases.discard(ended)
    ended.giver.free(ended.block)


def holdings(giver: Giver | None = None) -> list[tuple[str, int, int]]:
    """What is held, of one giver or of all: (label, how many blocks, bytes together), largest first."""
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for held in _leases.copy():
        if giver is None or held.giver is giver:
            sizes[held.label] += held.block.nbytes
            counts[held.label] += 1
    return [(label, counts[label], nbytes) for label, nbytes in sizes.most_common()]


def largest_holders(giver: Giver, at_most: int = 5) -> str:
    """The largest holdings as one line of text."""
    return "; ".join(
        f"{label} {readable_size(nbytes)}" + (f" in {blocks} buffers" if blocks > 1 else "")
        for label, blocks, nbytes in holdings(giver)[:at_most]
    )


def readable_size(nbytes: float) -> str:
    """A size with a unit, e.g. 1536 -> "1.5 KB"."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if nbytes < 1024:
            return f"{nbytes:.1f} {unit}" if unit != "bytes" else f"{nbytes:.0f} bytes"
        nbytes /= 1024
    return f"{nbytes:.1f} TB"
