"""A Ray of one's own: nobody else is let in, and nothing of it is left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from qlrstudy.cluster import connection

_DRIVER = """
import os, time
from qlrstudy.cluster import connection
with connection.connected(None):
    ray = connection.ray()
    ray.get(ray.remote(lambda: 1).remote())
    print(ray._private.worker._global_node.temp_dir, flush=True)
    {then}
"""


def _start(then: str) -> tuple[subprocess.Popen, Path]:
    program = [sys.executable, "-c", _DRIVER.format(then=then)]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip()).parent
    process.stdout.close()
    assert folder.name.startswith("qlrstudy-")
    return process, folder


def _others(folder: Path) -> list[psutil.Process]:
    """Processes of a session, by the folder that they were started with."""
    return [
        process
        for process in psutil.process_iter()
        if str(folder) in " ".join(_words(process))
    ]


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.mark.slow
def test_a_session_is_private_needs_a_token_and_is_removed():
    process, folder = _start("time.sleep(2)")
    assert folder.stat().st_mode & 0o077 == 0
    assert _others(folder)
    environment = psutil.Process(process.pid).children()[0].environ()
    assert environment["RAY_AUTH_MODE"] == "token"
    assert len(environment["RAY_AUTH_TOKEN"]) == 64
    assert process.wait(timeout=240) == 0
    assert not folder.exists()


@pytest.mark.slow
def test_a_killed_driver_takes_its_ray_with_it():
    process, folder = _start("time.sleep(600)")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 240
    while _others(folder):
        assert time.monotonic() < deadline, _others(folder)
        time.sleep(0.5)
    with connection._session():  # the next one clears up
        assert not folder.exists()


@pytest.mark.slow
def test_a_ray_that_starts_too_slowly_is_an_error_with_a_cure():
    """Its node is held back as soon as it is there; Ray waits half a minute for it."""
    command = [sys.executable, "-c", _DRIVER.format(then="pass")]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
    held: list[psutil.Process] = []
    while process.poll() is None and not held:
        held = [p for p in _children(process.pid) if "raylet" in _program(p)]
        time.sleep(0.01)
    for raylet in held:
        raylet.suspend()
    out, err = process.communicate(timeout=240)
    assert process.returncode == 1 and out == ""
    assert "ValueError: Ray did not start on this machine: " in err
    assert "it may be too busy: give the same command again later" in err
    assert not psutil.wait_procs(held, timeout=60)[1]


def _program(process: psutil.Process) -> str:
    return Path((_words(process) or [""])[0]).name


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
