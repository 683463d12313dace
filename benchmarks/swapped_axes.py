"""What a GPT learns of Penn Treebank if the axes of its batches are swapped.

    python benchmarks/swapped_axes.py --data-dir DIR [--steps 3000]

The paper's code cuts batches of shape (length, sequences), as a recurrent network wants
them, and hands them to a transformer that reads (sequences, length). Attention and
positions then run across unrelated snippets, and each token sees none but itself of its
own text: what is left to learn is the next word after a word. This trains a small GPT
both ways, on some words of the text, and sets its training loss beside the entropy of
the text's bigrams, below which no such model can be.
"""

import argparse
import math
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from qlrstudy.data.text import common_words, load_treebank
from qlrstudy.models import GPT2, plain
from qlrstudy.spec import DataOptions

VOCABULARY, WORDS = 1_000, 30_000
SEQUENCES, LENGTH = 32, 32
RATE = 2e-3


def bigram_entropy(tokens: np.ndarray) -> float:
    """Nats of the next token given the last one, by the text's own counts."""
    pairs = Counter(zip(tokens[:-1].tolist(), tokens[1:].tolist(), strict=True))
    firsts = Counter(tokens[:-1].tolist())
    total = len(tokens) - 1
    return -sum(n / total * math.log(n / firsts[a]) for (a, _), n in pairs.items())


def trained(tokens: np.ndarray, steps: int, *, swapped: bool) -> float:
    """The mean training loss of the last tenth of some steps of Adam."""
    model = GPT2(VOCABULARY, width=64, depth=2, heads=4, context=64)
    network = plain(model, (2,), jnp.int32)
    params, _ = jax.jit(network.init)(jax.random.key(0))
    optimiser = optax.adam(optax.cosine_decay_schedule(RATE, steps))
    state = optimiser.init(params)
    text = jnp.asarray(tokens)

    def loss(params: Any, windows: jax.Array) -> jax.Array:
        inputs, targets = windows[:, :-1], windows[:, 1:]
        if swapped:
            inputs, targets = inputs.T, targets.T
        logits, _ = network.predict(params, inputs, {}, training=True)
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, targets)
        return losses.mean()

    @jax.jit
    def step(params: Any, state: Any, key: jax.Array) -> tuple[Any, Any, jax.Array]:
        starts = jax.random.randint(key, (SEQUENCES,), 0, len(text) - LENGTH)
        windows = text[starts[:, None] + jnp.arange(LENGTH + 1)]
        value, grad = jax.value_and_grad(loss)(params, windows)
        updates, state = optimiser.update(grad, state)
        return optax.apply_updates(params, updates), state, value

    losses = []
    for number in range(steps):
        key = jax.random.fold_in(jax.random.key(1), number)
        params, state, value = step(params, state, key)
        losses.append(value)
    return float(jnp.mean(jnp.stack(losses[-max(1, steps // 10) :])))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--steps", type=int, default=3_000)
    options = parser.parse_args()
    data = DataOptions(options.data_dir)
    whole = load_treebank(data, vocabulary=10_000).train.inputs
    print(f"bigram entropy of all {len(whole):,} training words: ", end="")
    print(f"{bigram_entropy(whole):.3f} nats", flush=True)
    few = load_treebank(
        data,
        vocabulary=VOCABULARY,
        symbols=lambda words, train: common_words(words, train[:WORDS], VOCABULARY - 1),
        limit=(WORDS, 100),
    ).train.inputs
    print(f"of the first {len(few):,}: {bigram_entropy(few):.3f} nats", flush=True)
    for swapped in (True, False):
        way = "swapped" if swapped else "right"
        print(f"GPT, axes {way}: ", end="", flush=True)
        print(f"{trained(few, options.steps, swapped=swapped):.3f} nats", flush=True)


if __name__ == "__main__":
    main()
