"""Bare aiohttp servers, used as baselines of measurements and as their counterparts.

As a program it is the baseline of `finbench speed doors`: it answers every POST whose body is JSON
with the content of the given file.
"""

import asyncio
import sys
from collections.abc import Iterable
from pathlib import Path

import orjson
import uvloop
from aiohttp import web


async def serve(
    name: str, routes: Iterable[web.RouteDef], path: str = "", backlog: int = 128
) -> None:
    """Serve `routes` on a free port until the process that started this one ends. The line that
    announces the server has its name and its URL, which ends with `path`.
    """
    app = web.Application()
    app.add_routes(routes)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=backlog).start()
    host, port = runner.addresses[0]
    print(f"{name} ready on http://{host}:{port}{path}", flush=True)  # noqa: T201
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()


async def _serve(answer: bytes) -> None:
    async def handle(request: web.Request) -> web.Response:
        orjson.loads(await request.read())
        return web.Response(body=answer, content_type="application/json")

    await serve("bare", [web.post("/v1/tools/{name}", handle)])


if __name__ == "__main__":
    uvloop.run(_serve(Path(sys.argv[1]).read_bytes()))
