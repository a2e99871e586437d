"""Passes calls to the worker process that holds what they are about, a session or a task.

Several workers serve together, and a client's next request may reach any of them. Each listens on a
Unix socket in the folder that they share, which only the operator's own processes can enter. A
connection carries one call: a frame with the call, answered by a frame with the fault, if any, and
the answer.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from platform import node
from secrets import token_hex
from typing import Any, Protocol

from adapters.fault import UpstreamFault
from adapters.frames import frame
from adapters.process import receive_from

LONGEST_FOLDER = 80
"""A socket's name has at most 108 bytes on Linux; a longer folder is named by its descriptor."""

CALL_BYTES = 4 * 2**20
"""The longest call; arguments over HTTP have at most 1 MiB."""

READ_S = 20.0
"""Within how many seconds a call must have arrived."""

Answer = Callable[[Mapping[str, Any], str], Awaitable[bytes]]
"""Answers a call of a client from what this worker holds. Raises `UpstreamFault`."""


class Elsewhere(Protocol):
    """The processes of other gateways, each named `GATEWAY.WORKER`."""

    async def ask(self, name: str, call: Mapping[str, Any], client: str, timeout_s: float) -> bytes:
        """The answer of that process. Raises `UpstreamFault`."""
        ...


OpenElsewhere = Callable[[str, Answer], AbstractAsyncContextManager[Elsewhere]]
"""Opens the way to other gateways for the process of this name, and answers their calls."""


class Peers:
    """The workers that serve together. Made by `Peers.open`."""

    def __init__(self, folder: Path, answer: Answer, what: str) -> None:
        self._folder = folder
        self._answer = answer
        self._what = what

    @classmethod
    @asynccontextmanager
    async def open(
        cls, folder: Path, own: int, answer: Answer, what: str
    ) -> AsyncIterator["Peers"]:
        """Worker `own` answers the calls of the others about `what` while the context is open.
        Raises `OSError` where it can't listen.
        """
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if len(os.fsencode(folder)) > LONGEST_FOLDER:
                folder = Path(f"/proc/self/fd/{opened}")
            peers = cls(folder, answer, what)
            path = peers._path(own)
            path.unlink(missing_ok=True)  # of a worker that died
            server = await asyncio.start_unix_server(peers._serve, path)
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
                    writer.write(frame({"call": call, "client": client}))
                    head, answer = await receive_from(reader)
                finally:
                    writer.close()
        except TimeoutError:
            text = f"the worker that holds this {self._what} did not answer in {timeout_s:.3g} s"
            raise UpstreamFault("timeout", text) from None
        except (OSError, asyncio.IncompleteReadError):
            text = f"the worker that held this {self._what} has ended"
            raise UpstreamFault("gone", text) from None
        if head["fault"] is not None:
            raise UpstreamFault(**head["fault"])
        return answer

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(READ_S):
                asked, _ = await receive_from(reader, CALL_BYTES)
            try:
                fault, answer = None, await self._answer(asked["call"], asked["client"])
            except UpstreamFault as error:
                fault, answer = error.arguments, b""
            writer.write(frame({"fault": fault}, answer))
            await writer.drain()
        except (OSError, ValueError, asyncio.IncompleteReadError):  # gone, or no worker
            pass
        finally:
            writer.close()

    def _path(self, worker: int) -> Path:
        return self._folder / f"{self._what}-{worker}.sock"


def gateway_name(shared: Path | None) -> str:
    """The name of the gateway whose workers share this folder, or of one process."""
    if shared is None:
        return token_hex(8)
    made = f"{shared} {shared.stat().st_ino} {node()}"
    return blake2b(made.encode(), digest_size=8).hexdigest()
