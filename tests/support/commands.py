"""`finport` and `finbench`, as a user runs them."""

import json
import os
import resource
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from bench.cli.main import main
from gateway.cli.main import main as gateway_main

FINPORT = (sys.executable, "-m", "gateway.cli.main")

FINBENCH = (sys.executable, "-c", "from bench.cli.main import main; main()")


def finport(
    *arguments: str, cache: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The command in this process, which saves its start."""
    env = {"FINPORT_CACHE_DIR": str(cache or "unused"), **environment}
    done = CliRunner(env=env).invoke(gateway_main, arguments, catch_exceptions=False)
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


def finport_process(*arguments: str, cache: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command as a process, where that matters."""
    env = {**os.environ, "FINPORT_CACHE_DIR": str(cache or "unused")}
    return subprocess.run(
        [*FINPORT, *arguments], env=env, capture_output=True, text=True, timeout=60, check=False
    )


def finbench_on_a_full_disk(room: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in this process, while its files may have so many bytes: Python ignores the
    signal for a longer one.
    """
    before, writes = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        return finbench(*arguments)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = writes


@contextmanager
def served(cache: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`finport serve` over simulated upstreams; its process, which the test may end, and URL."""
    process = subprocess.Popen(
        [*FINPORT, "serve", "--port", "0", "--upstream", "simulated", *options],
        env={**os.environ, "FINPORT_CACHE_DIR": str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("finport ready on http://127.0.0.1:"), line
        yield process, line.split()[-1]
    finally:
        process.kill()
        process.communicate()


def post(url: str, body: bytes) -> dict[str, object]:
    with urllib.request.urlopen(url, body, timeout=30) as response:
        envelope: dict[str, object] = json.load(response)
        return envelope


@contextmanager
def serving(folder: Path, *options: str, **environment: str) -> Iterator[tuple[int, str]]:
    """The same, told to end afterwards; the id of its process, and its URL."""
    serve = ["serve", "--port", "0", "--upstream", "simulated", *options]
    process = subprocess.Popen(
        [*FINPORT, *serve],
        env={**os.environ, "FINPORT_CACHE_DIR": str(folder / "cache"), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.pid, process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0, f"exit code {process.returncode}"


def finbench(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in this process, which saves its start."""
    done = CliRunner(env={"FINPORT_CACHE_DIR": "cache"}).invoke(main, arguments)
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


def finbench_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command as a process, where that matters."""
    env = {**os.environ, "FINPORT_CACHE_DIR": "cache"}
    return subprocess.run(
        [*FINBENCH, *arguments], env=env, capture_output=True, text=True, timeout=120, check=False
    )


def finbench_begun(*arguments: str, **streams: Any) -> subprocess.Popen[str]:
    """The command as a process that goes on, for a test that ends it."""
    env = {**os.environ, "FINPORT_CACHE_DIR": "cache"}
    given = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **streams}
    return subprocess.Popen([*FINBENCH, *arguments], env=env, text=True, **given)


def finbench_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in this process and in a folder, also for fixtures that outlive a test."""
    env: dict[str, str | None] = {
        **{name: None for name in os.environ if name.startswith("FINPORT_")},
        "FINPORT_CACHE_DIR": "cache",
        "FINPORT_AKSHARE_WORKERS": "1",
    }
    with chdir(folder):
        done = CliRunner(env=env).invoke(main, arguments)
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)
