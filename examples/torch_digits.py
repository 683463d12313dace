"""Handwritten digits in PyTorch: AdamQLR with no learning rate, on an MLP.

python examples/torch_digits.py
"""

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

from adamqlr.torch import AdamQLR, Categorical, Objective


def main():
    torch.manual_seed(0)
    x, y = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = map(
        torch.as_tensor, train_test_split(x.astype("float32") / 16, y, random_state=0)
    )
    model = nn.Sequential(nn.Linear(64, 50), nn.ReLU(), nn.Linear(50, 10))
    optimizer = AdamQLR(model.parameters())
    for epoch in range(40):
        loss = optimizer.step(Objective(model, Categorical(), x_train, y_train))
        if epoch % 10 == 9:
            info = optimizer.info
            print(
                f"epoch {epoch + 1}: loss {loss:.4f}, step size {info.step_size:.3g}, "
                f"damping {info.damping:.3g}"
            )
    with torch.no_grad():
        accuracy = (model(x_test).argmax(-1) == y_test).float().mean()
    print(f"test accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
