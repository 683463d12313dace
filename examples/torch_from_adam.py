"""Moving from `torch.optim.Adam`: the same loop twice, three lines apart.

python examples/torch_from_adam.py
"""

import torch
from torch import nn

from adamqlr.torch import AdamQLR, Objective

torch.manual_seed(0)
x = torch.randn(512, 8)
y = x.argmax(1)
batches = list(zip(x.split(128), y.split(128), strict=True)) * 10
criterion = nn.CrossEntropyLoss()


def make_model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 8))


def with_adam():
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
    return loss


def with_adamqlr():
    model = make_model()
    # - optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    optimizer = AdamQLR(model.parameters())
    for inputs, targets in batches:
        # - loss = criterion(model(inputs), targets); loss.backward()
        objective = Objective(model, criterion, inputs, targets)
        # - optimizer.step()
        loss = optimizer.step(objective)
    return loss


if __name__ == "__main__":
    print(f"Adam, learning rate 0.001: loss {with_adam():.4f}")
    print(f"AdamQLR, no learning rate: loss {with_adamqlr():.4f}")
