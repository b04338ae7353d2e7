"""Where PyTorch keeps its tools for data: `loomgrad.utils.data`."""

from loomgrad.utils import data as data
