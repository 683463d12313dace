"""Test losses of the average with three kinds of batch-norm statistics.

    OMP_NUM_THREADS=1 python benchmarks/batch_norm.py

A small network of convolutions learns scikit-learn's digits, shifted by up to a pixel,
in torch: some minutes on one core. Statistics are those of the trained weights,
measured anew for the average (`optimizer.averaged(batches)`), or averaged with its
weights.
"""

import argparse

import torch
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from torch import Tensor, nn

from adamqlr import rules
from adamqlr.torch import AdamQLR, Average

TRAINING = 1200


def data() -> tuple[Tensor, Tensor]:
    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    images = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    return images[order], torch.tensor(labels)[order]


def network() -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in ((1, 16), (16, 32), (32, 32)):
        layers.append(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False))
        layers += [nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.AvgPool2d(2), nn.Flatten(), nn.Linear(512, 10))


def statistics(model: nn.Module) -> list[Tensor]:
    return [buffer for buffer in model.buffers() if buffer.is_floating_point()]


def losses(seed: int, batch: int, steps: int) -> list[float]:
    """Of the trained weights, and of the average with each kind of statistics."""
    torch.manual_seed(seed)
    (x, y), model, criterion = data(), network(), nn.CrossEntropyLoss()
    optimizer = AdamQLR(model.parameters()).watch(model, criterion)
    means = [buffer.clone() for buffer in statistics(model)]
    for step in range(1, steps + 1):
        rows = torch.randint(0, TRAINING, (batch,))
        shift = tuple(torch.randint(-1, 2, (2,)).tolist())
        optimizer.zero_grad()
        criterion(model(x[rows].roll(shift, (2, 3))), y[rows]).backward()
        optimizer.step()
        weight = rules.averaging_weight(step, Average().power)
        for mean, buffer in zip(means, statistics(model), strict=True):
            mean.lerp_(buffer, weight)

    @torch.no_grad()
    def test_loss() -> float:
        return float(criterion(model(x[TRAINING:]), y[TRAINING:]))

    model.eval()
    found = [test_loss()]
    with optimizer.averaged():
        found.append(test_loss())
    with optimizer.averaged(x[:TRAINING].split(batch)):
        found.append(test_loss())
    with optimizer.averaged(), torch.no_grad():
        for mean, buffer in zip(means, statistics(model), strict=True):
            buffer.copy_(mean)
        found.append(test_loss())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()

    table = Table(
        "batch", "steps", "trained weights", "average", "measured", "averaged"
    )
    for batch, steps in ((8, 400), (16, 400), (64, 200), (256, 100)):
        runs = [losses(seed, batch, steps) for seed in range(given.seeds)]
        means = [sum(column) / len(runs) for column in zip(*runs, strict=True)]
        table.add_row(str(batch), str(steps), *[f"{mean:.4f}" for mean in means])
    Console().print(table)


if __name__ == "__main__":
    main()
