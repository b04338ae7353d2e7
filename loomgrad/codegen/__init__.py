"""From a kernel to a linear program: loops are split and typed, lanes made, loads added, and all put in order."""
