"""Speed of live calls: RapidAPI calls that no cache holds, beside a bare aiohttp proxy.

Both are in front of one upstream that answers at once, with quota headers as RapidAPI sends them.
The gateway does its full work for each call: it binds, looks on disk, counts the request in the
ledger, reads the answer and stores it. The proxy reads the body, sends the request and passes on
the answer. The host's limit allows as many calls as the load makes at once. Run as a program, this
module is the upstream, or with its URL the proxy.
"""

import logging
import statistics
import sys
import tempfile
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from itertools import count
from pathlib import Path

import aiohttp
import orjson
import uvloop
from aiohttp import web

from bench.speed.baselines.bare_server import serve
from bench.speed.load import Load, measure
from bench.speed.servers import server

log = logging.getLogger("finbench.speed")

TOOL = "get_coin"
CONNECTIONS = 64
ROUND_S = 3.0
ROUNDS = 5

_COINS = [{"uuid": f"c{n}", "symbol": "BTC", "rank": n, "price": "64000.123"} for n in range(25)]
ANSWER = orjson.dumps({"status": "success", "data": {"coins": _COINS}})
_HEAD = {
    "X-RateLimit-Requests-Limit": "1000000000",
    "X-RateLimit-Requests-Remaining": "900000000",
    "X-RateLimit-Requests-Reset": "2000000",
}

Figures = dict[str, float | str]


async def live(seconds: float = ROUND_S, rounds: int = ROUNDS) -> Figures:
    """Calls a second and latency quantiles of the gateway and of the proxy, in turns."""
    numbers = count()

    def body() -> bytes:
        return b'{"uuid":"n%d"}' % next(numbers)

    found: dict[str, list[Load]] = {"gateway": [], "proxy": []}
    async with AsyncExitStack() as parts:
        folder = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="finport-speed-")))
        own = (sys.executable, "-P", "-m", "bench.speed.live")
        upstream = await parts.enter_async_context(server(folder, *own))
        urls = {
            "gateway": await parts.enter_async_context(_gateway(folder, upstream)),
            "proxy": await parts.enter_async_context(server(folder, *own, upstream)),
        }
        for number in range(1, rounds + 1):
            log.info("round %d of %d", number, rounds)
            for name, url in urls.items():
                load = await measure(f"{url}/v1/tools/{TOOL}", body, CONNECTIONS, seconds)
                found[name].append(load)
    figures: Figures = {"connections": CONNECTIONS, "answer_bytes": len(ANSWER)}
    for name, loads in found.items():
        figures[f"{name}_calls_per_s"] = statistics.median(load.per_s() for load in loads)
        figures[f"{name}_p50_ms"] = statistics.median(load.quantile_ms(0.5) for load in loads)
        figures[f"{name}_p99_ms"] = statistics.median(load.quantile_ms(0.99) for load in loads)
    pairs = [*zip(found["gateway"], found["proxy"], strict=True)]
    ratios = [ours.per_s() / theirs.per_s() for ours, theirs in pairs]
    figures["ratio"] = statistics.median(ratios)
    figures["ratio_min"], figures["ratio_max"] = min(ratios), max(ratios)
    late = [ours.quantile_ms(0.99) / theirs.quantile_ms(0.99) for ours, theirs in pairs]
    figures["p99_ratio"] = statistics.median(late)
    return figures


def _gateway(folder: Path, upstream: str) -> AbstractAsyncContextManager[str]:
    """A gateway process in front of the upstream; as a context it gives its URL."""
    settings = {
        "RAPIDAPI_BASE_URL": upstream,
        "RAPIDAPI_KEYS": "made-for-the-measurement",
        "MAX_CONCURRENCY_PER_HOST": str(CONNECTIONS),
        "CACHE_DIR": str(folder / "cache"),
        "CLIENTS_FILE": str(folder / "clients.json"),
    }
    command = (sys.executable, "-P", "-m", "gateway.cli.main", "serve", "--port", "0")
    variables = {f"FINPORT_{name}": value for name, value in settings.items()}
    return server(folder, *command, "--until-stdin-closes", **variables)


async def _serve_upstream() -> None:
    async def handle(_: web.Request) -> web.Response:
        return web.Response(body=ANSWER, content_type="application/json", headers=_HEAD)

    await serve("upstream", [web.get("/{path:.*}", handle)])


async def _serve_proxy(upstream: str) -> None:
    async def handle(request: web.Request) -> web.Response:
        uuid = orjson.loads(await request.read())["uuid"]
        key = {"X-RapidAPI-Key": "made-for-the-measurement", "X-RapidAPI-Host": "coinranking1"}
        async with session.get(f"{upstream}/coin/{uuid}", headers=key) as response:
            body = await response.read()
        return web.Response(body=body, content_type="application/json")

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await serve("proxy", [web.post("/v1/tools/{name}", handle)])


if __name__ == "__main__":
    uvloop.run(_serve_proxy(sys.argv[1]) if sys.argv[1:] else _serve_upstream())
