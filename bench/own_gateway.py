"""Gateways of this process for rollouts of other frameworks: one for each set of settings."""

import asyncio
import atexit
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.processes import Server, gateway
from bench.suites.suite import Suite

READY_S = 90.0
"""How long a gateway may take until it is ready."""

_RUNNING: dict[str, "OwnGateway"] = {}
_LOCK = threading.Lock()


class OwnGateway:
    """A gateway over simulated upstreams that ends with this process. One that dies is started
    again at the same URL, so calls that are tried again reach it.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._url: Future[str] = Future()
        self._ending: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.process_id = 0
        self.starts = 0
        # A thread with a loop of its own: the loops of rollouts come and go.
        self._thread = threading.Thread(target=self._run, name="finport-gateway", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    async def url(self) -> str:
        """Raises `TimeoutError` and `ServerNotReadyError`."""
        async with asyncio.timeout(READY_S):
            return await asyncio.shield(asyncio.wrap_future(self._url))

    def close(self) -> None:
        """End the gateway."""
        if self._loop is not None and self._ending is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join(READY_S)

    def _run(self) -> None:
        try:
            with tempfile.TemporaryDirectory(prefix="finport-") as folder:
                asyncio.run(self._supervise(Path(folder)))
        except BaseException as error:  # noqa: BLE001 - those who wait for the URL are told
            if not self._url.done():
                self._url.set_exception(error)

    async def _supervise(self, folder: Path) -> None:
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        port = "0"
        while not self._ending.is_set():
            async with gateway(folder, "--port", port, quiet=True, **self._settings) as server:
                self.process_id, self.starts = server.process.pid, self.starts + 1
                port = str(urlsplit(server.url).port)
                if not self._url.done():
                    self._url.set_result(server.url)
                await self._ended(server)

    async def _ended(self, server: Server) -> None:
        """Wait until the process has ended, or is to end."""
        assert self._ending is not None  # noqa: S101 - set before any server starts
        waits = [asyncio.ensure_future(one) for one in (self._ending.wait(), server.process.wait())]
        _, pending = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for one in pending:
            one.cancel()


def own_gateway(suite: Suite) -> OwnGateway:
    """The gateway whose answers are those of the suite, started by the first who asks. It reaches
    no real upstream.
    """
    settings = {"upstream": "simulated", **suite.gateway_settings}
    if market := settings.get("market"):
        settings["market"] = Path(market).absolute()
    key = repr(sorted(settings.items()))
    with _LOCK:
        if (found := _RUNNING.get(key)) is None or not found._thread.is_alive():
            found = _RUNNING[key] = OwnGateway(settings)
        return found
