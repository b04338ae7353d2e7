"""Optimizers, where PyTorch has them; they are defined in `loomgrad.nn.optim`."""

from loomgrad.nn.optim import SGD as SGD
from loomgrad.nn.optim import Adam as Adam
from loomgrad.nn.optim import AdamW as AdamW
from loomgrad.nn.optim import Optimizer as Optimizer
