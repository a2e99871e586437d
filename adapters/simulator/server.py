"""The server of the simulated upstream: the requested host decides which provider answers.

A request names its original host in a header, and each provider answers those to its own hosts.
Equal requests get equal answers for one seed, and equal lies. Faults are drawn in the order of
arrival, or come from a script. AkShare's adapter tells the lies of its answers, as only that has
them as JSON.
"""

import asyncio
import random
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date

import orjson
from aiohttp import web
from anyio import to_thread

from adapters.host import LIED, ORIGINAL_HOST
from adapters.providers import PROVIDERS
from adapters.simulator.faults import Fault, Faults
from adapters.simulator.keys import UnknownError
from adapters.simulator.playing import play
from adapters.simulator.shapes import Luck, Request
from adapters.simulator.world.world import NOW, World
from manifests import Catalog

CLOCK = frozenset({"_", "___jsl", "last_time", "sign"})
"""Query fields in which AkShare sends the current time; answers don't depend on them."""


async def _fields(request: web.Request) -> dict[str, str]:
    """The fields of a form, or of a JSON object, whose values stay JSON unless they are text."""
    if request.content_type != "application/json":
        form = await request.post() if request.can_read_body else {}
        return {name: str(value) for name, value in form.items()}
    try:
        body = orjson.loads(await request.read())
    except orjson.JSONDecodeError:
        return {}
    pairs = body.items() if isinstance(body, dict) else ()
    return {n: v if isinstance(v, str) else orjson.dumps(v).decode() for n, v in pairs}


class SimulatedUpstream:
    """A running simulated upstream. `requests` counts the requests by (host, path)."""

    def __init__(self, catalog: Catalog, world: World, faults: Faults) -> None:
        self.world = world
        self.faults = faults
        self.requests: Counter[tuple[str, str]] = Counter()
        self.base_url = ""
        self._scripts: defaultdict[str, deque[Fault | None]] = defaultdict(deque)
        self._luck = random.Random(world.seed)  # noqa: S311 - simulation
        self._simulations = [p.simulate(catalog) for p in PROVIDERS.values() if p.simulate]

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        catalog: Catalog,
        *,
        seed: int = 0,
        now: date = NOW,
        faults: Faults | None = None,
    ) -> AsyncIterator["SimulatedUpstream"]:
        """Serve on a free port of the loopback interface; `base_url` says where."""
        upstream = cls(catalog, World(seed, now), faults or Faults())
        app = web.Application(client_max_size=2**20)
        app.router.add_route("*", r"/{path:[\s\S]*}", upstream._answer)
        runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            upstream.base_url = "http://127.0.0.1:{1}".format(*runner.addresses[0])
            yield upstream
        finally:
            await runner.cleanup()

    def play(self, host: str, *faults: Fault | None) -> None:
        """Set the faults of the next requests to `host`, in order; None is an answer without fault.

        No fault is drawn for these requests. The host `*` means any host; a host's own script takes
        precedence.
        """
        self._scripts[host].extend(faults)

    def _fault(self, host: str) -> Fault | None:
        for name in (host, "*"):
            if script := self._scripts.get(name):
                return script.popleft()
        return self.faults.draw(self._luck)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        host = request.headers.get(ORIGINAL_HOST, request.headers.get("X-RapidAPI-Host", ""))
        self.requests[host, request.path] += 1
        fault = self._fault(host)
        await asyncio.sleep(self.faults.latency_s)
        if fault is not None:
            return await play(fault, request)
        text = {name: str(value) for name, value in request.query.items()} | await _fields(request)
        # A long price history takes 20 ms to make, too long for the gateway's event loop.
        return await to_thread.run_sync(self._payload, request, host, text)

    def _payload(self, request: web.Request, host: str, query: dict[str, str]) -> web.Response:
        path = request.path
        asked = sorted(item for item in query.items() if item[0] not in CLOCK)
        rng = Luck(f"{self.world.seed} {host} {path} {asked}", self.world, path)
        sent = Request(host, path, query, rng, bool(request.headers.get("X-RapidAPI-Key")))
        for simulation in self._simulations:
            try:
                reply = simulation(sent)
            except UnknownError as error:
                return web.json_response({"message": f"{error}"}, status=404)
            if reply is not None:
                headers = {"Content-Type": reply.content_type}
                body, lies = reply.body, self.faults.lies
                if lies.rate and reply.status == 200 and "X-RapidAPI-Host" in request.headers:
                    value = orjson.loads(body)
                    if (lie := lies.tell(value, host, path, asked)) is not None:
                        body, headers[LIED] = orjson.dumps(value), lie
                return web.Response(body=body, status=reply.status, headers=headers)
        return web.Response(status=404, text=f"the simulated upstream has nothing for {host}{path}")
