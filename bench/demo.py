"""The demonstration: a gateway with the upstream double in its place, and agents driven through it.

The gateway is a process of its own on a free port and ends with this one, however that ends; its
cache starts empty, so the figures are those of a first run.
"""

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import click
import orjson

from bench.agents import ErrorRates
from bench.live import closing, report
from bench.run import RunPlan, run
from bench.run_dir import RunDirectoryError
from bench.suite import load_suite
from gateway import GatewaySettings
from gateway.trace import TraceError

THINK_S = 0.5
LATENCY_S = 0.1
FAILURE_RATE = 0.05
READY_S = 30.0


class GatewayNotReadyError(Exception):
    """The gateway process did not come up."""


async def show(episodes: int, concurrency: int, out: Path) -> int:
    """Run the demonstration into `out`; gives the exit code."""
    click.echo(
        f"upstreams are simulated: {LATENCY_S * 1e3:.0f} ms, {FAILURE_RATE:.0%} of requests fail; "
        f"agents are scripted and take {THINK_S:g} s to think before each turn"
    )
    with tempfile.TemporaryDirectory(prefix="finport-demo-") as cache:
        try:
            async with served_gateway(Path(cache)) as url:
                click.echo(f"gateway on {url}")
                plan = RunPlan(
                    suite=load_suite("starter"),
                    gateway=url,
                    episodes=episodes,
                    concurrency=concurrency,
                    seed=0,
                    think_s=THINK_S,
                    rates=ErrorRates(),
                )
                about = await run(plan, out, GatewaySettings.read(), show=True)
                health = await _health(url)
        except (RunDirectoryError, TraceError, GatewayNotReadyError) as error:
            click.echo(f"finbench: {error}", err=True)
            return 1
    report(orjson.loads((out / "metrics.json").read_bytes()), about)
    closing(about, out, gateway=health, driver=about["driver"])
    return 0


@asynccontextmanager
async def served_gateway(
    cache: Path, *, latency_s: float = LATENCY_S, failure_rate: float = FAILURE_RATE
) -> AsyncIterator[str]:
    """A gateway process with a simulated upstream; gives its URL. Ends with the context."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "gateway.cli", "serve", "--port", "0"),
        *("--upstream", "simulated"),
        *("--simulated-latency-s", str(latency_s)),
        *("--simulated-failure-rate", str(failure_rate)),
        "--until-stdin-closes",
        env={n: v for n, v in os.environ.items() if not n.startswith("FINPORT_")}
        | {"FINPORT_CACHE_DIR": str(cache)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield await ready(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        with anyio.CancelScope(shield=True):
            await process.wait()


async def ready(process: Process) -> str:
    """The URL that a server's first line of output names. Raises `GatewayNotReadyError`."""
    assert process.stdout is not None  # noqa: S101 - a pipe was asked for
    try:
        async with asyncio.timeout(READY_S):
            line = (await process.stdout.readline()).decode()
    except TimeoutError:
        line = ""
    if " ready on " not in line:
        raise GatewayNotReadyError(
            f"the gateway did not start: {line.strip() or 'no word from it'}"
        )
    return line.split()[-1]


async def _health(url: str) -> dict[str, Any]:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/healthz") as response:
        health: dict[str, Any] = orjson.loads(await response.read())
        return health
