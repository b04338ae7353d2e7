"""The adapters.

A framework is imported when its adapter is made: each runs in a process of its own, and only loomgrad and NumPy are
sure to be there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from importlib import import_module
from types import ModuleType

import numpy as np

from benchmarks.framework import Array, Framework, Function, Loss, Numbers, Step

LEARNING_RATE, BETA1, BETA2, TINY = 1e-3, 0.9, 0.999, 1e-8


class NumPy(Framework):
    """Arrays, and the functions of a module on them."""

    trains = False

    def __init__(self, module: str = "numpy") -> None:
        self.module = xp = import_module(module)
        self.tensor = self.labels = xp.asarray
        self.exp, self.tanh = xp.exp, xp.tanh
        self.sigmoid = lambda x: 1 / (1 + xp.exp(-x))
        self.relu = lambda x: xp.maximum(x, 0)
        self.gelu = lambda x: x * (xp.tanh((x + x * x * x * 0.044715) * 0.7978845608) + 1) * 0.5
        self.copied = xp.array
        self.greatest, self.swapped, self.joined = xp.max, xp.swapaxes, xp.concatenate
        self.softmax = partial(_softmax, xp)
        self.layer_norm = partial(_layer_norm, xp)

    def conv2d(
        self, x: Array, weight: Array, stride: int = 1, padding: int = 0, groups: int = 1
    ) -> Array:
        sides = (padding, padding)
        padded = np.pad(self.numpy(x), ((0, 0), (0, 0), sides, sides))
        windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[2:], (2, 3))
        parts = [
            np.tensordot(images, filters, axes=((1, 4, 5), (1, 2, 3)))
            for images, filters in zip(
                np.split(windows[:, :, ::stride, ::stride], groups, axis=1),
                np.split(self.numpy(weight), groups),
                strict=True,
            )
        ]
        return self.tensor(np.moveaxis(np.concatenate(parts, axis=-1), -1, 1))

    def attention(self, query: Array, key: Array, value: Array, causal: bool) -> Array:
        xp = self.module
        scores = query @ self.swapped(key, -1, -2) * (1 / math.sqrt(query.shape[-1]))
        if causal:
            scores = xp.where(xp.tri(*scores.shape[-2:], dtype=bool), scores, -xp.inf)
        return self.softmax(scores) @ value


def _softmax(xp: ModuleType, x: Array) -> Array:
    powers = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    result: Array = powers / powers.sum(-1, keepdims=True)
    return result


def _layer_norm(xp: ModuleType, x: Array, scale: Array, shift: Array, epsilon: float) -> Array:
    centred = x - xp.mean(x, axis=-1, keepdims=True)
    variance = xp.mean(centred * centred, axis=-1, keepdims=True)
    result: Array = centred / xp.sqrt(variance + epsilon) * scale + shift
    return result


class Jax(NumPy):
    """The same functions of another module, with its own spellings where there are some."""

    trains = True

    def __init__(self) -> None:
        super().__init__("jax.numpy")
        self.jax = jax = import_module("jax")
        self.sigmoid, self.relu, self.softmax = jax.nn.sigmoid, jax.nn.relu, jax.nn.softmax
        self.gelu = partial(jax.nn.gelu, approximate=True)
        self.copied = lambda x: x + 0.0
        self.max_pool2d = partial(_jax_max_pool2d, jax)
        self.cross_entropy = partial(_jax_cross_entropy, jax)

    def conv2d(
        self, x: Array, weight: Array, stride: int = 1, padding: int = 0, groups: int = 1
    ) -> Array:
        result: Array = self.jax.lax.conv_general_dilated(
            x,
            weight,
            window_strides=(stride, stride),
            padding=((padding, padding), (padding, padding)),
            dimension_numbers=("NCHW", "OIHW", "NCHW"),
            feature_group_count=groups,
        )
        return result

    def compiled(self, run: Function) -> Function:
        result: Function = self.jax.jit(run)
        return result

    def training_step(self, parameters: Sequence[Numbers], loss: Loss) -> Step:
        update = self.jax.jit(partial(_jax_step, self.jax, loss), donate_argnums=0)
        weights = [self.tensor(numbers) for numbers in parameters]
        state = [[x, self.module.zeros_like(x), self.module.zeros_like(x)] for x in weights]
        steps = 0

        def step() -> Array:
            nonlocal state, steps
            steps += 1
            value, state = update(state, float(steps))
            result: Array = value
            return result

        return step

    def finish(self, result: Array) -> None:
        self.jax.block_until_ready(result)


def _jax_max_pool2d(jax: ModuleType, x: Array) -> Array:
    square = (1, 1, 2, 2)
    result: Array = jax.lax.reduce_window(x, -math.inf, jax.lax.max, square, square, "VALID")
    return result


def _jax_cross_entropy(jax: ModuleType, scores: Array, labels: Array) -> Array:
    likelihood = jax.nn.log_softmax(scores)
    result: Array = -jax.numpy.take_along_axis(likelihood, labels.reshape(-1, 1), 1).mean()
    return result


def _jax_step(
    jax: ModuleType, loss: Loss, state: list[list[Array]], steps: float
) -> tuple[Array, list[list[Array]]]:
    """The loss, and the new parameters and moments."""
    value, gradients = jax.value_and_grad(loss)([weight for weight, *_ in state])
    changed = []
    for (weight, m, v), gradient in zip(state, gradients, strict=True):
        m = m * BETA1 + gradient * (1 - BETA1)
        v = v * BETA2 + gradient * gradient * (1 - BETA2)
        root = jax.numpy.sqrt(v * (1 / (1 - BETA2**steps))) + TINY
        changed.append([weight - m * (LEARNING_RATE / (1 - BETA1**steps)) / root, m, v])
    return value, changed


class Torch(Framework):
    """PyTorch, as it is or by way of its compiler."""

    def __init__(self, compiles: bool = False) -> None:
        self.torch = torch = import_module("torch")
        self.compiles = compiles
        functional = torch.nn.functional
        self.tensor = torch.from_numpy
        self.labels = lambda classes: torch.from_numpy(classes).long()
        self.exp, self.tanh = torch.exp, torch.tanh
        self.sigmoid, self.relu = torch.sigmoid, torch.relu
        self.gelu = partial(functional.gelu, approximate="tanh")
        self.softmax = partial(torch.softmax, dim=-1)
        self.copied = torch.Tensor.contiguous
        self.max_pool2d = partial(functional.max_pool2d, kernel_size=2)
        self.greatest, self.swapped, self.joined = torch.amax, torch.transpose, torch.cat
        self.layer_norm = lambda x, scale, shift, epsilon: functional.layer_norm(
            x, x.shape[-1:], scale, shift, epsilon
        )
        self.cross_entropy = functional.cross_entropy

    def conv2d(
        self, x: Array, weight: Array, stride: int = 1, padding: int = 0, groups: int = 1
    ) -> Array:
        result: Array = self.torch.conv2d(x, weight, stride=stride, padding=padding, groups=groups)
        return result

    def attention(self, query: Array, key: Array, value: Array, causal: bool) -> Array:
        attention = self.torch.nn.functional.scaled_dot_product_attention
        result: Array = attention(query, key, value, is_causal=causal)
        return result

    def compiled(self, run: Function) -> Function:
        inner, no_grad = self._optimised(run), self.torch.no_grad

        def without_gradients(*arguments: Array) -> Array:
            with no_grad():
                return inner(*arguments)

        return without_gradients

    def _optimised(self, run: Function) -> Function:
        if not self.compiles:
            return run
        result: Function = self.torch.compile(run, fullgraph=True, dynamic=False)
        return result

    def training_step(self, parameters: Sequence[Numbers], loss: Loss) -> Step:
        weights = [self.torch.from_numpy(numbers).requires_grad_() for numbers in parameters]
        optimizer = self.torch.optim.Adam(
            weights, lr=LEARNING_RATE, betas=(BETA1, BETA2), eps=TINY, foreach=True
        )
        optimised = self._optimised(loss)

        def step() -> Array:
            optimizer.zero_grad(set_to_none=True)
            value = optimised(weights)
            self.torch.autograd.backward(value)
            optimizer.step()
            return value

        return step

    def numpy(self, result: Array) -> Numbers:
        return np.asarray(self.torch.detach(result))


class Lazy(Framework):
    """loomgrad, and tinygrad, whose Tensor has methods of the same names."""

    def __init__(self, module: str) -> None:
        self.module = import_module(module)
        self.optimizers = import_module(f"{module}.nn.optim")
        tensor = self.module.Tensor
        self.tensor = lambda numbers: tensor(numbers).contiguous().realize()
        self.labels = lambda classes: tensor(classes).contiguous().realize()
        self.exp, self.tanh, self.sigmoid = tensor.exp, tensor.tanh, tensor.sigmoid
        self.relu, self.gelu, self.softmax = tensor.relu, tensor.gelu, tensor.softmax
        self.copied = tensor.contiguous
        self.max_pool2d = lambda x: tensor.max_pool2d(x, kernel_size=(2, 2))
        self.greatest, self.swapped = tensor.max, tensor.transpose
        self.joined = lambda parts, axis: tensor.cat(*parts, dim=axis)
        self.layer_norm = lambda x, scale, shift, epsilon: (
            tensor.layernorm(x, eps=epsilon) * scale + shift
        )
        self.cross_entropy = tensor.sparse_categorical_crossentropy

    def conv2d(
        self, x: Array, weight: Array, stride: int = 1, padding: int = 0, groups: int = 1
    ) -> Array:
        result: Array = self.module.Tensor.conv2d(
            x, weight, stride=stride, padding=padding, groups=groups
        )
        return result

    def attention(self, query: Array, key: Array, value: Array, causal: bool) -> Array:
        attention = self.module.Tensor.scaled_dot_product_attention
        result: Array = attention(query, key, value, is_causal=causal)
        return result

    def compiled(self, run: Function) -> Function:
        result: Function = self.module.TinyJit(lambda *arguments: self.computed(run(*arguments)))
        return result

    def computed(self, result: Array, *more: Array) -> Array:
        """The result, when it and what else changes have been computed."""
        self.module.Tensor.realize(result, *more)
        return result

    def training_step(self, parameters: Sequence[Numbers], loss: Loss) -> Step:
        weights = [self.tensor(numbers) for numbers in parameters]
        optimizer = self.optimizers.Adam(weights, lr=LEARNING_RATE, b1=BETA1, b2=BETA2, eps=TINY)

        def update() -> Array:
            optimizer.zero_grad()
            value = self.module.Tensor.backward(loss(weights))
            return self.computed(value, *optimizer.schedule_step())

        step = self.compiled(update)

        def training() -> Array:
            with self.training():
                return step()

        return training

    def training(self) -> AbstractContextManager[object]:
        """The mode in which an optimizer may step."""
        tinygrad = self.module.__name__ == "tinygrad"
        mode: AbstractContextManager[object] = (
            self.module.Context(TRAINING=1) if tinygrad else self.module.Tensor.train()
        )
        return mode

    def finish(self, result: Array) -> None:
        devices = self.module.Device
        devices[devices.DEFAULT].synchronize()

    def numpy(self, result: Array) -> Numbers:
        numbers: Numbers = self.module.Tensor.numpy(result)
        return numbers


# fmt: off
FRAMEWORKS: dict[str, Callable[[], Framework]] = {
    "loomgrad":      lambda: Lazy("loomgrad"),
    "numpy":         NumPy,
    "torch":         Torch,
    "torch_compile": lambda: Torch(compiles=True),
    "jax":           Jax,
    "tinygrad":      lambda: Lazy("tinygrad"),
}
# fmt: on
