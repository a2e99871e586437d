"""Tells a webhook and a command of changes, one change at a time.

Nobody waits for that. A change that can't be told is counted, and the log says so at most once in
`LOGGED_S`. The webhook's URL may hold a secret, so the log has its host alone; redirects are not
followed. The command runs without a shell, in a session of its own, with no secret in its
environment.
"""

import asyncio
import logging
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import anyio
import orjson

from adapters.connector import Connector
from adapters.process import environment, kill, standard_input
from gateway.settings import GatewaySettings
from gateway.shapes.known import Change

log = logging.getLogger("finport")

QUEUED = 100
"""Changes that may wait for one receiver."""

WEBHOOK_S, COMMAND_S = 5.0, 10.0
"""How long one change may take."""

CLOSE_S = 1.0
"""How long the changes that wait may take when the gateway closes."""

LOGGED_S = 60.0


class UndeliveredError(Exception):
    """A receiver did not take a change; the text says why and holds no secret."""


class Receiver:
    """One receiver of changes and those that wait for it. Made by `Receiver.open`."""

    def __init__(self, name: str, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._name = name
        self._send = send
        self._queue: asyncio.Queue[Change | None] = asyncio.Queue()  # bounded by `put`
        self._logged_at = -LOGGED_S
        self._untold = 0
        self.outcomes: Counter[str] = Counter()
        """Changes that were `sent`, have `failed`, or were `left_out`."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls, name: str, send: Callable[[bytes], Awaitable[None]]
    ) -> AsyncIterator["Receiver"]:
        """`send` delivers one change as JSON, or raises `UndeliveredError`."""
        receiver = cls(name, send)
        task = asyncio.create_task(receiver._tell())
        try:
            yield receiver
        finally:
            receiver._queue.put_nowait(None)
            with anyio.CancelScope(shield=True):
                await asyncio.wait([task], timeout=CLOSE_S)
                task.cancel()
                await asyncio.wait([task])
            left = sum(change is not None for change in receiver._rest())
            if left:
                receiver._lose("left_out", "the gateway has closed", left)

    def put(self, change: Change) -> None:
        if self._queue.qsize() >= QUEUED:
            self._lose("left_out", f"{QUEUED} changes wait already")
        else:
            self._queue.put_nowait(change)

    def _rest(self) -> list[Change | None]:
        return [self._queue.get_nowait() for _ in range(self._queue.qsize())]

    async def _tell(self) -> None:
        while (change := await self._queue.get()) is not None:
            try:
                await self._send(orjson.dumps(change.to_dict()))
                self.outcomes["sent"] += 1
            except UndeliveredError as error:
                self._lose("failed", str(error))
            except Exception as error:  # noqa: BLE001 - the next change can be told
                self._lose("failed", type(error).__name__)
            except asyncio.CancelledError:
                self._lose("failed", "the gateway has closed")
                raise

    def _lose(self, outcome: str, why: str, changes: int = 1) -> None:
        self.outcomes[outcome] += changes
        self._untold += changes
        if time.monotonic() >= self._logged_at + LOGGED_S:
            log.warning("%s missed changes (%d): %s", self._name, self._untold, why)
            self._logged_at, self._untold = time.monotonic(), 0


@asynccontextmanager
async def open_receivers(settings: GatewaySettings) -> AsyncIterator[dict[str, Receiver]]:
    """The receivers that the settings name, as `webhook` and `command`."""
    async with AsyncExitStack() as parts:
        receivers = {}
        if settings.shape_webhook is not None:
            url = settings.shape_webhook.get_secret_value()
            webhook = await parts.enter_async_context(_Webhook.open(url))
            name = f"the webhook at {urlsplit(url).hostname}"
            opened = Receiver.open(name, webhook.send)
            receivers["webhook"] = await parts.enter_async_context(opened)
        if settings.shape_command:
            command = _Command(settings.shape_command)
            name = f"the command {Path(settings.shape_command[0]).name}"
            opened = Receiver.open(name, command.send)
            receivers["command"] = await parts.enter_async_context(opened)
        yield receivers


class _Webhook:
    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str) -> AsyncIterator["_Webhook"]:
        async with aiohttp.ClientSession(
            connector=Connector(force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=WEBHOOK_S),
            headers={"Content-Type": "application/json"},
            auto_decompress=False,  # no body is read
        ) as session:
            yield cls(url, session)

    async def send(self, change: bytes) -> None:
        try:
            async with self._session.post(
                self._url, data=change, allow_redirects=False
            ) as response:
                status = response.status
        except TimeoutError:
            raise UndeliveredError(f"no answer within {WEBHOOK_S:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:  # its text may have the URL
            raise UndeliveredError(type(error).__name__) from None
        if not 200 <= status < 300:
            raise UndeliveredError(f"it answered {status}")


class _Command:
    def __init__(self, words: Sequence[str]) -> None:
        self._words = words

    async def send(self, change: bytes) -> None:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._words,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise UndeliveredError(f"it could not be started: {error.strerror}") from None
        try:
            async with asyncio.timeout(COMMAND_S):
                with suppress(OSError, RuntimeError):  # it may have ended without reading
                    pipe = standard_input(process)
                    pipe.write(change + b"\n")
                    pipe.close()
                await process.wait()
        except TimeoutError:
            raise UndeliveredError(f"it did not end within {COMMAND_S:g} s") from None
        finally:
            if process.returncode is None:
                kill(process)
                with anyio.CancelScope(shield=True):
                    await process.wait()
        if process.returncode:
            raise UndeliveredError(f"it ended with {process.returncode}")
