"""The front end: lazy Tensors with gradients."""

from loomgrad.tensor.autograd import no_grad as no_grad
from loomgrad.tensor.tensor import Tensor as Tensor
