"""The same arithmetic in loomgrad, NumPy, PyTorch, JAX and tinygrad, timed and compared."""
