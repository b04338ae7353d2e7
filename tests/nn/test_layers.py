"""Layers against NumPy, what they begin with, modes, and what training leaves in them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from loomgrad import Context, GlobalCounters, Tensor, dtypes, jit, nn
from loomgrad.errors import LoomError, ShapeError, UnsupportedError
from loomgrad.nn import functional as F
from loomgrad.nn.optim import SGD
from tests.tensor.checks import Array

RNG = np.random.default_rng(5)
ROWS = RNG.standard_normal((4, 6)).astype(np.float32)
IMAGES = RNG.standard_normal((3, 4, 5, 5)).astype(np.float32)


def normal(x: Array, axes: tuple[int, ...], eps: float = 1e-5) -> Array:
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return np.asarray((x - mean) / np.sqrt(variance + eps))


def windows(x: Array, weight: Array) -> Array:
    """A convolution without padding, window by window."""
    size = x.shape[-1] - weight.shape[-1] + 1
    out = np.zeros((x.shape[0], weight.shape[0], size, size))
    for i in range(size):
        for j in range(size):
            part = x[:, :, i : i + weight.shape[2], j : j + weight.shape[3]]
            out[:, :, i, j] = np.einsum("nchw,ochw->no", part, weight)
    return out


def channels(x: Array) -> Array:
    return x.reshape(-1, 1, 1)


def tiles(x: Array) -> Array:
    """Windows of 2 by 2, as axes 3 and 5."""
    return x[:, :, :4, :4].reshape(3, 4, 2, 2, 2, 2)


State = dict[str, Array]
Reference = Callable[[Array, State], Array]


def convolved(x: Array, state: State) -> Array:
    return np.asarray(windows(x, state["weight"]) + channels(state["bias"]))


def softmax(x: Array, _: State) -> Array:
    return np.asarray(np.exp(x) / np.exp(x).sum(1, keepdims=True))


def gelu(x: Array, _: State) -> Array:
    return np.asarray(x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def rms(x: Array, _: State) -> Array:
    return np.asarray(x / np.sqrt((x * x).mean(1, keepdims=True) + 2**-23))


# Each row: layer, input, and NumPy's result from the input and the state.
# fmt: off
LAYERS: tuple[tuple[str, Callable[[], nn.Module], Array, Reference], ...] = (
    ("linear",     lambda: nn.Linear(6, 3),              ROWS,   lambda x, s: x @ s["weight"].T + s["bias"]),
    ("no bias",    lambda: nn.Linear(6, 3, bias=False),  ROWS,   lambda x, s: x @ s["weight"].T),
    ("conv",       lambda: nn.Conv2d(4, 2, 3),           IMAGES, convolved),
    ("same",       lambda: nn.Conv2d(4, 2, (1, 1), padding="same"), IMAGES, convolved),
    ("layernorm",  lambda: nn.LayerNorm(6),              ROWS,   lambda x, s: normal(x, (1,)) * s["weight"]),
    ("2 axes",     lambda: nn.LayerNorm([5, 5], bias=False), IMAGES, lambda x, s: normal(x, (2, 3))),
    ("rmsnorm",    lambda: nn.RMSNorm(6),                ROWS,   rms),
    ("groupnorm",  lambda: nn.GroupNorm(4, 4),           IMAGES, lambda x, s: normal(x, (2, 3))),
    ("maxpool",    lambda: nn.MaxPool2d(2),              IMAGES, lambda x, s: tiles(x).max((3, 5))),
    ("avgpool",    lambda: nn.AvgPool2d(2),              IMAGES, lambda x, s: tiles(x).mean((3, 5))),
    ("flatten",    lambda: nn.Flatten(),                 IMAGES, lambda x, s: x.reshape(3, -1)),
    ("identity",   lambda: nn.Identity(),                ROWS,   lambda x, s: x),
    ("relu",       lambda: nn.ReLU(inplace=True),        ROWS,   lambda x, s: np.maximum(x, 0)),
    ("leaky",      lambda: nn.LeakyReLU(0.1),            ROWS,   lambda x, s: np.where(x < 0, x * 0.1, x)),
    ("sigmoid",    lambda: nn.Sigmoid(),                 ROWS,   lambda x, s: 1 / (1 + np.exp(-x))),
    ("silu",       lambda: nn.SiLU(),                    ROWS,   lambda x, s: x / (1 + np.exp(-x))),
    ("tanh",       lambda: nn.Tanh(),                    ROWS,   lambda x, s: np.tanh(x)),
    ("gelu",       lambda: nn.GELU(),                    ROWS,   gelu),
    ("softmax",    lambda: nn.Softmax(dim=1),            ROWS,   softmax),
    ("logsoftmax", lambda: nn.LogSoftmax(dim=1),         ROWS,   lambda x, s: np.log(softmax(x, s))),
    ("sequential", lambda: nn.Sequential(nn.Linear(6, 2), nn.Tanh()), ROWS,
     lambda x, s: np.tanh(x @ s["0.weight"].T + s["0.bias"])),
)
# fmt: on


@pytest.mark.parametrize(
    ("make", "x", "reference"), [row[1:] for row in LAYERS], ids=[row[0] for row in LAYERS]
)
def test_values(make: Callable[[], nn.Module], x: Array, reference: Reference) -> None:
    layer = make()
    state = {name: tensor.numpy() for name, tensor in layer.state_dict().items()}
    np.testing.assert_allclose(layer(Tensor(x)).numpy(), reference(x, state), 2e-5, 2e-5)


def test_parameters_begin_as_pytorchs_and_require_gradients() -> None:
    Tensor.manual_seed(3)
    for layer, fan_in in ((nn.Linear(50, 40), 50), (nn.Conv2d(8, 12, 3, groups=2), 36)):
        for parameter in layer.parameters():
            values = parameter.numpy()
            assert parameter.requires_grad and parameter.is_realized
            assert np.abs(values).max() <= 1 / math.sqrt(fan_in)
        weight = layer.weight.numpy()
        assert weight.std() == pytest.approx(1 / math.sqrt(3 * fan_in), rel=0.1)
    assert nn.Conv2d(8, 12, 3, groups=2).weight.shape == (12, 4, 3, 3)
    weight = nn.Embedding(50, 40).weight.numpy()
    assert abs(weight.mean()) < 0.1 and weight.std() == pytest.approx(1, rel=0.1)


def test_the_seed_decides_what_they_begin_with() -> None:
    def drawn() -> list[Array]:
        Tensor.manual_seed(11)
        return [p.numpy() for p in nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2)).parameters()]

    for first, second in zip(drawn(), drawn(), strict=True):
        np.testing.assert_array_equal(first, second)


def test_half_floats_are_normalised_in_float32() -> None:
    x = Tensor(np.full((2, 4), 300.0) + np.arange(8).reshape(2, 4), dtype=dtypes.float16)
    for layer in (nn.LayerNorm(4), nn.RMSNorm(4), nn.GroupNorm(1, 4), nn.BatchNorm1d(4)):
        result = layer.train()(x)
        assert result.dtype is dtypes.float16 and np.isfinite(result.numpy()).all()
    wanted = normal(x.numpy().astype(np.float64), (1,))
    np.testing.assert_allclose(nn.LayerNorm(4)(x).numpy(), wanted, 2e-3)


# ---- batch normalisation


class Batch:
    """NumPy's batch normalisation over (n, channels)."""

    def __init__(self, momentum: float | None) -> None:
        self.momentum, self.seen = momentum, 0
        self.mean, self.var = np.zeros(6), np.ones(6)

    def __call__(self, x: Array) -> Array:
        self.seen += 1
        share = 1 / self.seen if self.momentum is None else self.momentum
        self.mean += share * (x.mean(0) - self.mean)
        self.var += share * (x.var(0, ddof=1) - self.var)
        return normal(x, (0,))


@pytest.mark.parametrize("momentum", [0.1, 0.3, None])
def test_batch_normalisation_in_training_and_after(momentum: float | None) -> None:
    layer, reference = nn.BatchNorm(6, momentum=momentum), Batch(momentum)
    for step in range(3):
        x = ROWS + step
        with Tensor.train():
            found = layer(Tensor(x))
        np.testing.assert_allclose(found.numpy(), reference(x), 1e-4, 1e-5)
    np.testing.assert_allclose(layer.running_mean.numpy(), reference.mean, 1e-5, 1e-6)
    np.testing.assert_allclose(layer.running_var.numpy(), reference.var, 1e-5)
    assert layer.num_batches_tracked.item() == 3
    wanted = (ROWS - reference.mean) / np.sqrt(reference.var + 1e-5)
    np.testing.assert_allclose(layer(Tensor(ROWS)).numpy(), wanted, 1e-4, 1e-5)
    assert layer.num_batches_tracked.item() == 3


def test_batch_normalisation_of_images_is_over_all_pixels() -> None:
    layer = nn.BatchNorm2d(4).train()
    layer.weight = nn.Parameter([1.0, 2.0, 3.0, 4.0])
    layer.bias = nn.Parameter([0.5, 0.0, 0.0, 0.0])
    wanted = normal(IMAGES, (0, 2, 3)) * channels(np.arange(1, 5)) + channels(
        np.array([0.5, 0, 0, 0])
    )
    np.testing.assert_allclose(layer(Tensor(IMAGES)).numpy(), wanted, 1e-4, 1e-4)


def test_batch_normalisation_without_statistics() -> None:
    """B173: then the batch decides in evaluation mode too."""
    layer = nn.BatchNorm(4, track_running_stats=False, affine=False)
    assert layer.state_dict() == {}
    found = layer(Tensor(IMAGES)).numpy()
    np.testing.assert_allclose(found.mean((0, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(found.std((0, 2, 3)), 1, atol=1e-4)


def test_gradients_go_through_the_batch_statistics() -> None:
    layer = nn.BatchNorm(6).train()
    x = Tensor(ROWS, requires_grad=True)
    weights = Tensor(RNG.standard_normal((4, 6)).astype(np.float32))
    (layer(x) * weights).sum().backward()
    assert x.grad is not None and layer.bias is not None and layer.bias.grad is not None
    np.testing.assert_allclose(x.grad.numpy().sum(0), 0, atol=1e-5)  # a shift changes nothing
    np.testing.assert_allclose(layer.bias.grad.numpy(), weights.numpy().sum(0), 1e-5)
    assert not layer.running_mean.requires_grad


def test_statistics_are_computed_with_the_step() -> None:
    """A loop that never reads them leaves no graph behind, and nothing is computed twice."""
    model = nn.Sequential(nn.BatchNorm(6), nn.Linear(6, 1))
    norm = model[0]
    assert isinstance(norm, nn.BatchNorm)
    optimizer = SGD(model.parameters(), lr=0.1)
    counts = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = (model(Tensor(ROWS)) ** 2).mean()
        loss.backward()
        optimizer.step()
        before = GlobalCounters.kernel_count
        assert norm.running_mean.is_realized and norm.num_batches_tracked.is_realized
        loss.item()
        counts.append(GlobalCounters.kernel_count - before)
    assert counts == [0, 0, 0] and norm.num_batches_tracked.item() == 3


# ---- modes


def test_a_module_trains_until_eval() -> None:
    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Dropout(0.5))

        def forward(self, x: Tensor) -> Tensor:
            assert self.training is Tensor.training
            return self.inner(x)

    model, ones = Half(), Tensor.ones(400)
    zeros = int((model(ones) == 0).sum().item())
    assert 120 < zeros < 280 and set(model(ones).tolist()) <= {0.0, 2.0}  # type: ignore[arg-type]
    assert not Tensor.training
    assert model.eval()(ones).tolist() == [1.0] * 400
    assert 0.0 in model.train()(ones)
    model.inner.eval()  # a part may be frozen
    assert model(ones).tolist() == [1.0] * 400


def test_a_layer_by_itself_follows_tensor_train() -> None:
    layer, ones = nn.Dropout(0.5), Tensor.ones(100)
    assert layer(ones).tolist() == [1.0] * 100
    with Tensor.train():
        assert 0.0 in layer(ones)
        assert layer.eval()(ones).tolist() == [1.0] * 100


def test_a_captured_call_follows_the_mode() -> None:
    """Another mode is another capture, also of a part of the model."""
    model, ones = nn.Sequential(nn.Sequential(nn.Dropout(0.5))), Tensor.ones(100)
    with Context(CHECK=False):
        captured = jit(model)
        assert 0.0 in captured(ones) and 0.0 in captured(ones) and captured.captures == 1
        model.eval()
        assert captured(ones).tolist() == [1.0] * 100
        model.train()[0].eval()
        assert captured(ones).tolist() == [1.0] * 100
        model.train()
        assert 0.0 in captured(ones)


def test_the_mode_is_back_after_an_error() -> None:
    model = nn.Sequential(nn.Linear(6, 2))
    with pytest.raises(ShapeError):
        model(Tensor([1.0]))
    assert not Tensor.training


def test_modules_inside() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU(), nn.Linear(2, 1)))
    names = [name for name, _ in model.named_modules()]
    assert names == ["", "0", "1", "1.0", "1.1"] and len(list(model.modules())) == 5
    seen: list[str] = []
    model.apply(lambda module: seen.append(type(module).__name__))
    assert seen == ["Linear", "ReLU", "Linear", "Sequential", "Sequential"]
    assert len(model) == 2 and isinstance(model[1], nn.Sequential)
    assert repr(model).splitlines()[1] == "  (0): Linear(weight=(2, 2), bias=(2,))"
    named = nn.Sequential({"first": nn.Linear(2, 1)})
    assert list(named.state_dict()) == ["first.weight", "first.bias"]


def test_moving_to_where_it_is() -> None:
    model = nn.Linear(2, 2)
    assert model.to("cpu") is model
    with pytest.raises(UnsupportedError, match="weight is on CPU"):
        model.to("CPU:1")


# ---- embedding and losses


def test_embedding_selects_rows_and_scatters_gradients() -> None:
    layer = nn.Embedding(5, 3, padding_idx=-1)
    assert layer.weight.numpy()[4].tolist() == [0, 0, 0]
    numbers = Tensor([[1, 4], [1, 0]])
    np.testing.assert_array_equal(layer(numbers).numpy(), layer.weight.numpy()[[[1, 4], [1, 0]]])
    layer(numbers).sum().backward()
    assert layer.weight.grad is not None
    np.testing.assert_array_equal(layer.weight.grad.numpy()[:, 0], [1, 2, 0, 0, 0])


LABELS = np.array([2, 0, 5, 1], np.int32)


def likelihood(labels: Array) -> Array:
    logp = ROWS - np.log(np.exp(ROWS).sum(1, keepdims=True))
    return np.asarray(-logp[np.arange(4), labels])


def test_losses() -> None:
    logits, labels, other = Tensor(ROWS), Tensor(LABELS), Tensor(ROWS * 0.5 + 1)
    wanted = likelihood(LABELS)
    assert nn.CrossEntropyLoss()(logits, labels).item() == pytest.approx(wanted.mean(), rel=1e-5)
    assert F.nll_loss(F.log_softmax(logits), labels).item() == pytest.approx(wanted.mean(), 1e-5)
    assert nn.NLLLoss("sum")(logits.log_softmax(), labels).item() == pytest.approx(
        wanted.sum(), 1e-5
    )
    distance = ROWS * 0.5 - 1
    assert nn.MSELoss()(logits, other).item() == pytest.approx((distance**2).mean(), rel=1e-5)
    assert nn.L1Loss()(logits, other).item() == pytest.approx(np.abs(distance).mean(), rel=1e-5)
    yes = (ROWS > 0.3).astype(np.float32)
    p = 1 / (1 + np.exp(-ROWS))
    binary = -(yes * np.log(p) + (1 - yes) * np.log(1 - p))
    found = nn.BCEWithLogitsLoss("none")(logits, Tensor(yes)).numpy()
    np.testing.assert_allclose(found, binary, 1e-4, 1e-6)


def test_ignored_labels_do_not_count() -> None:
    labels = np.array([2, -100, 5, -100], np.int32)
    wanted = likelihood(np.maximum(labels, 0))[[0, 2]]
    found = nn.CrossEntropyLoss()(Tensor(ROWS), Tensor(labels))
    assert found.item() == pytest.approx(wanted.mean(), rel=1e-5)
    summed = F.cross_entropy(Tensor(ROWS), Tensor(labels + 0), reduction="sum")
    assert summed.item() == pytest.approx(wanted.sum(), rel=1e-5)


def test_functions_are_the_layers() -> None:
    x, images = Tensor(ROWS), Tensor(IMAGES)
    linear, conv, norm = nn.Linear(6, 2), nn.Conv2d(4, 2, 3, stride=2, padding=1), nn.LayerNorm(6)
    pairs = (
        (F.linear(x, linear.weight, linear.bias), linear(x)),
        (F.conv2d(images, conv.weight, conv.bias, stride=2, padding=1), conv(images)),
        (F.layer_norm(x, (6,), norm.weight, norm.bias), norm(x)),
        (F.max_pool2d(images, 2), nn.MaxPool2d(2)(images)),
        (F.avg_pool2d(images, 2, stride=1), nn.AvgPool2d(2, stride=1)(images)),
        (F.softmax(x, dim=0), x.softmax(0)),
        (F.dropout(x, training=False), x),
    )
    for found, wanted in pairs:
        np.testing.assert_array_equal(found.numpy(), wanted.numpy())
    assert (F.dropout(Tensor.ones(200), 0.5).numpy() == 0).any()


# fmt: off
MISTAKES: tuple[tuple[Callable[[], object], type[LoomError], str], ...] = (
    (lambda: nn.Module()(1),                          UnsupportedError, "Module has no method forward"),
    (lambda: nn.Sequential(Tensor.relu),              UnsupportedError, "holds modules, not a function"),  # type: ignore[arg-type]
    (lambda: nn.Conv2d(3, 4, 3, groups=2),            ShapeError, "2 groups do not divide 3 channels into 4"),
    (lambda: nn.GroupNorm(2, 3),                      ShapeError, "2 groups do not divide 3"),
    (lambda: nn.GroupNorm(2, 4)(Tensor.ones(2, 3)),   ShapeError, "4 channels in groups got"),
    (lambda: nn.BatchNorm(3)(Tensor.ones(2, 4)),      ShapeError, r"3 channels got shape \(2, 4\)"),
    (lambda: nn.BatchNorm(3).train()(Tensor.ones(1, 3)), ShapeError, "one value per channel"),
    (lambda: nn.LayerNorm(3)(Tensor.ones(2, 4)),      ShapeError, r"over \(3,\) got shape \(2, 4\)"),
    (lambda: nn.Dropout(1.5),                         LoomError, "between 0 and 1"),
    (lambda: nn.Linear(2, 2)(Tensor.ones(3)),         ShapeError, "cannot multiply"),
)
# fmt: on


@pytest.mark.parametrize(("make", "error", "text"), MISTAKES)
def test_mistakes(make: Callable[[], object], error: type[LoomError], text: str) -> None:
    with pytest.raises(error, match=text):
        make()
