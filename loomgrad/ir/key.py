"""Structural keys of nodes: sha256 over a typed byte encoding, the same in every process."""

from __future__ import annotations

import enum
import hashlib
import math
import struct
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

from loomgrad.dtype import DType
from loomgrad.ir.opcode import Op

if TYPE_CHECKING:
    from loomgrad.ir.uop import UOp


def encode(value: object) -> bytes:
    """Bytes that differ wherever two args differ; a bound Buffer counts only as bound."""
    if value is None or isinstance(value, (bool, int)):
        return f"{type(value).__name__}:{value};".encode()
    if isinstance(value, float):
        return b"f" + struct.pack("<d", value if value == value else math.nan)
    if isinstance(value, str):
        return f"s{len(value)}:{value}".encode()
    if isinstance(value, (Op, DType, enum.Enum)):
        return f"{type(value).__name__}.{value.name};".encode()
    if isinstance(value, tuple):
        return f"t{len(value)}:".encode() + b"".join(encode(item) for item in value)
    if is_dataclass(value):
        parts = [encode(getattr(value, field.name)) for field in fields(value)]
        return f"{type(value).__name__}{len(parts)}:".encode() + b"".join(parts)
    return f"{type(value).__name__};".encode()


def node_key(node: UOp) -> bytes:
    """The rule for `UOp.key`; the tag is no part of it."""
    digest = hashlib.sha256(encode((node.op, node.dtype, node.arg)))
    for source in node.src:
        digest.update(source.key)
    return digest.digest()
