"""Compiled programs on the disk: what one process has compiled serves the next."""

import platform
from pathlib import Path

import jax
import pooch


def keep_compiled_programs() -> None:
    """Keep them in the user's cache, unless JAX was told where."""
    if jax.config.values["jax_compilation_cache_dir"] is None:
        folder = Path(pooch.os_cache("qlrstudy")) / "programs" / platform.node()
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
