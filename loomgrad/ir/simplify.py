"""One slot: the simplifier, which `loomgrad.rules` fills when it is imported.

Movement and derived facts need simplified index arithmetic, and the algebra stands a layer above them.  This
is the only place where a lower layer calls a higher one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from loomgrad.errors import LoomError

if TYPE_CHECKING:
    from loomgrad.ir.uop import UOp

_slot: list[Callable[[UOp], UOp]] = []


def simplify(node: UOp) -> UOp:
    """`node` with the laws of index arithmetic applied until none does."""
    if not _slot:
        raise LoomError(
            "there is no simplifier yet", fix="import loomgrad.rules, which fills the slot"
        )
    return _slot[0](node)


def fill(simplifier: Callable[[UOp], UOp]) -> None:
    """Puts the simplifier in its slot."""
    _slot[:] = [simplifier]


def is_filled() -> bool:
    """Whether the algebra has been imported."""
    return bool(_slot)
