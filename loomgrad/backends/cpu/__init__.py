"""The CPU device: LLVM IR compiled in process, kernels run on a pool of worker threads."""

from loomgrad.backends.cpu.runtime import CPUDevice


def make_device(name: str) -> CPUDevice:
    """Open the device of a name, e.g. "CPU" or "CPU:1"."""
    return CPUDevice(name)
