"""Captured functions: called once, run again as the kernels they ran."""

from loomgrad.capture.function import Captured as Captured
from loomgrad.capture.function import jit as jit

TinyJit = jit  # the name under which programs of this family know it
