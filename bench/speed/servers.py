"""Starts servers for a demonstration or a measurement, each in its own process."""

import asyncio
import contextlib
import os
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

READY_S = 30.0


class ServerNotReadyError(Exception):
    """A server process did not become ready."""


@asynccontextmanager
async def server(folder: Path, *command: str, **variables: str) -> AsyncIterator[str]:
    """Start a process that announces its URL on its first line; gives that URL.

    It runs in `folder` with `variables` added to this process's environment, without its Finport
    settings and proxies. Ends with the context. Raises `ServerNotReadyError`.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("FINPORT_") and not name.lower().endswith("_proxy")
    }
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=kept | variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # a Ctrl-C reaches only this process, which then ends the server
    )
    try:
        yield await ready(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        with anyio.CancelScope(shield=True):
            await process.wait()


@asynccontextmanager
async def served_gateway(
    folder: Path, *, latency_s: float, failure_rate: float, workers: int = 1
) -> AsyncIterator[str]:
    """A gateway of `workers` processes with a simulated upstream and its cache in `folder`; gives
    its URL.

    Ends with the context. Raises `ServerNotReadyError`.
    """
    serve = (
        "gateway.cli.main",
        "serve",
        "--port",
        "0",
        "--upstream",
        "simulated",
        "--workers",
        str(workers),
    )
    simulated = (
        *("--simulated-latency-s", str(latency_s)),
        *("--simulated-failure-rate", str(failure_rate)),
    )
    command = (sys.executable, "-P", "-m", *serve, *simulated, "--until-stdin-closes")
    own = {"CACHE_DIR": "cache", "CLIENTS_FILE": "clients.json"}
    variables = {f"FINPORT_{name}": str(folder / place) for name, place in own.items()}
    async with server(folder, *command, **variables) as url:
        yield url


async def ready(process: Process) -> str:
    """The URL that a server's first line of output names. Raises `ServerNotReadyError`."""
    assert process.stdout is not None  # noqa: S101 - a pipe was asked for
    try:
        async with asyncio.timeout(READY_S):
            line = (await process.stdout.readline()).decode()
    except TimeoutError:
        line = ""
    if " ready on " not in line:
        raise ServerNotReadyError(f"a server did not start: {line.strip() or 'no word from it'}")
    return line.split()[-1]
