"""Passes calls to the worker process that holds their session.

Several workers serve together, and a client's next request may reach any of them. Each listens on a
Unix socket in the folder that they share, which only the operator's own processes can enter. A
connection carries one call: a line of JSON, answered by a line with the fault, if any, and the size
of the answer, and by the answer.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import orjson

from adapters.fault import UpstreamFault

LINE_BYTES = 4 * 2**20
"""The longest call; arguments over HTTP have at most 1 MiB."""

LONGEST_FOLDER = 80
"""A socket's name has at most 108 bytes on Linux; a longer folder is named by its descriptor."""

READ_S = 20.0
"""Within how many seconds a call must have arrived."""

Answer = Callable[[Mapping[str, Any], str], Awaitable[bytes]]
"""Answers a call of a client from this worker's own sessions. Raises `UpstreamFault`."""


class Peers:
    """The workers that serve together. Made by `Peers.open`."""

    def __init__(self, folder: Path, answer: Answer) -> None:
        self._folder = folder
        self._answer = answer

    @classmethod
    @asynccontextmanager
    async def open(cls, folder: Path, own: int, answer: Answer) -> AsyncIterator["Peers"]:
        """Worker `own` answers the calls of the others while the context is open. Raises `OSError`
        where it can't listen.
        """
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if len(os.fsencode(folder)) > LONGEST_FOLDER:
                folder = Path(f"/proc/self/fd/{opened}")
            peers = cls(folder, answer)
            path = peers._path(own)
            path.unlink(missing_ok=True)  # of a worker that died
            server = await asyncio.start_unix_server(peers._serve, path, limit=LINE_BYTES)
            try:
                yield peers
            finally:
                server.close()
                with suppress(OSError):
                    path.unlink()
        finally:
            os.close(opened)

    async def ask(
        self, worker: int, call: Mapping[str, Any], client: str, timeout_s: float
    ) -> bytes:
        """The answer of another worker. Raises `UpstreamFault`, also where there is none."""
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await asyncio.open_unix_connection(self._path(worker))
                try:
                    writer.write(orjson.dumps({"call": call, "client": client}) + b"\n")
                    await writer.drain()
                    said = await reader.read()
                finally:
                    writer.close()
        except TimeoutError:
            text = f"the worker that holds this session did not answer within {timeout_s:.3g} s"
            raise UpstreamFault("timeout", text) from None
        except OSError:
            raise _ended() from None
        head, _, body = said.partition(b"\n")
        fault, size = orjson.loads(head) if head else (None, -1)
        if fault is not None:
            raise UpstreamFault(**fault)
        if len(body) != size:  # it ended while it wrote
            raise _ended()
        return body

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(READ_S):
                asked = orjson.loads(await reader.readline())
            try:
                answer = await self._answer(asked["call"], asked["client"])
                writer.write(orjson.dumps([None, len(answer)]) + b"\n" + answer)
            except UpstreamFault as fault:
                writer.write(orjson.dumps([fault.arguments, 0]) + b"\n")
            await writer.drain()
        except (OSError, ValueError):  # the other worker went away, or was no worker
            pass
        finally:
            writer.close()

    def _path(self, worker: int) -> Path:
        return self._folder / f"market-{worker}.sock"


def _ended() -> UpstreamFault:
    return UpstreamFault("gone", "the worker that held this session has ended")
