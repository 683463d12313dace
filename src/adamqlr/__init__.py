"""Optimisers that choose their own learning rate.

`adamqlr.jax` holds the optax transformations, `adamqlr.torch` the torch optimisers.
This file loads no framework, so that importing one front end never imports the other.
"""

__version__ = "0.1.0"
