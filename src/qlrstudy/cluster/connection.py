"""A Ray to work on: this machine's own, or a cluster by its address."""

import contextlib
import logging
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

_SESSION = "qlrstudy-"
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
    # Whoever else is on this machine must not be let in; see Ray's own documentation.
    if address is None and os.environ.setdefault("RAY_AUTH_MODE", "token") == "token":
        if "RAY_AUTH_TOKEN_PATH" not in os.environ:
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
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
    with contextlib.ExitStack() as left:
        if address is None:
            folder = left.enter_context(_session())
            common |= {"include_dashboard": False, "_temp_dir": str(folder / "ray")}
        left.callback(ray().shutdown)
        ends = signal.getsignal(signal.SIGTERM)
        try:
            ray().init(address or "local", **common)
        except Exception as error:  # Ray's own are of many kinds
            raise ValueError(_refused(address, error)) from error
        # Ray takes SIGTERM for itself, prints a trace of its own stack and exits; a
        # caller that keeps what is under way gets it back.
        if callable(ends):
            signal.signal(signal.SIGTERM, ends)
        yield


def _refused(address: str | None, error: Exception) -> str:
    said = (str(error).strip() or type(error).__name__).splitlines()[0]
    if address is None:
        return (
            f"Ray did not start on this machine: {said}; it may be too busy: give the "
            "same command again later, or start a Ray by `ray start --head` and give "
            "its --address"
        )
    return (
        f"--address {address}: {said}; give the HOST:PORT that `ray start --head` "
        "printed, or leave it out to use this machine alone"
    )


@contextlib.contextmanager
def _session() -> Iterator[Path]:
    """A folder for a Ray of this process, which only its user may enter.

    Ray's own in it is open to all.

    What a process that was killed has left is removed by the next one.
    """
    # Names of sockets must be short, which those of other folders need not be.
    root = Path("/tmp") if Path("/tmp").is_dir() else Path(tempfile.gettempdir())
    for old in root.glob(f"{_SESSION}*"):
        if not _is_alive(old):
            shutil.rmtree(old, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{_SESSION}{os.getpid()}-", dir=root))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_alive(session: Path) -> bool:
    """Whether the process that made a session is still there, or not this user's."""
    pid = session.name.removeprefix(_SESSION).partition("-")[0]
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return session.stat().st_uid != os.getuid()
    except (ValueError, OSError):
        pass
    return True


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
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3"}
    limits = {"XLA_FLAGS": flags, "NPROC": str(count)}
    if 0 < accelerators < 1:
        limits["XLA_CLIENT_MEM_FRACTION"] = f"{_MEMORY * accelerators:.3g}"
    return passed | quiet | limits
