"""MCP over standard input and output, one message per line (`finport mcp`).

Up to `AT_ONCE` requests are answered concurrently. A client cancels by a notification and gets
progress if it asked for it. A client of a revision with a handshake is told of each change of the
list of tools; a later one asks for that (`subscriptions/listen`). One writer writes answers in the
order of completion. When the input ends, serving ends: requests under way are answered first, for
at most `drain_s`.
"""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing

import orjson

from gateway.access.rejection import RequestRejected
from gateway.api import mcp
from gateway.api.mcp import Mcp, Request
from gateway.api.mcp_errors import INVALID_REQUEST, PARSE_ERROR, McpError, refused
from gateway.api.mcp_tools import Visitor
from gateway.api.requests import MAX_BODY
from gateway.api.subscriptions import LIST_CHANGED, LISTEN
from gateway.api.tasks import Tasks
from gateway.call import Gateway
from gateway.search.finder import ToolFinder, embedder_limits
from manifests.common.json_text import read_json_aside
from manifests.common.threads import in_daemon

log = logging.getLogger("finport")

AT_ONCE = 256

CHUNK = 65_536
"""Bytes that are read at once."""


class McpStdio:
    """One client, on a pair of file descriptors."""

    def __init__(self, gateway: Gateway, visitor: Visitor, input_: int, output: int) -> None:
        self._gateway = gateway
        self._finder = ToolFinder.of(gateway.catalog, gateway.settings, embedder_limits())
        self._mcp = Mcp(gateway, self._finder, Tasks(gateway), announces=True)
        self._visitor = visitor
        self._input = input_
        self._output = output
        self._room = asyncio.Semaphore(AT_ONCE)
        self._under_way: dict[bytes, asyncio.Task[None]] = {}
        self._announcing: asyncio.Task[None] | None = None
        self._said: asyncio.Queue[bytes | None] = asyncio.Queue(AT_ONCE)

    async def serve(self) -> None:
        """Answer requests until the input ends or the client stops reading the output."""
        try:
            async with (
                aclosing(self._finder),
                asyncio.TaskGroup() as group,
                aclosing(self._lines()) as lines,
            ):
                writer = group.create_task(self._write())
                async for line in lines:
                    await self._take(line, group)
                self._mcp.leave()
                if under_way := [*self._under_way.values()]:
                    await asyncio.wait(under_way, timeout=self._gateway.settings.drain_s)
                for task in under_way:
                    task.cancel()
                if self._announcing is not None:
                    self._announcing.cancel()
                await self._said.put(None)
                await writer
        except* BrokenPipeError:
            log.info("the client reads no more")
        finally:
            self._mcp.leave()

    async def _lines(self) -> AsyncGenerator[bytes]:
        """Yield the lines that are not empty. Of a line that is too long, yield only the start."""
        rest, is_skipping = bytearray(), False
        while chunk := await self._read():
            first, *others = chunk.split(b"\n")
            rest += first
            if others:
                for line in (bytes(rest), *others[:-1]):
                    if line.strip() and not is_skipping:
                        yield line
                    is_skipping = False
                rest = bytearray(others[-1])
            if len(rest) > MAX_BODY:
                if not is_skipping:
                    yield bytes(rest)
                rest, is_skipping = bytearray(), True
        if rest.strip() and not is_skipping:
            yield bytes(rest)

    async def _read(self) -> bytes:
        try:
            return await in_daemon(os.read, self._input, CHUNK)
        except OSError:  # treated as the end of the input
            return b""

    async def _write(self) -> None:
        while (text := await self._said.get()) is not None:
            await in_daemon(_write_all, self._output, text + b"\n")

    async def _take(self, line: bytes, group: asyncio.TaskGroup) -> None:
        id_ = b"null"
        try:
            if len(line) > MAX_BODY:
                raise McpError(INVALID_REQUEST, f"a line is over {MAX_BODY} bytes")
            try:
                message = await read_json_aside(line)
            except orjson.JSONDecodeError as error:
                raise McpError(PARSE_ERROR, f"the line is no JSON: {error}") from None
            id_ = mcp.id_of(message)
            asked = mcp.read(message)
            if asked is None:
                self._take_note(message, group)
                return
            if asked.stateless:
                mcp.check_stateless(asked)
            if asked.id in self._under_way:
                raise McpError(INVALID_REQUEST, "a request of this id is under way")
        except McpError as fault:
            await self._said.put(fault.response(id_))
            return
        await self._room.acquire()
        task = self._under_way[asked.id] = group.create_task(self._answer(asked))
        task.add_done_callback(lambda _: self._left(asked))  # also runs if the task never began

    async def _answer(self, asked: Request) -> None:
        if asked.stateless and asked.method == LISTEN:
            await self._listen(asked)
            return
        answering = asyncio.ensure_future(self._mcp.answer(asked, self._visitor))
        try:
            token = asked.progress_token
            await asyncio.wait({answering}, timeout=None if token is None else mcp.PROGRESS_S)
            async with aclosing(mcp.progress_while(answering, token)) as notes:
                async for note in notes:
                    await self._said.put(note)
            text = answering.result()
        except McpError as fault:
            text = fault.response(asked.id)
        finally:
            answering.cancel()
        await self._said.put(text)

    async def _listen(self, asked: Request) -> None:
        """Tell of changes until the client cancels, or the input ends."""
        try:
            async with aclosing(self._mcp.listen(asked, self._visitor, "")) as messages:
                async for message in messages:
                    if message is not None:  # there is no silence to break
                        await self._said.put(message)
        except McpError as fault:
            await self._said.put(fault.response(asked.id))
        except RequestRejected as refusal:
            await self._said.put(refused(asked.id, refusal.error))

    async def _announce(self) -> None:
        """Tell a client of a revision with a handshake of each change of the list of tools."""
        async with aclosing(self._mcp.subscriptions.changes(self._visitor)) as changes:
            async for _ in changes:
                await self._said.put(LIST_CHANGED)

    def _left(self, asked: Request) -> None:
        del self._under_way[asked.id]
        self._room.release()

    def _take_note(self, message: object, group: asyncio.TaskGroup) -> None:
        if isinstance(message, dict) and message.get("method") == "notifications/initialized":
            if self._announcing is None:
                self._announcing = group.create_task(self._announce())
            return
        task = self._under_way.get(mcp.cancelled_id(message) or b"")
        if task is not None:
            task.cancel()


def _write_all(output: int, text: bytes) -> None:
    rest = memoryview(text)
    while rest:
        rest = rest[os.write(output, rest) :]
