import jax
import pytest


@pytest.fixture
def x64():
    """Oracles are compared in float64."""
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)
