"""loomgrad: deep learning from Tensor to machine code, in one small IR.

Public names are found here when they are first used, so that importing loomgrad costs nothing else.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loomgrad import cuda as cuda
    from loomgrad import nn as nn
    from loomgrad import optim as optim
    from loomgrad import utils as utils
    from loomgrad.capture import TinyJit as TinyJit
    from loomgrad.capture import jit as jit
    from loomgrad.config import Context as Context
    from loomgrad.dtype import dtypes as dtypes
    from loomgrad.functions import cat as cat
    from loomgrad.functions import load as load
    from loomgrad.functions import randperm as randperm
    from loomgrad.functions import save as save
    from loomgrad.functions import stack as stack
    from loomgrad.ir.args import AddrSpace as AddrSpace
    from loomgrad.ir.args import AxisType as AxisType
    from loomgrad.ir.args import Invalid as Invalid
    from loomgrad.ir.args import KernelInfo as KernelInfo
    from loomgrad.ir.matcher import PatternMatcher as PatternMatcher
    from loomgrad.ir.opcode import GroupOp as GroupOp
    from loomgrad.ir.opcode import Ops as Ops
    from loomgrad.ir.pattern import UPat as UPat
    from loomgrad.ir.rewrite import graph_rewrite as graph_rewrite
    from loomgrad.ir.uop import UOp as UOp
    from loomgrad.memory import Device as Device
    from loomgrad.memory import GlobalCounters as GlobalCounters
    from loomgrad.tensor import Tensor as Tensor
    from loomgrad.tensor import no_grad as no_grad

__version__ = "0.1.0"

# Where each public name is defined.
_HOME = {
    "AddrSpace": "loomgrad.ir.args",
    "AxisType": "loomgrad.ir.args",
    "Context": "loomgrad.config",
    "Device": "loomgrad.memory",
    "GlobalCounters": "loomgrad.memory",
    "GroupOp": "loomgrad.ir.opcode",
    "Invalid": "loomgrad.ir.args",
    "KernelInfo": "loomgrad.ir.args",
    "Ops": "loomgrad.ir.opcode",
    "PatternMatcher": "loomgrad.ir.matcher",
    "Tensor": "loomgrad.tensor",
    "TinyJit": "loomgrad.capture",
    "UOp": "loomgrad.ir.uop",
    "UPat": "loomgrad.ir.pattern",
    "cat": "loomgrad.functions",
    "cuda": "loomgrad",
    "dtypes": "loomgrad.dtype",
    "graph_rewrite": "loomgrad.ir.rewrite",
    "jit": "loomgrad.capture",
    "load": "loomgrad.functions",
    "nn": "loomgrad",
    "no_grad": "loomgrad.tensor",
    "optim": "loomgrad",
    "randperm": "loomgrad.functions",
    "save": "loomgrad.functions",
    "stack": "loomgrad.functions",
    "utils": "loomgrad",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        return _function(name)
    if _HOME[name] == __name__:
        return importlib.import_module(f"{__name__}.{name}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def _function(name: str) -> object:
    """A dtype or a function by PyTorch's name: `loomgrad.float32`, `loomgrad.relu`."""
    found = None
    if not name.startswith("_"):
        found = importlib.import_module(f"{__name__}.functions").named(name)
    if found is None:
        raise AttributeError(f"module 'loomgrad' has no attribute {name!r}")
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
