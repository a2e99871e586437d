"""Bare TCP servers send heads for ever, or more than anyone asked for."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from yarl import URL

from adapters.connector import MOST_HEADS
from adapters.fault import UpstreamFault
from adapters.http import get, open_session
from bench.models.client import ModelClient
from bench.models.completion import ModelError
from bench.record import ModelCallRecord

pytestmark = pytest.mark.anyio

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CONTINUE, HINTS = b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def server(answer: Answer) -> AsyncIterator[str]:
    """`answer` writes what comes back to each request, until the connection ends."""
    ended: list[asyncio.Task[None]] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        current = asyncio.current_task()
        assert current is not None
        ended.append(current)
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                await answer(writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(handle, "127.0.0.1")
    try:
        yield "http://{}:{}".format(*listening.sockets[0].getsockname())
    finally:
        listening.close()
        await asyncio.wait_for(asyncio.gather(*ended), 60)


def for_ever(head: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(head * 1_000)
            await writer.drain()

    return answer


def once(text: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(text)
        await writer.drain()

    return answer


@pytest.mark.parametrize("head", [CONTINUE, HINTS, b"HTTP/1.1 199 x\r\n\r\n"])
async def test_informational_heads_without_end_close_their_connection(head: bytes) -> None:
    async with server(for_ever(head)) as url, open_session() as session:
        with pytest.raises(UpstreamFault, match="does not answer in HTTP") as caught:
            await get(session, URL(url), {}, 60)
    assert (caught.value.kind, caught.value.retryable) == ("unreachable", True)


async def test_informational_heads_as_upstreams_send_them_are_passed_over() -> None:
    text = CONTINUE + HINTS * (MOST_HEADS - 2) + ANSWER
    async with server(once(text)) as url, open_session() as session:
        for _ in range(3):
            assert (await get(session, URL(url), {}, 60)).body == b"{}"


async def test_answers_that_nobody_asked_for_are_not_taken_for_the_next_one() -> None:
    text = ANSWER + ANSWER.replace(b"{}", b"[]") * 10_000
    async with server(once(text)) as url, open_session() as session:
        for _ in range(3):
            assert (await get(session, URL(url), {}, 60)).body == b"{}"


async def test_a_model_that_sends_heads_without_end_gives_no_answer() -> None:
    async with (
        server(for_ever(CONTINUE)) as url,
        ModelClient.open(url, "m", None, retries=0) as client,
    ):
        record = ModelCallRecord(1, "act", "m", 0.0, 0.0)
        with pytest.raises(ModelError, match="does not answer in HTTP"):
            await client.complete([], record=record)
