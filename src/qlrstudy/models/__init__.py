"""The study's networks, in flax, with the protocol's initial weights."""

from qlrstudy.models.gpt2 import GPT2
from qlrstudy.models.mlp import MLP
from qlrstudy.models.networks import Network, batch_normed, hits, plain
from qlrstudy.models.resnet import ResNet

__all__ = ["GPT2", "MLP", "Network", "ResNet", "batch_normed", "hits", "plain"]
