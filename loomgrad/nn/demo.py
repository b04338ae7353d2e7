"""The demo: a small convolutional network learns to read handwritten digits, on kernels compiled for this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter

from loomgrad.capture import jit
from loomgrad.memory import GlobalCounters
from loomgrad.nn.convolution import Conv2d
from loomgrad.nn.datasets import digits, shuffled
from loomgrad.nn.linear import Linear
from loomgrad.nn.normalization import BatchNorm2d
from loomgrad.nn.optim import Adam, Optimizer
from loomgrad.nn.state import get_parameters
from loomgrad.tensor import Tensor, no_grad

SEED = 42
STEPS = 300
BATCH = 128
CHANNELS = (8, 16)
LEARNING_RATE = 0.02  # at the first step; it falls to 0 at the last
LABEL_SMOOTHING = 0.1  # keeps so small a network from learning its 1348 digits by heart
CLASSES = 10
WIDTH = 8
SHADES = " ░▒▓█"
SHOWN = 6

Step = Callable[[Tensor, Tensor], Tensor]


class Network:
    """Two convolutions, each with batch normalisation; the greatest of 2 by 2; ten scores."""

    def __init__(self) -> None:
        first, second = CHANNELS
        self.conv1 = Conv2d(1, first, 3, padding=1, bias=False)  # the normalisation has one
        self.norm1 = BatchNorm2d(first)
        self.conv2 = Conv2d(first, second, 3, padding=1, bias=False)
        self.norm2 = BatchNorm2d(second)
        self.scores = Linear(second * (WIDTH // 2) ** 2, CLASSES)

    def __call__(self, pixels: Tensor) -> Tensor:
        """The scores of the ten digits.

        **Shapes** pixels: (n, 64) -> (n, 10)
        """
        x = pixels.reshape(-1, 1, WIDTH, WIDTH)
        x = self.norm1(self.conv1(x)).relu()
        x = self.norm2(self.conv2(x)).relu()
        return self.scores(x.max_pool2d(2).flatten(1))


@dataclass
class Outcome:
    """What a training run gave."""

    predictions: list[int]
    labels: list[int]
    images: list[list[float]]
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # of each step
    kernels: int = 0  # per step

    @property
    def accuracy(self) -> float:
        """The percentage of held-out digits that were read right."""
        right = sum(p == label for p, label in zip(self.predictions, self.labels, strict=True))
        return 100 * right / len(self.labels)


def batches(steps: int) -> list[tuple[Tensor, Tensor]]:
    """Minibatches in memory, each pass through the training digits in another order."""
    train_x, train_y, _, _ = digits()
    order = _endless_order(len(train_x))
    picks = [[next(order) for _ in range(BATCH)] for _ in range(steps)]
    return [(Tensor(train_x[pick]), Tensor(train_y[pick])) for pick in picks]


def _endless_order(count: int) -> Iterator[int]:
    seed = SEED
    while True:
        yield from shuffled(count, seed)
        seed += 1


def step_of(network: Network, optimizer: Optimizer) -> Step:
    """One step as a function of a batch: the loss, its gradients and the new parameters, computed together."""

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = network(x).cross_entropy(y, label_smoothing=LABEL_SMOOTHING).backward()
        return loss.realize(*optimizer.schedule_step())

    return step


def run(steps: int = STEPS) -> Outcome:
    """Train with a fixed seed and read the held-out quarter."""
    from tqdm import tqdm

    Tensor.manual_seed(SEED)
    network = Network()
    optimizer = Adam(get_parameters(network), lr=LEARNING_RATE)
    step = jit(step_of(network, optimizer))
    outcome = Outcome([], [], [])
    progress = tqdm(batches(steps), desc="training", unit="step", dynamic_ncols=True)
    with Tensor.train():
        for done, (x, y) in enumerate(progress):
            optimizer.lr.assign(LEARNING_RATE * (1 - done / steps))
            start, before = perf_counter(), GlobalCounters.kernel_count
            loss = step(x, y)
            outcome.seconds.append(perf_counter() - start)
            outcome.kernels = GlobalCounters.kernel_count - before
            outcome.losses.append(float(loss))
            progress.set_postfix_str(f"loss {outcome.losses[-1]:.3f}", refresh=False)
    _read_held_out(network, outcome)
    return outcome


@no_grad()
def _read_held_out(network: Network, outcome: Outcome) -> None:
    _, _, test_x, test_y = digits()
    outcome.predictions = network(Tensor(test_x)).argmax(1).numpy().tolist()
    outcome.labels = test_y.tolist()
    outcome.images = test_x.tolist()


def report(outcome: Outcome) -> list[str]:
    """The outcome in lines of text."""
    return [
        "",
        *_drawing(outcome),
        "",
        f"accuracy {outcome.accuracy:.1f}% on {len(outcome.labels)} held-out digits",
        f"first step {outcome.seconds[0] * 1e3:.0f} ms (it compiles), "
        f"then {median(outcome.seconds[1:]) * 1e3:.2f} ms per step, {outcome.kernels} kernels per step",
    ]


def _drawing(outcome: Outcome) -> list[str]:
    """Some held-out digits side by side, a mistake among them if there is one."""
    wrong = [i for i, p in enumerate(outcome.predictions) if p != outcome.labels[i]][:1]
    chosen = [i for i in range(len(outcome.labels)) if i not in wrong][: SHOWN - len(wrong)] + wrong
    rows = ["   ".join(_row(outcome.images[i], row) for i in chosen) for row in range(WIDTH)]
    captions = "   ".join(
        f"read {outcome.predictions[i]}, is {outcome.labels[i]}".center(2 * WIDTH) for i in chosen
    )
    return [*rows, captions]


def _row(pixels: list[float], row: int) -> str:
    """One row of a digit; two characters make a square."""
    line = pixels[row * WIDTH : (row + 1) * WIDTH]
    return "".join(SHADES[round(ink * (len(SHADES) - 1))] * 2 for ink in line)
