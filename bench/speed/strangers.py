"""The effect of callers without a key on clients with one, on a gateway with keys.

A client with a key makes cached calls at a fixed rate. Each call is timed from when it was due, so
that a stalled gateway shows in the figures. Meanwhile callers without a key ("strangers"), in their
own process, send as many requests as they can on many connections. Each kind of flood is measured
in turns with an idle gateway. Run as a program, this module is these callers.
"""

import asyncio
import logging
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import orjson
import uvloop

from bench.speed.measurement import MeasurementError
from bench.speed.servers import server

log = logging.getLogger("finbench.speed")

KEY = "made-for-the-measurement"
TOOL, ARGUMENTS = "get_coin", {"uuid": "x"}
CALLERS, CALLS_PER_S = 8, 400
CONNECTIONS, AT_ONCE = 40, 16
SECONDS, ROUNDS = 2.0, 3
BODY = 2**20

FLOODS = (
    *("selections", "description", "searches", "refusals"),
    *("bodies", "connections", "malformed"),
)

Figures = dict[str, float | str]


async def strangers(
    seconds: float = SECONDS, rounds: int = ROUNDS, floods: tuple[str, ...] = FLOODS
) -> Figures:
    """The 99th percentile of a client's cached calls in ms, idle and under each flood."""
    with tempfile.TemporaryDirectory(prefix="finport-speed-") as name:
        folder = Path(name)
        settings = {
            "FINPORT_CACHE_DIR": str(folder / "cache"),
            "FINPORT_CLIENTS_FILE": str(folder / "clients.json"),
            "FINPORT_API_KEYS": KEY,
        }
        python = (sys.executable, "-P", "-m")
        serve = ("gateway.cli.main", "serve", "--port", "0", "--upstream", "simulated")
        async with server(folder, *python, *serve, "--until-stdin-closes", **settings) as url:
            await _p99_ms(url, seconds)  # the first calls are not cached
            figures: Figures = {"connections": CONNECTIONS, "calls_per_s": CALLS_PER_S}
            for kind in floods:
                log.info("a flood of %s", kind)
                idle, flooded, answered = [], [], []
                for _ in range(rounds):
                    idle.append(await _p99_ms(url, seconds))
                    async with _flood(folder, url, kind) as answers_per_s:
                        flooded.append(await _p99_ms(url, seconds))
                    answered.append(answers_per_s[0])
                figures |= {
                    f"{kind}_idle_p99_ms": statistics.median(idle),
                    f"{kind}_p99_ms": statistics.median(flooded),
                    f"{kind}_times_idle": statistics.median(flooded) / statistics.median(idle),
                    f"{kind}_answered_per_s": statistics.median(answered),
                }
            return figures


async def _p99_ms(url: str, seconds: float) -> float:
    """The 99th percentile of calls timed from when they were due; `bench/speed/load.py` times calls
    from when it sends them.
    """
    parts = urlsplit(url)
    body = orjson.dumps(ARGUMENTS)
    request = (
        f"POST /v1/tools/{TOOL} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        f"Authorization: Bearer {KEY}\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    took: list[float] = []
    began = time.perf_counter() + 0.1
    each_s = CALLERS / CALLS_PER_S

    async def caller(number: int) -> None:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        for turn in range(int(seconds / each_s)):
            due = began + each_s * (turn + number / CALLERS)
            await asyncio.sleep(due - time.perf_counter())
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            _, _, after = head.lower().partition(b"content-length: ")
            await reader.readexactly(int(after.partition(b"\r\n")[0]))
            took.append(time.perf_counter() - due)
            if not head.startswith(b"HTTP/1.1 200"):
                raise MeasurementError(f"a call was not answered: {head[:200]!r}")
        writer.close()

    async with asyncio.TaskGroup() as group:
        for number in range(CALLERS):
            group.create_task(caller(number))
    return statistics.quantiles(took, n=100)[98] * 1e3


@asynccontextmanager
async def _flood(folder: Path, url: str, kind: str) -> AsyncIterator[list[float]]:
    """Requests without a key while the context is open; then the list holds their answers a second.

    The context opens when the first one is answered.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "bench.speed.strangers", url, kind),
        cwd=folder,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None  # noqa: S101 - a pipe was asked for
    answered: list[float] = []
    try:
        await process.stdout.readline()
        yield answered
        said, _ = await process.communicate(b"")
        answered.append(float(said))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


class _Stranger(asyncio.Protocol):
    """A connection that asks again as soon as it is answered, and counts answers.

    It sends many requests at once, and malformed ones, which `bench/speed/load.py` does not.
    """

    def __init__(self, requests: Iterator[bytes], at_once: int, answered: asyncio.Event) -> None:
        self.answers = 0
        self._answered = answered
        self.lost = asyncio.get_running_loop().create_future()
        self._requests = requests
        self._at_once = at_once
        self._owed = 0
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._ask()

    def connection_lost(self, _: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(None)

    def data_received(self, data: bytes) -> None:
        came = data.count(b"HTTP/1.1 ")
        self.answers += came
        self._answered.set()
        self._owed -= came
        if self._owed <= 0:
            self._ask()

    def _ask(self) -> None:
        self._owed = self._at_once
        self._transport.write(b"".join(next(self._requests) for _ in range(self._at_once)))


def _requests(kind: str, netloc: str) -> Iterator[bytes]:
    end = f"HTTP/1.1\r\nHost: {netloc}\r\n"
    for number in count():
        match kind:
            case "selections":
                names = f"source:akshare,rapidapi;names:get_coin,t{number}"
                target = "/openapi.json" + (f"?tools={names}" if number % 2 else "?tools=all")
                yield f"GET {target} {end}Accept-Encoding: gzip\r\n\r\n".encode()
            case "description":
                yield f"GET /openapi.json {end}Accept-Encoding: gzip\r\n\r\n".encode()
            case "searches":
                yield f"GET /?q=treasury+yields+of+China+{number} {end}\r\n".encode()
            case "bodies":
                head = f"POST /v1/tools/{TOOL} {end}Content-Length: {BODY}\r\n\r\n"
                yield head.encode() + bytes(BODY)
            case "malformed":
                yield f"GET / {end}No header\r\n\r\n".encode()
            case "connections":
                yield f"GET /v1/tools {end}Connection: close\r\n\r\n".encode()
            case _:
                yield f"POST /v1/tools/{TOOL} {end}Content-Length: 2\r\n\r\n{{}}".encode()


async def _be_strangers(url: str, kind: str) -> None:
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 80
    loop = asyncio.get_running_loop()
    requests = _requests(kind, parts.netloc)
    answered, ended = asyncio.Event(), asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ended.set)  # when the process that started this one ends
    all_of_them: list[_Stranger] = []

    async def stranger() -> None:
        while True:
            made = _Stranger(requests, AT_ONCE if kind == "refusals" else 1, answered)
            await loop.create_connection(lambda: made, host, port)  # noqa: B023
            all_of_them.append(made)
            await made.lost

    tasks = [asyncio.create_task(stranger()) for _ in range(CONNECTIONS)]
    await answered.wait()
    print("flooding", flush=True)  # noqa: T201
    began = time.perf_counter()
    await ended.wait()
    answers = sum(one.answers for one in all_of_them)
    print(answers / (time.perf_counter() - began))  # noqa: T201
    for task in tasks:
        task.cancel()


if __name__ == "__main__":
    uvloop.run(_be_strangers(*sys.argv[1:]))
