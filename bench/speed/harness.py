"""The frame of all speed measurements.

A measurement is a module of this package with a coroutine function `measure`. It gets a `Harness`
and returns figures by name. What is compared is measured in turns (`Harness.in_turns`), so that
ratios count on a noisy machine. What needs a memory of its own runs `in_process`.
"""

import asyncio
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import orjson
import uvloop

from bench import processes
from bench.processes import NONE, Variables
from bench.speed.bare_server import Handler
from gateway.server.process import raise_file_limit

T = TypeVar("T")
Figures = dict[str, Any]
Measure = Callable[[], Awaitable[Figures]]
MakesHandler = Callable[..., Coroutine[Any, Any, Handler]]

log = logging.getLogger("finbench.speed")

LEAST_S = 0.2


class MeasurementError(Exception):
    """The intended thing was not measured; the text says what was observed instead."""


class NotMeasured(Exception):
    """Something that a measurement needs is not there; the text says what."""


@dataclass(frozen=True, slots=True)
class Harness:
    """A folder for a measurement, the processes that it starts, which end with it, and its size:
    figures count at a `scale` of 1, and tests measure less.
    """

    folder: Path
    parts: AsyncExitStack
    scale: float

    @classmethod
    @asynccontextmanager
    async def open(cls, scale: float = 1.0) -> AsyncIterator["Harness"]:
        async with AsyncExitStack() as parts:
            folder = parts.enter_context(tempfile.TemporaryDirectory(prefix="finport-speed-"))
            yield cls(Path(folder), parts, scale)

    def number(self, whole: int) -> int:
        """So many of something, or fewer."""
        return max(round(whole * self.scale), 1)

    def seconds(self, whole: float) -> float:
        """So many seconds, or fewer."""
        return max(whole * self.scale, LEAST_S)

    async def gateway(self, *options: str, **settings: Any) -> str:
        """Start a gateway (`bench.processes.gateway`); returns its URL."""
        opened = processes.gateway(self.folder, *options, **settings)
        return (await self.parts.enter_async_context(opened)).url

    async def server(self, *command: str, variables: Variables = NONE) -> str:
        """Start a server (`bench.processes.server`); returns its URL."""
        opened = processes.server(self.folder, *command, variables=variables)
        return (await self.parts.enter_async_context(opened)).url

    async def serve(
        self, handler: MakesHandler, *arguments: str, variables: Variables = NONE
    ) -> str:
        """Start a process with a bare HTTP server (`program`); returns its URL."""
        return await self.server(*program(handler, *arguments), variables=variables)

    async def client(self, connections: int = 0) -> aiohttp.ClientSession:
        """A client with at most so many connections, or as many as it needs."""
        connector, timeout = aiohttp.TCPConnector(limit=connections), aiohttp.ClientTimeout(60)
        session = aiohttp.ClientSession(connector=connector, timeout=timeout)
        return await self.parts.enter_async_context(session)

    async def in_turns(self, rounds: int, sides: Mapping[str, Measure]) -> "Turns":
        """Measure each side once a round."""
        turns, rounds = Turns(sides), self.number(rounds)
        for number in range(1, rounds + 1):
            for side, measure in sides.items():
                log.info("%s, round %d of %d", side, number, rounds)
                turns.rounds[side].append(await measure())
        return turns


class Turns:
    """What several sides measured in turns: figures of each round."""

    def __init__(self, sides: Iterable[str]) -> None:
        self.rounds: dict[str, list[Figures]] = {side: [] for side in sides}

    def medians(self) -> Figures:
        """The median of each figure of each side, as `side_figure`; of a text the last."""
        return {
            f"{side}_{figure}": last if isinstance(last, str) else self._median(side, figure)
            for side, rounds in self.rounds.items()
            for figure, last in rounds[-1].items()
        }

    def ratio(self, figure: str, side: str, other: str) -> float:
        """The median of the ratios of both sides in each round."""
        return statistics.median(self._ratios(figure, side, other))

    def spread(self, name: str, figure: str, side: str, other: str) -> Figures:
        """Median, minimum and maximum of the ratios, as `name`, `name_min` and `name_max`."""
        ratios = self._ratios(figure, side, other)
        median = statistics.median(ratios)
        return {name: median, f"{name}_min": min(ratios), f"{name}_max": max(ratios)}

    def _median(self, side: str, figure: str) -> float:
        return float(statistics.median(found[figure] for found in self.rounds[side]))

    def _ratios(self, figure: str, side: str, other: str) -> list[float]:
        pairs = zip(self.rounds[side], self.rounds[other], strict=True)
        return [ours[figure] / theirs[figure] for ours, theirs in pairs]


async def figures_of(name: str, scale: float = 1.0) -> Figures:
    """The figures of a measurement, or in words why there are none."""
    measure = import_module(f"bench.speed.{name}").measure
    async with Harness.open(scale) as harness:
        try:
            figures: Figures = await measure(harness)
        except NotMeasured as reason:
            return {name: f"not measured: {reason}"}
        return figures


def program(handler: MakesHandler, *arguments: str) -> tuple[str, ...]:
    """The command of a process that serves what `handler` makes there of the arguments."""
    name = f"{handler.__module__}:{handler.__name__}"
    return (sys.executable, "-P", "-m", "bench.speed.bare_server", name, *arguments)


async def in_process(part: Callable[..., Coroutine[Any, Any, T]], *args: Any, **named: Any) -> T:
    """What a part of a measurement returns that runs on uvloop in a new process. It gets a folder
    of its own and the arguments.
    """
    with ProcessPoolExecutor(1, get_context("spawn"), initializer=_begin) as process:
        run = partial(_run, part, *args, **named)
        return await asyncio.get_running_loop().run_in_executor(process, run)


def _begin() -> None:
    raise_file_limit()
    for name in os.environ.keys() - processes.environment().keys():
        del os.environ[name]


def _run(part: Callable[..., Coroutine[Any, Any, T]], *args: Any, **named: Any) -> T:
    with tempfile.TemporaryDirectory(prefix="finport-speed-") as folder:
        return uvloop.run(part(Path(folder), *args, **named))


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


async def until(is_so: Callable[[], bool], every_s: float = 0.001) -> None:
    """Wait until it is so; the caller sets the limit."""
    while not is_so():  # noqa: ASYNC110 - nothing tells that it is so
        await asyncio.sleep(every_s)


async def asked(client: aiohttp.ClientSession, url: str, body: bytes | None = None) -> Any:
    """The JSON that a GET, or with a body a POST, brings."""
    async with client.request("GET" if body is None else "POST", url, data=body) as response:
        return orjson.loads(await response.read())


def latencies(took_s: Iterable[float]) -> Figures:
    """Median and 99th percentile, in ms."""
    centiles = statistics.quantiles(took_s, n=100)
    return {"p50_ms": centiles[49] * 1e3, "p99_ms": centiles[98] * 1e3}
