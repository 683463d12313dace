"""Losses that are no mean over examples, by `LossProbe`, against Adam with three rates.

    python benchmarks/any_loss.py [--seeds 5] [--problem cart] [--limits 0.01] [--exact]

Two actor-critics, whose loss says little of what matters: a contextual bandit with
noisy rewards (score: how often the best action is chosen) and a pole on a cart (score:
mean length of an episode in the last fifth of training, of 200 at most). And three that
are to be as good as ever (score: loss on data not trained on): two heads, a variational
autoencoder of digits, and a small GPT on this repository's licence. Means over seeds
and their standard errors; actor-critics are scored as trained, others at the average.
`--exact` puts the exact Hessian beside, with the same rule and with the paper's.
"""

import argparse
import math
import pathlib
import statistics
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional
from torch_models import GPT

from adamqlr.torch import ANY_LOSS, PAPER, QLR, AdamQLR, Hessian, LossProbe, Rule

Make = Callable[[nn.Module], torch.optim.Optimizer]
Loss = Callable[[], Tensor]


def step(optimizer: torch.optim.Optimizer, loss: Loss) -> None:
    """One step down a loss, by either kind of optimiser."""
    if isinstance(optimizer, QLR):
        optimizer.step(loss)
    else:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()


def tested(optimizer: torch.optim.Optimizer, loss: Loss) -> float:
    """A loss on other data, at the average where there is one."""
    if isinstance(optimizer, QLR):
        optimizer.eval()
    with torch.no_grad():
        return loss().item()


class ActorCritic(nn.Module):
    """Two hidden layers, from which a policy and a value are read."""

    def __init__(self, features: int, actions: int):
        super().__init__()
        hidden = [nn.Linear(features, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh()]
        self.body = nn.Sequential(*hidden)
        self.policy, self.value = nn.Linear(64, actions), nn.Linear(64, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.body(x)
        return self.policy(hidden), self.value(hidden).squeeze(-1)

    @torch.no_grad()
    def act(self, x: Tensor) -> Tensor:
        """Actions drawn from the policy."""
        return torch.distributions.Categorical(logits=self(x)[0]).sample()

    def loss(self, x: Tensor, action: Tensor, returns: Tensor, gain: Tensor) -> Tensor:
        """Policy gradient, half the squared error of the value, and some entropy."""
        logits, value = self(x)
        logs = functional.log_softmax(logits, -1)
        chosen = logs.gather(-1, action[..., None]).squeeze(-1)
        entropy = -(logs.exp() * logs).sum(-1)
        error = (value - returns).square() / 2
        return (error - chosen * gain - 0.01 * entropy).mean()


def bandit(make: Make, steps: int = 1500) -> float:
    """One of four actions pays, a linear function of six features says which."""
    model, best = ActorCritic(6, 4), torch.randn(6, 4)
    optimizer = make(model)
    for _ in range(steps):
        x = torch.randn(32, 6)
        action = model.act(x)
        reward = (action == (x @ best).argmax(1)) + 0.3 * torch.randn(32)
        gain = (reward - model(x)[1]).detach()
        step(optimizer, lambda x=x, a=action, r=reward, g=gain: model.loss(x, a, r, g))
    x = torch.randn(4000, 6)
    return (model(x)[0].argmax(1) == (x @ best).argmax(1)).float().mean().item()


class Carts:
    """Many carts with poles (Barto, Sutton and Anderson 1983), stepped at once."""

    def __init__(self, number: int):
        self.state = 0.1 * torch.rand(number, 4) - 0.05
        self.age = torch.zeros(number)
        self.ages: list[float] = []

    def act(self, right: Tensor) -> Tensor:
        """Push each left or right for 20 ms; tells which episodes have ended."""
        place, speed, angle, turning = self.state.unbind(1)
        sine, cosine = angle.sin(), angle.cos()
        push = (20.0 * right - 10 + 0.05 * turning.square() * sine) / 1.1
        turn = 9.8 * sine - cosine * push
        turn = turn / (0.5 * (4 / 3 - 0.1 * cosine.square() / 1.1))
        rates = [speed, push - 0.05 * turn * cosine / 1.1, turning, turn]
        self.state = self.state + 0.02 * torch.stack(rates, 1)
        self.age += 1
        over = (self.state[:, 0].abs() > 2.4) | (self.state[:, 2].abs() > 0.2095)
        over |= self.age >= 200
        self.ages += self.age[over].tolist()
        self.age[over] = 0
        self.state[over] = 0.1 * torch.rand(int(over.sum()), 4) - 0.05
        return over


def cart(make: Make, steps: int = 1500) -> float:
    """Balance a pole: advantages over eight pushes of sixteen carts."""
    model, carts, early = ActorCritic(4, 2), Carts(16), 0
    optimizer = make(model)
    for number in range(steps):
        if number == steps * 4 // 5:
            early = len(carts.ages)
        pushes = []
        for _ in range(8):
            x = carts.state
            action = model.act(x)
            pushes.append((x, action, carts.act(action)))
        x, action, over = map(torch.stack, zip(*pushes, strict=True))
        with torch.no_grad():
            returns, ahead = [], model(carts.state)[1]
            for ends in over.flip(0):
                # A reward of 0.1 a push keeps values near one.
                ahead = 0.1 + 0.98 * ahead * ~ends
                returns.append(ahead)
            total = torch.stack(returns[::-1])
            gain = total - model(x)[1]
        seen = x, action, total, gain
        step(optimizer, lambda seen=seen: model.loss(*seen))
    return statistics.fmean(carts.ages[early:])


def heads(make: Make, steps: int = 1000) -> float:
    """Classes and a number from one body, their losses added."""
    model, teacher = ActorCritic(6, 4), ActorCritic(6, 4).requires_grad_(False)
    for param in teacher.parameters():
        param.mul_(3)
    optimizer = make(model)

    def loss(x: Tensor) -> Tensor:
        logits, value = model(x)
        other, number = teacher(x)
        classes = functional.cross_entropy(logits, other.argmax(1))
        return classes + functional.mse_loss(value, number)

    for _ in range(steps):
        x = torch.randn(64, 6)
        step(optimizer, lambda x=x: loss(x))
    return tested(optimizer, lambda: loss(torch.randn(4000, 6)))


class Autoencoder(nn.Module):
    """Kingma and Welling 2014, with Bernoulli pixels and eight latent numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
        self.decode = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64))

    def loss(self, x: Tensor) -> Tensor:
        mean, log_deviation = self.encode(x).chunk(2, 1)
        code = mean + log_deviation.exp() * torch.randn_like(mean)
        pixels = functional.binary_cross_entropy_with_logits(
            self.decode(code), x, reduction="none"
        )
        variance = (2 * log_deviation).exp()
        divergence = (mean.square() + variance - 1) / 2 - log_deviation
        return (pixels.sum(1) + divergence.sum(1)).mean()


def autoencoder(make: Make, steps: int = 1500) -> float:
    """Digits of 8x8 pixels."""
    model = Autoencoder()
    pixels, _ = load_digits(return_X_y=True)
    images = torch.tensor(pixels / 16, dtype=torch.float32)
    optimizer = make(model)
    for _ in range(steps):
        x = images[torch.randint(1500, (64,))]
        step(optimizer, lambda x=x: model.loss(x))
    return tested(optimizer, lambda: model.loss(images[1500:].repeat(20, 1)))


def gpt(make: Make, steps: int = 400) -> float:
    """Characters of a text, in windows of 32; its last tenth is not trained on."""
    text = (pathlib.Path(__file__).parents[1] / "LICENSE").read_bytes()
    characters = torch.tensor(list(text))
    model = GPT(vocabulary=128, width=32, depth=2)
    optimizer, split = make(model), len(text) * 9 // 10

    def loss(part: Tensor, starts: Tensor) -> Tensor:
        windows = part[starts[:, None] + torch.arange(33)]
        logits = model(windows[:, :-1])
        return functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())

    for _ in range(steps):
        starts = torch.randint(split - 33, (16,))
        step(optimizer, lambda starts=starts: loss(characters, starts))
    rest = characters[split:]
    return tested(optimizer, lambda: loss(rest, torch.arange(0, len(rest) - 33, 8)))


PROBLEMS = {p.__name__: p for p in (bandit, cart, heads, autoencoder, gpt)}


def probe(limit: float) -> Make:
    return lambda model: AdamQLR(
        model.parameters(), curvature=LossProbe(limit), rule=ANY_LOSS
    )


def exact(rule: Rule) -> Make:
    return lambda model: AdamQLR(model.parameters(), curvature=Hessian(), rule=rule)


def adam(rate: float) -> Make:
    return lambda model: torch.optim.Adam(model.parameters(), rate)


def score(problem: Callable[[Make], float], make: Make, seed: int) -> float:
    torch.manual_seed(seed)
    return problem(make)


def summary(scores: list[float]) -> str:
    error = statistics.stdev(scores) / math.sqrt(len(scores)) if scores[1:] else 0.0
    return f"{statistics.fmean(scores):.4g} ± {error:.2g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="repetitions of each")
    parser.add_argument("--problem", default="", help="only those whose name has this")
    parser.add_argument("--limits", type=float, nargs="*", default=[LossProbe().limit])
    parser.add_argument("--exact", action="store_true", help="the Hessian as well")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    makers = {f"Adam {rate:g}": adam(rate) for rate in (1e-3, 3e-3, 1e-2)}
    makers |= {f"LossProbe({limit:g})": probe(limit) for limit in arguments.limits}
    if arguments.exact:
        makers |= {"Hessian": exact(ANY_LOSS), "Hessian, paper's": exact(PAPER)}
    table = Table("problem", *makers)
    for name, problem in PROBLEMS.items():
        if arguments.problem in name:
            cells = [
                summary([score(problem, make, seed) for seed in range(arguments.seeds)])
                for make in makers.values()
            ]
            table.add_row(name, *cells)
    Console(width=40 + 20 * len(makers)).print(table)


if __name__ == "__main__":
    main()
