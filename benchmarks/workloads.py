"""What is timed: every workload once, in terms of a framework's adapter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.framework import Array, Framework, Step
from benchmarks.inputs import Inputs
from benchmarks.networks import (
    CONVOLUTIONS,
    EPSILON,
    TWO_LAYERS,
    Transformer,
    convolutions,
    two_layers,
)

LARGE = 1 << 23  # 32 MiB of numbers
MATRIX = (4096, 2048)
ROWS = (4096, 1024)

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Workload:
    """A step to repeat; its arithmetic or its memory traffic are given where a rate means something."""

    name: str
    build: Callable[[Framework, Inputs], Step]
    flops: int = 0
    moved: int = 0
    trains: bool = False


def function(
    name: str,
    run: Callable[..., Array],
    *shapes: Shape,
    scale: float = 1.0,
    flops: int = 0,
    moved: int = 0,
) -> Workload:
    """`run` of a framework and of tensors in these shapes."""

    def build(framework: Framework, inputs: Inputs) -> Step:
        arguments = [framework.tensor(inputs.normal(*shape, scale=scale)) for shape in shapes]
        compiled = framework.compiled(partial(run, framework))
        return lambda: compiled(*arguments)

    return Workload(name, build, flops, moved)


def matmul(n: int) -> Workload:
    """A product of two square matrices."""
    return function(f"gemm_{n}", multiply, (n, n), (n, n), flops=2 * n**3)


def convolution(
    name: str, x: Shape, w: Shape, stride: int = 1, padding: int = 0, groups: int = 1
) -> Workload:
    """A convolution of images (n, channels, height, width)."""

    def run(framework: Framework, image: Array, weight: Array) -> Array:
        return framework.conv2d(image, weight, stride, padding, groups)

    pixels = x[0]
    for length, reach in zip(x[2:], w[2:], strict=True):
        pixels *= (length + 2 * padding - reach) // stride + 1
    return function(name, run, x, w, flops=2 * pixels * w[0] * w[1] * w[2] * w[3])


def training(
    name: str,
    network: Callable[[Framework, Sequence[Array], Array], Array],
    parameters: Sequence[tuple[Shape, float]],
    x: Shape,
) -> Workload:
    """Steps of Adam on one batch; the result is the loss before the step."""

    def build(framework: Framework, inputs: Inputs) -> Step:
        start = [inputs.normal(*shape, scale=scale) for shape, scale in parameters]
        batch = framework.tensor(inputs.normal(*x))
        labels = framework.labels(inputs.classes(x[0], among=10))

        def loss(weights: Sequence[Array]) -> Array:
            return framework.cross_entropy(network(framework, weights, batch), labels)

        return framework.training_step(start, loss)

    return Workload(name, build, trains=True)


def transformer(name: str, sizes: Transformer) -> Workload:
    """Many tokens are bound by arithmetic, one token by reading the weights."""
    if sizes.length == 1:
        return Workload(name, sizes.build, moved=4 * sizes.weights)
    return Workload(name, sizes.build, flops=2 * sizes.length * sizes.weights)


def multiply(framework: Framework, x: Array, y: Array) -> Array:
    return x @ y


def linear_gelu(framework: Framework, x: Array, weight: Array, bias: Array) -> Array:
    return framework.gelu(x @ weight + bias)


def axpy(framework: Framework, x: Array, y: Array) -> Array:
    return x * 2.5 + y


def chain(framework: Framework, x: Array, y: Array) -> Array:
    """Elementwise operations that want to be one kernel."""
    gate = framework.sigmoid(x * 2.0 + y)
    return gate * framework.gelu(x) + framework.tanh(y) * framework.exp(-x * x)


def transposed(framework: Framework, x: Array) -> Array:
    return framework.copied(framework.swapped(x, 0, 1))


def many_small(framework: Framework, x: Array) -> Array:
    """Hardly any arithmetic in many operations, so that overhead shows."""
    for _ in range(25):
        x = x * 1.01 + 0.5
        x = x - x.mean()
    return x


# fmt: off
WORKLOADS = {workload.name: workload for workload in (
    matmul(256),
    matmul(512),
    matmul(1024),
    matmul(2048),
    function("gemm_bias_gelu", linear_gelu, (512, 768), (768, 3072), (3072,), scale=0.05, flops=2 * 512 * 768 * 3072),
    function("gemv_4096",      multiply, (1, 4096), (4096, 4096),     flops=2 * 4096**2, moved=4 * 4096**2),
    function("bmm_12x128x64",  multiply, (96, 128, 64), (96, 64, 128), flops=2 * 96 * 128 * 128 * 64),
    function("axpy",           axpy,     (LARGE,), (LARGE,),  moved=12 * LARGE),
    function("chain",          chain,    (LARGE,), (LARGE,),  moved=12 * LARGE),
    function("softmax",        lambda framework, x: framework.softmax(x), ROWS, moved=8 * 4096 * 1024),
    function("layernorm",      lambda framework, x, scale, shift: framework.layer_norm(x, scale, shift, EPSILON),
             ROWS, (1024,), (1024,), moved=8 * 4096 * 1024),
    function("sum_all",        lambda _, x: x.sum(),    (LARGE,), moved=4 * LARGE),
    function("sum_axis0",      lambda _, x: x.sum(0),   MATRIX,   moved=4 * LARGE),
    function("max_axis1",      lambda framework, x: framework.greatest(x, 1), MATRIX, moved=4 * LARGE),
    function("transpose",      transposed, MATRIX, moved=8 * LARGE),
    convolution("conv3x3",     (8, 64, 56, 56),   (64, 64, 3, 3),   padding=1),
    convolution("conv7x7s2",   (2, 3, 224, 224),  (64, 3, 7, 7),    padding=3, stride=2),
    convolution("conv1x1",     (8, 256, 28, 28),  (512, 256, 1, 1)),
    convolution("dwconv3x3",   (8, 128, 56, 56),  (128, 1, 3, 3),   padding=1, groups=128),
    function("sdpa_512",       lambda framework, q, k, v: framework.attention(q, k, v, causal=True),
             *[(1, 12, 512, 64)] * 3, flops=4 * 12 * 512 * 512 * 64),
    function("tiny_25",        many_small, (64,)),
    training("mlp_train",      two_layers,   TWO_LAYERS,   (128, 784)),
    training("cnn_train",      convolutions, CONVOLUTIONS, (128, 1, 28, 28)),
    transformer("gpt2_prefill128", Transformer(128)),
    transformer("gpt2_decode",     Transformer(1, past=127)),
)}
# fmt: on
