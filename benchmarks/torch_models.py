"""The networks that the step costs are measured on, in plain torch."""

import torch
from torch import Tensor, nn
from torch.nn import functional


def mlp(width: int = 1024) -> nn.Module:
    """Three hidden layers."""
    layers: list[nn.Module] = []
    for inputs in (784, width, width):
        layers += [nn.Linear(inputs, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 10))


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions around an identity or a 1x1 projection."""

    def __init__(self, inputs: int, features: int, stride: int = 1):
        super().__init__()
        conv = lambda i, size, s: nn.Sequential(
            nn.Conv2d(i, features, size, s, size // 2, bias=False),
            nn.BatchNorm2d(features),
        )
        self.first, self.second = conv(inputs, 3, stride), conv(features, 3, 1)
        plain = stride == 1 and inputs == features
        self.shortcut = nn.Identity() if plain else conv(inputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = self.second(torch.relu(self.first(x)))
        return torch.relu(self.shortcut(x) + y)


def resnet18() -> nn.Module:
    """He et al. 2016, with the ImageNet stem."""
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    blocks: list[nn.Module] = [*stem, nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for features, stride in [(64, 1), (128, 2), (256, 2), (512, 2)]:
        blocks += [
            ResidualBlock(inputs, features, stride),
            ResidualBlock(features, features),
        ]
        inputs = features
    return nn.Sequential(
        *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)
    )


class Block(nn.Module):
    """Pre-norm causal attention and a feed-forward layer."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        split = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q, k, v = map(split, self.qkv(self.norm1(x)).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.mix(mixed.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """A decoder with learnt positions."""

    def __init__(self, vocabulary: int = 256, width: int = 256, depth: int = 6):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(128, width)
        self.blocks = nn.Sequential(*[Block(width, 4) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.embed(tokens) + self.positions(places)
        return self.out(self.norm(self.blocks(x)))


class Adapters(nn.Module):
    """Many small matrices, as low-rank adapters have them."""

    def __init__(self, tensors: int, width: int = 64, rank: int = 8):
        super().__init__()
        pairs = range(tensors // 2)
        down = [nn.Parameter(torch.randn(width, rank) / 8) for _ in pairs]
        self.down = nn.ParameterList(down)
        up = [nn.Parameter(torch.zeros(rank, width)) for _ in pairs]
        self.up = nn.ParameterList(up)
        self.out = nn.Linear(width, 10).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        for down, up in zip(self.down, self.up, strict=True):
            x = x + x @ down @ up
        return self.out(x)


def problem(name: str) -> tuple[nn.Module, Tensor, Tensor]:
    """A network with a batch of inputs and labels of its size."""
    torch.manual_seed(0)
    text = torch.randint(256, (8, 129))
    match name:
        case "MLP 784-3x1024-10, batch 512":
            return mlp(), torch.randn(512, 784), torch.arange(512) % 10
        case "ResNet-18 128x128, batch 8":
            return resnet18(), torch.randn(8, 3, 128, 128), torch.arange(8)
        case "GPT 6x256, batch 8x128":
            return GPT(), text[:, :-1], text[:, 1:]
        case "MLP 784-50-10, batch 32":
            layers = nn.Linear(784, 50), nn.ReLU(), nn.Linear(50, 10)
            net = nn.Sequential(*layers)
            return net, torch.randn(32, 784), torch.arange(32) % 10
        case "10 tensors" | "100 tensors" | "1000 tensors":
            net = Adapters(int(name.split()[0]))
            return net, torch.randn(32, 64), torch.arange(32) % 10
        case _:
            raise ValueError(f"problem must be one of {PROBLEMS}, got {name!r}")


PROBLEMS = (
    "MLP 784-3x1024-10, batch 512",
    "ResNet-18 128x128, batch 8",
    "GPT 6x256, batch 8x128",
    "MLP 784-50-10, batch 32",
    "10 tensors",
    "100 tensors",
    "1000 tensors",
)
