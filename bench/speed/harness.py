"""The frame of all speed measurements.

A measurement is a module of this package with a coroutine function `measure`. It gets a `Harness`
and returns figures by name. What is compared is measured in turns (`in_turns`), so that ratios
count on a noisy machine. What needs a memory of its own runs `in_process`.
"""

import asyncio
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
)
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import aiohttp
import orjson
import uvloop

from bench import processes
from bench.speed.bare_server import Handler
from gateway.server.process import raise_file_limit

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger("finbench.speed")

Figures = dict[str, Any]

ABOUT_S = {
    "doors": 50,
    "live": 40,
    "inprocess": 25,
    "cache": 60,
    "snapshot": 60,
    "akshare": 90,
    "overload": 60,
    "floods": 100,
    "driver": 225,
    "model": 60,
    "hangs": 10,
    "rows": 5,
    "compress": 50,
    "shapes": 5,
    "market": 150,
    "drift": 600,
    "wire": 300,
    "gateways": 100,
    "ray": 420,
}
"""All measurements, and the seconds that each takes on two cores without the baselines that need a
Python named by the environment.
"""


class MeasurementError(Exception):
    """The intended thing was not measured; the text says what was observed instead."""


class NotMeasured(Exception):
    """Something that a measurement needs is not there; the text says what."""


@dataclass(frozen=True, slots=True)
class Harness:
    """A folder for a measurement, and the processes that it starts, which end with it."""

    folder: Path
    parts: AsyncExitStack

    async def gateway(self, *options: str, **settings: object) -> str:
        """Start a gateway (`bench.processes.gateway`); returns its URL."""
        opened = processes.gateway(self.folder, *options, **settings)
        return (await self.parts.enter_async_context(opened)).url

    async def server(self, *command: str, **variables: str) -> str:
        """Start a server (`bench.processes.server`); returns its URL."""
        opened = processes.server(self.folder, *command, **variables)
        return (await self.parts.enter_async_context(opened)).url

    async def serve(self, handler: Callable[..., Awaitable[Handler]], *arguments: str) -> str:
        """Start a process with a bare HTTP server; returns its URL. Its requests go to the handler
        that `handler` makes there from `arguments`.
        """
        return await self.server(*program(handler), *arguments)

    async def client(self, connections: int = 0) -> aiohttp.ClientSession:
        """A client with at most so many connections, or as many as it needs."""
        connector = aiohttp.TCPConnector(limit=connections)
        timeout = aiohttp.ClientTimeout(total=60)
        session = aiohttp.ClientSession(connector=connector, timeout=timeout)
        return await self.parts.enter_async_context(session)


def program(handler: Callable[..., Awaitable[Handler]]) -> tuple[str, ...]:
    """The command of a process that serves what `handler` makes of further arguments."""
    name = f"{handler.__module__}:{handler.__qualname__}"
    return (sys.executable, "-P", "-m", "bench.speed.bare_server", name)


@asynccontextmanager
async def harness() -> AsyncIterator[Harness]:
    async with AsyncExitStack() as parts:
        folder = parts.enter_context(tempfile.TemporaryDirectory(prefix="finport-speed-"))
        yield Harness(Path(folder), parts)


async def figures_of(name: str, *sizes: Any, **named: Any) -> Figures:
    """The figures of a measurement, or in words why there are none. The sizes are its own."""
    measure = import_module(f"bench.speed.{name}").measure
    async with harness() as own:
        try:
            figures: Figures = await measure(own, *sizes, **named)
        except NotMeasured as reason:
            return {name: f"not measured: {reason}"}
        return figures


async def in_process(
    part: Callable[Concatenate[Path, P], Coroutine[Any, Any, T]], *args: P.args, **named: P.kwargs
) -> T:
    """What a part of a measurement returns that runs on uvloop in a new process, in a folder of its
    own.
    """
    loop, spawn = asyncio.get_running_loop(), get_context("spawn")
    with ProcessPoolExecutor(1, spawn, initializer=_begin) as process:
        return await loop.run_in_executor(process, partial(_run, part, *args, **named))


def _begin() -> None:
    raise_file_limit()
    for name in os.environ.keys() - processes.environment().keys():
        del os.environ[name]


def _run(part: Callable[..., Coroutine[Any, Any, T]], *args: Any, **named: Any) -> T:
    with tempfile.TemporaryDirectory(prefix="finport-speed-") as folder:
        return uvloop.run(part(Path(folder), *args, **named))


class Turns:
    """What several sides measured in turns, a mapping of figures each round."""

    def __init__(self, sides: Iterable[str]) -> None:
        self.rounds: dict[str, list[Mapping[str, Any]]] = {side: [] for side in sides}

    def medians(self) -> Figures:
        """The median of each figure of each side, as `side_figure`; of a text the first."""
        return {
            f"{side}_{figure}": _median([found[figure] for found in rounds])
            for side, rounds in self.rounds.items()
            for figure in rounds[0]
        }

    def ratios(self, figure: str, side: str, other: str) -> list[float]:
        """The ratio of both sides in each round."""
        pairs = zip(self.rounds[side], self.rounds[other], strict=True)
        return [ours[figure] / theirs[figure] for ours, theirs in pairs]

    def ratio(self, figure: str, side: str, other: str) -> float:
        return statistics.median(self.ratios(figure, side, other))

    def spread(self, name: str, figure: str, side: str, other: str) -> Figures:
        """Median, minimum and maximum of the ratios, as `name`, `name_min` and `name_max`."""
        ratios = self.ratios(figure, side, other)
        median = statistics.median(ratios)
        return {name: median, f"{name}_min": min(ratios), f"{name}_max": max(ratios)}


def _median(values: list[Any]) -> Any:
    return values[0] if isinstance(values[0], str) else statistics.median(values)


async def in_turns(rounds: int, sides: Mapping[str, Callable[[], Awaitable[Figures]]]) -> Turns:
    """Measure each side once a round."""
    turns = Turns(sides)
    for number in range(1, rounds + 1):
        for side, measure in sides.items():
            log.info("%s, round %d of %d", side, number, rounds)
            turns.rounds[side].append(await measure())
    return turns


async def each(
    items: Iterable[T], callers: int, call: Callable[[T], Coroutine[Any, Any, object]]
) -> float:
    """Call with each item, `callers` at a time; returns the seconds that all took."""
    left, started = iter(items), time.perf_counter()

    async def caller() -> None:
        for item in left:
            await call(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(callers):
            group.create_task(caller())
    return time.perf_counter() - started


async def until(is_so: Callable[[], Awaitable[bool] | bool], every_s: float = 0.001) -> None:
    """Wait until it is so; the caller sets the limit."""
    while True:
        said = is_so()
        if said if isinstance(said, bool) else await said:
            return
        await asyncio.sleep(every_s)


def latencies(took_s: Iterable[float]) -> Figures:
    """Median and 99th percentile, in ms."""
    centiles = statistics.quantiles(took_s, n=100)
    return {"p50_ms": centiles[49] * 1e3, "p99_ms": centiles[98] * 1e3}


def cpu_ms(work: Callable[[], object], tries: int) -> float:
    """The median of this process's processor time for `work`, once everything is loaded."""
    work()
    took = []
    for _ in range(tries):
        started = time.process_time()
        work()
        took.append((time.process_time() - started) * 1e3)
    return statistics.median(took)


async def asked(client: aiohttp.ClientSession, url: str, body: bytes | None = None) -> Any:
    """The JSON that a GET, or with a body a POST, brings."""
    opened = client.get(url) if body is None else client.post(url, data=body)
    async with opened as response:
        return orjson.loads(await response.read())
