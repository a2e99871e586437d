"""Speed of AkShare calls over HTTP, beside AKTools in the same run.

Both let AkShare parse the same 250 bars of an upstream that takes 100 ms, once in clear and once
over TLS, and send all of them. Every call names a different stock, so no answer is cached or
shared. Both trust the authorities that requests trusts as installed, and one more that is made for
the run. AKTools is not one of our dependencies: `FINBENCH_AKTOOLS_PYTHON` names a Python that has
it. Only scheme and host of its requests are changed. Run as a program, this module is the upstream.
"""

import asyncio
import logging
import os
import random
import shutil
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import uvloop
from aiohttp import web
from anyio import to_thread

from adapters.simulator.akshare import PAYLOADS
from bench.environment import AKTOOLS_PYTHON
from bench.speed.measurement import MeasurementError
from bench.speed.servers import server
from gateway.settings import GatewaySettings

log = logging.getLogger("finbench.speed")

TOOL = "stock_zh_a_hist"
SOURCE = ("push2his.eastmoney.com", "/api/qt/stock/kline/get")
DAYS = {"start_date": "20230101", "end_date": "20231231"}
LAST_BAR = b"2023-12-29"
LATENCY_S = 0.1
CLIENTS = 256
SECONDS = 10.0
ROUNDS = 2
"""The least number of calls of each client, however long they take."""

TRUSTED, CERTIFICATE, KEY = "trusted.pem", "upstream.pem", "upstream.key"

_OURS = (sys.executable, "-P", "-m")
_AKTOOLS = Path(__file__).parent / "baselines" / "aktools.py"

Figures = dict[str, float | str]
Ask = Callable[
    [aiohttp.ClientSession, str, str], AbstractAsyncContextManager[aiohttp.ClientResponse]
]


async def akshare(seconds: float = SECONDS, clients: int = CLIENTS) -> Figures:
    """Calls a second and ms of both, about `seconds` each, and the ratios finport / aktools."""
    defaults = GatewaySettings.model_fields
    figures: Figures = {
        "clients": clients,
        "upstream_ms": LATENCY_S * 1e3,
        "per_host": clients,
        "akshare_workers": defaults["akshare_workers"].default,
        "akshare_threads": defaults["akshare_threads"].default,
    }
    if find_spec("akshare") is None:
        return figures | {"finport": "not measured: AkShare is not installed"}
    if AKTOOLS_PYTHON not in os.environ:
        figures["aktools"] = f"not measured: set {AKTOOLS_PYTHON}"
    with tempfile.TemporaryDirectory(prefix="finport-speed-") as name:
        folder = Path(name)
        if shutil.which("openssl"):
            await to_thread.run_sync(_make_certificates, folder)
        else:
            figures["tls"] = "not measured: there is no program openssl"
        async with server(folder, *_OURS, "bench.speed.akshare") as upstream:
            load = _Load(upstream, seconds, clients)
            for scheme, origin in (await load.upstream_state())["origins"].items():
                figures |= await _beside(folder, load, scheme, origin)
    return figures


async def _beside(folder: Path, load: "_Load", scheme: str, origin: str) -> Figures:
    """The figures of both servers, run one after the other, with the upstream at `origin`."""
    names = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
    is_made = (folder / TRUSTED).exists()
    trust = dict.fromkeys(names, str(folder / TRUSTED)) if is_made else {}
    serve = (*_OURS, "gateway.cli.main", "serve", "--port", "0", "--until-stdin-closes")
    settings = {
        "FINPORT_CACHE_DIR": str(folder / "cache"),
        "FINPORT_AKSHARE_BASE_URL": origin,
        "FINPORT_MAX_CONCURRENCY_PER_HOST": str(load.clients),
    }
    async with server(folder, *serve, **trust, **settings) as url:
        log.info("Finport, %s, up to about %g s", scheme, load.seconds)
        finport = await load.put_on(url, _ask_finport)
    figures: Figures = {f"{scheme}_finport_{name}": value for name, value in finport.items()}
    if python := os.environ.get(AKTOOLS_PYTHON):
        async with server(folder, python, "-P", str(_AKTOOLS), origin, **trust) as url:
            log.info("AKTools, %s, up to about %g s", scheme, load.seconds)
            aktools = await load.put_on(url, _ask_aktools)
        figures |= {f"{scheme}_aktools_{name}": value for name, value in aktools.items()}
        for name in ("calls_per_s", "p50_ms", "p99_ms"):
            figures[f"{scheme}_{name}_ratio"] = finport[name] / aktools[name]
    return figures


def _ask_finport(
    client: aiohttp.ClientSession, url: str, symbol: str
) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
    body = orjson.dumps({"symbol": symbol, **DAYS})
    return client.post(f"{url}/v1/tools/{TOOL}?max_rows=1000", data=body)


def _ask_aktools(
    client: aiohttp.ClientSession, url: str, symbol: str
) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
    return client.get(f"{url}/api/public/{TOOL}", params={"symbol": symbol, **DAYS})


@dataclass(frozen=True)
class _Load:
    """Clients that each hold a connection and send a call as soon as the last one is answered.

    `bench/speed/load.py` can't be used: it neither sends GET, which AKTools requires, nor checks
    the answers.
    """

    upstream: str
    seconds: float
    clients: int

    async def put_on(self, url: str, ask: Ask) -> dict[str, float]:
        """The figures of the clients, after a round in which connections open and workers start.

        Raises `MeasurementError` if no call is answered.
        """
        asked_before = (await self.upstream_state())["requests"]
        connector = aiohttp.TCPConnector(limit=self.clients)
        async with aiohttp.ClientSession(connector=connector) as session:
            calls = _Calls(ask, session, url)
            await asyncio.gather(*(calls.make() for _ in range(self.clients)))
            warm_up = len(calls.took_ms)
            started = time.perf_counter()
            until = started + self.seconds
            await asyncio.gather(*(calls.make_until(until) for _ in range(self.clients)))
            lasted_s = time.perf_counter() - started
        asked = (await self.upstream_state())["requests"] - asked_before
        took_ms = calls.took_ms[warm_up:]
        if not took_ms:
            raise MeasurementError(calls.failures[-1])
        centiles = statistics.quantiles(took_ms, n=100)
        return {
            "calls": len(took_ms),
            "errors": len(calls.failures),
            "requests_a_call": asked / (len(calls.took_ms) + len(calls.failures)),
            "calls_per_s": len(took_ms) / lasted_s,
            "p50_ms": centiles[49],
            "p99_ms": centiles[98],
        }

    async def upstream_state(self) -> Any:
        async with aiohttp.ClientSession() as session, session.get(self.upstream) as response:
            return orjson.loads(await response.read())


class _Calls:
    """The results of the calls to one server."""

    def __init__(self, ask: Ask, session: aiohttp.ClientSession, url: str) -> None:
        self.took_ms: list[float] = []
        self.failures: list[str] = []
        self._ask, self._session, self._url = ask, session, url
        self._symbols = (f"6{number:05}" for number in count())

    async def make(self) -> None:
        started = time.perf_counter()
        try:
            async with self._ask(self._session, self._url, next(self._symbols)) as response:
                answer = await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            self.failures.append(repr(error))
            return
        if response.status == 200 and LAST_BAR in answer:
            self.took_ms.append((time.perf_counter() - started) * 1e3)
        else:
            self.failures.append(f"{response.status} {answer[:200].decode(errors='replace')}")

    async def make_until(self, until: float) -> None:
        for made in count():
            if made >= ROUNDS and time.perf_counter() >= until:
                return
            await self.make()


def _make_certificates(folder: Path) -> None:
    """Make an authority, added to those that requests trusts, and its certificate for the upstream.

    Most of the cost of a new session is reading the whole list of authorities, so a list of one
    would not be the same work.
    """
    import certifi

    folder.chmod(0o755)  # a worker that gives up root reads in it
    new = (
        *("openssl", "req", "-x509", "-nodes", "-days", "2"),
        *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
    )
    authority = ("-subj", "/CN=finport-speed", "-keyout", "ca.key", "-out", "ca.pem")
    upstream = (
        *("-subj", "/CN=upstream", "-keyout", KEY, "-out", CERTIFICATE),
        *("-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "basicConstraints=critical,CA:FALSE"),
        *("-addext", "subjectAltName=IP:127.0.0.1"),
    )
    for wanted in (authority, upstream):
        subprocess.run([*new, *wanted], cwd=folder, check=True, stderr=subprocess.PIPE)  # noqa: S603
    trusted = Path(certifi.where()).read_bytes() + (folder / "ca.pem").read_bytes()
    (folder / TRUSTED).write_bytes(trusted)


async def _serve_upstream(tls: bool) -> None:
    """Serve in clear, and over TLS with the certificate in the current folder."""
    query = {"secid": "1.600519", "beg": DAYS["start_date"], "end": DAYS["end_date"]}
    payload = PAYLOADS[SOURCE](query, random.Random(0))  # noqa: S311 - sample data
    origins: dict[str, str] = {}
    requests = 0

    async def tell(_: web.Request) -> web.Response:
        return web.json_response({"origins": origins, "requests": requests})

    async def answer(_: web.Request) -> web.Response:
        nonlocal requests
        requests += 1
        await asyncio.sleep(LATENCY_S)
        return web.Response(body=payload.body, content_type=payload.content_type)

    app = web.Application()
    app.router.add_get("/", tell)
    app.router.add_get(SOURCE[1], answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    origins["clear"] = "http://127.0.0.1:{1}".format(*runner.addresses[0])
    if tls:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(CERTIFICATE, KEY)
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context, backlog=512).start()
        origins["tls"] = "https://127.0.0.1:{1}".format(*runner.addresses[1])
    print(f"upstream ready on {origins['clear']}", flush=True)  # noqa: T201
    ended = asyncio.Event()  # set when the process that started this one ends
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()


if __name__ == "__main__":
    uvloop.run(_serve_upstream(tls=Path(CERTIFICATE).exists()))
