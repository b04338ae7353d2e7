"""Activations: nonlinear functions of each element by itself."""

from __future__ import annotations

import math
from typing import Literal, Self

from loomgrad.dtype import dtypes
from loomgrad.errors import UnsupportedError
from loomgrad.ir.opcode import Ops
from loomgrad.tensor.elementwise import Elementwise
from loomgrad.tensor.halves import in_float32

# Those at which selu keeps mean 0 and variance 1 (Klambauer et al., Self-Normalizing Neural Networks, 2017).
SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805


class Activations(Elementwise):
    """Where a function has a kink, its gradient there is that of the constant side.

    Those that take several steps compute half floats in float32.
    """

    __slots__ = ()

    def _as_float(self) -> Self:
        return self if self.dtype.is_float else self.cast(dtypes.default_float)

    def relu(self) -> Self:
        """max(x, 0); its gradient at 0 is 0."""
        return self.maximum(0)

    def relu6(self) -> Self:
        """min(max(x, 0), 6)."""
        return self.clip(0, 6)

    def leaky_relu(self, negative_slope: float = 0.01) -> Self:
        """x above 0, negative_slope * x below, where its gradient at 0 is taken."""
        return (self > 0).where(self, self * negative_slope)

    def hardtanh(self, min_val: float = -1.0, max_val: float = 1.0) -> Self:
        """x between two limits."""
        return self.clip(min_val, max_val)

    @in_float32
    def sigmoid(self) -> Self:
        """1 / (1 + e**-x), without overflow on either side."""
        x = self._as_float()
        negative = x < 0
        decay = negative.where(x, -x).exp()
        inverse = (decay + 1).reciprocal()
        return negative.where(decay * inverse, inverse)

    @in_float32
    def hardsigmoid(self) -> Self:
        """x / 6 + 1 / 2 between 0 and 1."""
        return (self + 3).clip(0, 6) / 6

    @in_float32
    def logsigmoid(self) -> Self:
        """log(sigmoid(x)), accurate also where sigmoid is tiny."""
        return -((-self._as_float()).softplus())

    @in_float32
    def silu(self) -> Self:
        """x * sigmoid(x)."""
        return self * self.sigmoid()

    swish = silu

    @in_float32
    def hardswish(self) -> Self:
        """x * hardsigmoid(x)."""
        return self * self.hardsigmoid()

    @in_float32
    def gelu(self, approximate: Literal["tanh"] = "tanh") -> Self:
        """x times the normal distribution function of x, by its tanh approximation.

        **Raises** UnsupportedError for another `approximate`.
        """
        if approximate != "tanh":
            raise UnsupportedError(
                f"gelu(approximate={approximate!r}) needs the error function",
                fix='use approximate="tanh", which differs by less than 0.0005',
            )
        inner = (self + self * self * self * 0.044715) * math.sqrt(2 / math.pi)
        return self * 0.5 * (inner.tanh() + 1)

    @in_float32
    def quick_gelu(self) -> Self:
        """x * sigmoid(1.702 * x)."""
        return self * (self * 1.702).sigmoid()

    @in_float32
    def elu(self, alpha: float = 1.0) -> Self:
        """x above 0, alpha * (e**x - 1) below."""
        x = self._as_float()
        return (x > 0).where(x, x._expm1() * alpha)

    @in_float32
    def celu(self, alpha: float = 1.0) -> Self:
        """x above 0, alpha * (e**(x / alpha) - 1) below."""
        x = self._as_float()
        return (x > 0).where(x, (x / alpha)._expm1() * alpha)

    @in_float32
    def selu(self) -> Self:
        """elu, scaled so that layers keep mean 0 and variance 1."""
        return self.elu(SELU_ALPHA) * SELU_SCALE

    def _expm1(self) -> Self:
        """e**x - 1 for x below 0, accurate near 0 as well: tanh(x / 2) is the quotient of e**x - 1 and e**x + 1.

        Above 0 it is 0.
        """
        x = (self > 0).where(0, self)
        return (x * 0.5).tanh() * (x.exp() + 1)

    @in_float32
    def softplus(self, beta: float = 1.0) -> Self:
        """log(1 + e**(beta * x)) / beta, without overflow."""
        x = self._as_float() if beta == 1 else self * beta
        # At 0 the slopes of the two terms are 0 and 1 / 2.
        decay = (x > 0).where(-x, x).exp()
        total = x.maximum(0) + decay._log1p()
        return total if beta == 1 else total / beta

    def _log1p(self) -> Self:
        """log(1 + x) for 0 <= x <= 1, accurate near 0 as well: 1 + x lost some of x, which is added again."""
        whole = self + 1
        lost = (self - (whole - 1)) / whole
        return whole.log() + lost._make(Ops.DETACH)

    @in_float32
    def mish(self) -> Self:
        """x * tanh(softplus(x))."""
        return self * self.softplus().tanh()

    @in_float32
    def softsign(self) -> Self:
        """x / (1 + |x|)."""
        return self / (self.abs() + 1)

    @in_float32
    def tanhshrink(self) -> Self:
        """x - tanh(x)."""
        return self - self.tanh()
