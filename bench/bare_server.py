"""The baseline of `finbench speed doors`: an aiohttp handler and nothing else.

Serves what the file holds that it is given to every POST whose body is JSON.
"""

import asyncio
import sys
from pathlib import Path

import orjson
import uvloop
from aiohttp import web


async def _serve(answer: bytes) -> None:
    async def handle(request: web.Request) -> web.Response:
        orjson.loads(await request.read())
        return web.Response(body=answer, content_type="application/json")

    app = web.Application()
    app.router.add_post("/v1/tools/{name}", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print("bare ready on http://{}:{}".format(*runner.addresses[0]), flush=True)  # noqa: T201
    ended = asyncio.Event()  # with the process that started this one
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()


if __name__ == "__main__":
    uvloop.run(_serve(Path(sys.argv[1]).read_bytes()))
