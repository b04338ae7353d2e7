"""Where PyTorch programs ask whether there is a GPU of NVIDIA's."""

from loomgrad.memory import Device


def is_available() -> bool:
    """Whether a device "CUDA" can be used."""
    return "CUDA" in Device.known()
