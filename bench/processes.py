"""Starts servers and runs for a demonstration or a measurement, each in its own process."""

import asyncio
import contextlib
import os
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import anyio
import orjson

FINBENCH = (sys.executable, "-P", "-c", "from bench.cli.main import main; main()")
READY_S = 30.0
RUN_S = 600.0

Variables = Mapping[str, str]
NONE: Variables = MappingProxyType({})


class ServerNotReadyError(Exception):
    """A server process did not become ready."""


class RunFailedError(Exception):
    """A run did not end as it should; the text says how it did."""


class Server(NamedTuple):
    """A server's process, and the URL that it announced."""

    url: str
    process: Process


def environment(variables: Variables = NONE) -> dict[str, str]:
    """This process's environment without its Finport settings, keys and proxies, and with
    `variables`.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("FINPORT_") and not name.lower().endswith(("_key", "_proxy"))
    }
    return {**kept, **variables}


@asynccontextmanager
async def server(
    folder: Path, *command: str, variables: Variables = NONE, quiet: bool = False
) -> AsyncIterator[Server]:
    """Start a process that announces its URL on its first line.

    It runs in `folder`, in an `environment` with `variables`, and ends with the context; if it is
    `quiet`, its stderr is not shown. Raises `ServerNotReadyError`.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=environment(variables),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if quiet else None,
        start_new_session=True,  # a Ctrl-C reaches only this process, which then ends the server
    )
    try:
        yield Server(await _announced_url(process), process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        with anyio.CancelScope(shield=True):
            await process.wait()


def gateway(
    folder: Path,
    *options: str,
    variables: Variables = NONE,
    quiet: bool = False,
    **settings: Any,
) -> AbstractAsyncContextManager[Server]:
    """`finport serve` with these options and settings on a free port; its cache and its clients are
    in `folder`. As a context it raises `ServerNotReadyError`.
    """
    own = {"cache_dir": folder / "cache", "clients_file": folder / "clients.json", **settings}
    named = {f"FINPORT_{name.upper()}": str(value) for name, value in own.items()}
    serve = ("gateway.cli.main", "serve", "--port", "0", "--until-stdin-closes", *options)
    command = (sys.executable, "-P", "-m", *serve)
    return server(folder, *command, variables={**variables, **named}, quiet=quiet)


async def run(folder: Path, out: str, *options: str, **settings: str) -> dict[str, Any]:
    """What the `run.json` of `finbench run` with these options says, in `folder` and without a Ray
    that is there already. Raises `RunFailedError` and `TimeoutError`.
    """
    variables = environment({f"FINPORT_{name.upper()}": value for name, value in settings.items()})
    variables.pop("RAY_ADDRESS", None)
    process = await asyncio.create_subprocess_exec(
        *(*FINBENCH, "run", *options, "--json", "--out", out),
        cwd=folder,
        env=variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(RUN_S):
            _, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    if process.returncode:
        text = f"a run ended with exit code {process.returncode}: {said.decode()[-500:].strip()}"
        raise RunFailedError(text)
    written = await asyncio.to_thread((folder / out / "run.json").read_bytes)
    about: dict[str, Any] = orjson.loads(written)
    return about


async def _announced_url(process: Process) -> str:
    """The last word of a server's first line of output. Raises `ServerNotReadyError`."""
    assert process.stdout is not None  # noqa: S101 - a pipe was asked for
    try:
        async with asyncio.timeout(READY_S):
            line = (await process.stdout.readline()).decode()
    except TimeoutError:
        line = ""
    if " ready on " not in line:
        raise ServerNotReadyError(f"a server did not start: {line.strip() or 'no word from it'}")
    return line.split()[-1]
