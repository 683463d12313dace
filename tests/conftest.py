import importlib.metadata
import os
import sys

# Tests compile much and compute little: unoptimised programs take a third less time,
# and those of the plainer emitters half of that. These versions know them by this name;
# XLA ends a process over a flag that it does not know.
flags = [os.environ.get("XLA_FLAGS", ""), "--xla_backend_optimization_level=0"]
if importlib.metadata.version("jaxlib").startswith("0.9."):
    flags.append("--xla_cpu_use_fusion_emitters=false")
os.environ["XLA_FLAGS"] = " ".join(flags)
# Workers share the cores: more threads than one each would wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Some virtual machines announce AMX and end a process that uses it, as torch does for
# products in bfloat16.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import jax  # noqa: E402 - reads the flags when it is loaded
import pytest  # noqa: E402


@pytest.fixture
def x64():
    """Oracles are compared in float64."""
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


@pytest.fixture(autouse=True)
def seeded():
    """A test's random numbers are the same whatever ran before it in its process."""
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
