"""loomgrad: deep learning from Tensor to machine code, in one small IR."""

__version__ = "0.1.0"
