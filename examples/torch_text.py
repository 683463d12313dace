"""A small text transformer in PyTorch, on sums written out in words.

    python examples/torch_text.py

Batches are small and there is no learning rate. A scheduler warms the first steps up,
as people do with a transformer: it multiplies the step size.
"""

import torch
from torch import nn

from adamqlr.torch import AdamQLR, Categorical, Objective

NUMBERS = "zero one two three four five six seven eight nine ten".split()
TEXT = " ".join(
    f"{NUMBERS[a]} and {NUMBERS[b]} make {NUMBERS[a + b]}."
    for a in range(11)
    for b in range(11 - a)
)
LETTERS = sorted(set(TEXT))
LENGTH, STEPS = 32, 90


class Transformer(nn.Module):
    """Two causal blocks over letters."""

    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Embedding(len(LETTERS), width)
        self.place = nn.Parameter(torch.randn(LENGTH, width) / 10)
        block = nn.TransformerEncoderLayer(
            width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
        self.out = nn.Linear(width, len(LETTERS))
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        self.register_buffer("mask", mask)

    def forward(self, tokens):
        x = self.embed(tokens) + self.place
        return self.out(self.blocks(x, mask=self.mask, is_causal=True))


def main():
    torch.manual_seed(0)
    text = torch.tensor([LETTERS.index(letter) for letter in TEXT])
    model = Transformer()
    optimizer = AdamQLR(model.parameters())
    warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=20)
    for step in range(STEPS):
        starts = torch.randint(len(text) - LENGTH, (16, 1))
        windows = text[starts + torch.arange(LENGTH + 1)]
        objective = Objective(model, Categorical(), windows[:, :-1], windows[:, 1:])
        loss = optimizer.step(objective)
        warm_up.step()
        if step % 30 == 29:
            print(
                f"step {step + 1}: {loss:.3f} nats a letter, step size "
                f"{optimizer.info.step_size:.2g}, {optimizer.info.limit.name}"
            )


if __name__ == "__main__":
    main()
