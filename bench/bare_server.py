"""The baseline of `finbench speed http`: an aiohttp handler and nothing else.

Reads the answer to give from standard input, then serves it to every POST whose body is JSON.
"""

import asyncio
import sys

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
    size = int.from_bytes(sys.stdin.buffer.read(8), "big")
    uvloop.run(_serve(sys.stdin.buffer.read(size)))
