"""Bare HTTP servers, which are baselines and upstreams of measurements; as a program, one of them.

The program makes its handler with the coroutine function `MODULE:NAME` and serves it on a free
port, over TLS if there is a certificate in the variable `CERTIFICATE`. It ends when its standard
input closes.
"""

import asyncio
import os
import ssl
import sys
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module

import uvloop
from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

CERTIFICATE = "FINBENCH_SPEED_CERTIFICATE"
"""A file with a certificate and its key."""


def answering(
    body: bytes,
    content_type: str = "application/json",
    after_s: float = 0.0,
    headers: Mapping[str, str] | None = None,
) -> Handler:
    """A handler that always gives the same answer."""

    async def handle(_: web.Request) -> web.Response:
        if after_s:
            await asyncio.sleep(after_s)
        return web.Response(body=body, content_type=content_type, headers=headers)

    return handle


async def _serve(name: str, *arguments: str) -> None:
    module, _, function = name.partition(":")
    handle = await getattr(import_module(module), function)(*arguments)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    tls, scheme = None, "http"
    if certificate := os.environ.get(CERTIFICATE):
        tls, scheme = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), "https"
        tls.load_cert_chain(certificate)
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls, backlog=2_048).start()
    print(f"{function} ready on {scheme}://127.0.0.1:{runner.addresses[0][1]}", flush=True)  # noqa: T201
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()


if __name__ == "__main__":
    uvloop.run(_serve(*sys.argv[1:]))
