"""A Ray to work on: this machine's own, or a cluster by its address."""

import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

_MEMORY = 0.75  # of an accelerator, which JAX takes at the start


class Resources(NamedTuple):
    """What a run gets.

    Attributes:
        workers: the most at a time; as many as there is room for, unless given.
        cores: of each. A part of one lets runs share a core, and spoil their times.
        accelerators: of each, or a part of one; one if there are any, unless given.
        address: of a Ray cluster; this machine alone, unless given.
    """

    workers: int | None = None
    cores: float = 1.0
    accelerators: float | None = None
    address: str | None = None


def prepare(address: str | None) -> None:
    """Set what Ray looks at as it is loaded; to be called before that."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # On systems where Ray knows no clusters it keeps to the loopback address, and so it
    # should wherever nobody asked for a cluster.
    if address is None:
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"


def ray() -> Any:
    """Ray, loaded on first use: it takes a second, and `prepare` comes before it."""
    import ray

    logging.getLogger("ray").setLevel(logging.ERROR)
    return ray


@contextlib.contextmanager
def connected(address: str | None) -> Iterator[None]:
    """Connect to the Ray of an address, or to one that ends with this process."""
    prepare(address)
    common: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    if address is None:
        ray().init("local", include_dashboard=False, **common)
    else:
        try:
            ray().init(address, **common)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise ValueError(
                f"--address {address}: {error}; give the HOST:PORT that `ray start "
                "--head` printed, or leave it out to use this machine alone"
            ) from error
    try:
        yield
    finally:
        ray().shutdown()


def environment(cores: float, accelerators: float = 0.0) -> dict[str, str]:
    """Keep XLA to what a run has of the machine, so that it takes none from another.

    Args:
        cores: of the run.
        accelerators: likewise. Of a shared one it gets its part of the memory that
            JAX takes at the start, which else is the same for each.
    """
    count = max(1, int(cores))
    flags = os.environ.get("XLA_FLAGS", "")
    if count == 1:
        flags = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
    passed = {k: os.environ[k] for k in ("QLR_DATA",) if k in os.environ}
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "2"}
    limits = {"XLA_FLAGS": flags, "NPROC": str(count)}
    if 0 < accelerators < 1:
        limits["XLA_CLIENT_MEM_FRACTION"] = f"{_MEMORY * accelerators:.3g}"
    return passed | quiet | limits
