"""Programs written for PyTorch run when their imports name loomgrad instead, and nothing else is changed.

The programs here run under PyTorch as they stand.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.meta.modules import ROOT

MODEL = '''
import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, kernel_size=3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.pool = nn.MaxPool2d(2)
        self.body = nn.Sequential(nn.Linear(4 * 2 * 2, hidden), nn.ReLU(), nn.Dropout(0.1))
        self.head = nn.Linear(hidden, 3)

    def forward(self, x):
        x = self.pool(F.relu(self.norm(self.conv(x))))
        x = x.view(x.size(0), -1)
        return self.head(self.body(x))


def make_data(n):
    """Stripes: along rows, along columns, or none."""
    labels = torch.randint(0, 3, (n,))
    stripes = torch.tensor([1.0, -1.0, 1.0, -1.0])
    patterns = torch.stack([
        stripes.reshape(4, 1).expand(4, 4),
        stripes.reshape(1, 4).expand(4, 4),
        torch.zeros(4, 4),
    ])
    images = patterns[labels] + 0.3 * torch.randn(n, 4, 4)
    return images.unsqueeze(1), labels
'''
TRAIN = """
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

from model import Net, make_data

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Net().to(device)
criterion = nn.CrossEntropyLoss()
optimizer = optim.Adam(model.parameters(), lr=0.02, betas=(0.9, 0.99), weight_decay=1e-4)
loader = DataLoader(TensorDataset(*make_data(192)), batch_size=32, shuffle=True)

for epoch in range(4):
    model.train()
    total, right = 0.0, 0
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        outputs = model(images)
        loss = criterion(outputs, labels)
        loss.backward()
        optimizer.step()
        total += loss.item() * images.size(0)
        _, predicted = torch.max(outputs, 1)
        right += (predicted == labels).sum().item()
    print(f"epoch {epoch}: loss {total / 192:.4f}, accuracy {right / 192:.3f}")
    for group in optimizer.param_groups:
        group["lr"] *= 0.9

torch.save(model.state_dict(), "weights.pt")
torch.save(
    {"epoch": epoch, "model": model.state_dict(), "name": "stripes", "history": [total, right]},
    "checkpoint.pt",
)
model.eval()
with torch.no_grad():
    print("scores", [round(s, 4) for s in model(torch.ones(1, 1, 4, 4))[0].tolist()])
"""
EVALUATE = """
import torch

from model import Net, make_data

torch.manual_seed(1)
model = Net()
model.load_state_dict(torch.load("weights.pt", weights_only=True))
model.eval()
images, labels = make_data(100)
with torch.no_grad():
    outputs = model(images)
    accuracy = (outputs.argmax(dim=1) == labels).float().mean().item()
    print(f"accuracy {accuracy:.2f}")
    print("scores", [round(s, 4) for s in model(torch.ones(1, 1, 4, 4))[0].tolist()])
checkpoint = torch.load("checkpoint.pt")
assert checkpoint["epoch"] == 3 and checkpoint["name"] == "stripes"
again = Net()
again.load_state_dict(checkpoint["model"])
assert torch.equal(again.head.weight, model.head.weight)
"""
REGRESSION = """
import torch
from torch import nn

torch.manual_seed(0)
x = torch.linspace(-1, 1, 64).unsqueeze(1)
y = 3 * x - 0.5 + 0.01 * torch.randn(x.shape)
model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
for step in range(60):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
weight, bias = model.weight.item(), model.bias.item()
assert abs(weight - 3) < 0.05 and abs(bias + 0.5) < 0.05, (weight, bias)
w = torch.tensor([1.0, 2.0], requires_grad=True)
(w ** 2).sum().backward()
assert w.grad.tolist() == [2.0, 4.0]
assert torch.cat([torch.ones(2), torch.zeros(1)]).tolist() == [1.0, 1.0, 0.0]
assert sorted(torch.randperm(5).tolist()) == [0, 1, 2, 3, 4]
assert torch.arange(3, dtype=torch.float32).dtype == torch.float32
print("regression", round(loss.item(), 3))
"""
IMPORTS = (
    (r"^import torch$", "import loomgrad as torch"),
    (r"^import torch\.(\S+) as", r"import loomgrad.\1 as"),
    (r"^from torch(\S*) import", r"from loomgrad\1 import"),
)


def ported(source: str) -> str:
    """A program with its imports changed."""
    for pattern, replacement in IMPORTS:
        source = re.sub(pattern, replacement, source, flags=re.MULTILINE)
    return source


def run(folder: Path, name: str, source: str) -> str:
    """What a program prints, run by a new Python."""
    (folder / name).write_text(ported(source))
    command = [sys.executable, "-W", "error", name]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_only_imports_are_changed() -> None:
    for source in (MODEL, TRAIN, EVALUATE, REGRESSION):
        pairs = zip(source.splitlines(), ported(source).splitlines(), strict=True)
        changed = [before for before, after in pairs if before != after]
        assert changed and all(re.match(r"import torch|from torch", line) for line in changed)


def test_train_and_save_then_load_and_evaluate_in_another_process(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(ported(MODEL))
    trained = run(tmp_path, "train.py", TRAIN).splitlines()
    losses = [float(m[1]) for line in trained if (m := re.search(r"loss (\S+),", line))]
    assert len(losses) == 4 and losses[-1] < losses[0] / 3
    evaluated = run(tmp_path, "evaluate.py", EVALUATE).splitlines()
    assert float(evaluated[0].removeprefix("accuracy ")) >= 0.95
    assert evaluated[1] == trained[-1]


def test_regression_and_small_things(tmp_path: Path) -> None:
    assert run(tmp_path, "regression.py", REGRESSION) == "regression 0.0\n"


@pytest.mark.parametrize("content", [b"PK\3\4\0\0\10\10" + b"0" * 99, b"\x80\2}q\0(X\1\0\0\0x"])
def test_a_file_of_pytorchs_is_not_executed(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "weights.pt").write_bytes(content)
    source = "import torch\ntry:\n    torch.load('weights.pt')\nexcept RuntimeError as error:\n    print(error)\n"
    assert "loomgrad executes nothing that a file says" in run(tmp_path, "load.py", source)
