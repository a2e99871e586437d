"""Speed of live calls: RapidAPI calls that no cache holds, beside a bare aiohttp proxy.

Both are in front of one upstream that answers at once, with quota headers as RapidAPI sends them.
The gateway does its full work for each call: it binds, looks on disk, counts the request in the
ledger, reads the answer and stores it. The proxy reads the body, sends the request and passes on
the answer. The host's limit allows as many calls as the load makes at once.
"""

from functools import partial
from itertools import count

import aiohttp
import orjson
from aiohttp import web

from bench.speed.bare_server import Handler, answering
from bench.speed.harness import Figures, Harness
from bench.speed.load import CONNECTIONS, ROUND_S, ROUNDS, measured, request

KEY = "made-for-the-measurement"

_COINS = [{"uuid": f"c{n}", "symbol": "BTC", "rank": n, "price": "64000.123"} for n in range(25)]
ANSWER = orjson.dumps({"status": "success", "data": {"coins": _COINS}})
_LIMITS = {
    "X-RateLimit-Requests-Limit": "1000000000",
    "X-RateLimit-Requests-Remaining": "900000000",
    "X-RateLimit-Requests-Reset": "2000000",
}


async def measure(harness: Harness) -> Figures:
    """Calls a second and latency quantiles of the gateway and of the proxy, in turns."""
    origin, numbers = await harness.serve(upstream), count()
    urls = {
        "gateway": await harness.gateway(
            rapidapi_base_url=origin, rapidapi_keys=KEY, max_concurrency_per_host=CONNECTIONS
        ),
        "proxy": await harness.serve(proxy, origin),
    }

    async def side(url: str) -> Figures:
        def call() -> bytes:
            return request("POST", f"{url}/v1/tools/get_coin", b'{"uuid":"n%d"}' % next(numbers))

        return await measured(url, call, harness.seconds(ROUND_S))

    sides = {name: partial(side, url) for name, url in urls.items()}
    turns = await harness.in_turns(ROUNDS, sides)
    return {
        **turns.medians(),
        **turns.spread("ratio", "calls_per_s", "gateway", "proxy"),
        "p99_ratio": turns.ratio("p99_ms", "gateway", "proxy"),
    }


async def upstream() -> Handler:
    return answering(ANSWER, headers=_LIMITS)


async def proxy(upstream: str) -> Handler:
    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    key = {"X-RapidAPI-Key": KEY, "X-RapidAPI-Host": "coinranking1"}

    async def handle(request: web.Request) -> web.Response:
        uuid = orjson.loads(await request.read())["uuid"]
        async with session.get(f"{upstream}/coin/{uuid}", headers=key) as response:
            body = await response.read()
        return web.Response(body=body, content_type="application/json")

    return handle
