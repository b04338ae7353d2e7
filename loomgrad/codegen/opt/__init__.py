"""Actions on the loops of a kernel, and the heuristic that chooses them."""
