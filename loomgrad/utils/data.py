"""Data sets and minibatches, where PyTorch has them; they are defined in `loomgrad.nn.loader`."""

from loomgrad.nn.loader import DataLoader as DataLoader
from loomgrad.nn.loader import TensorDataset as TensorDataset
