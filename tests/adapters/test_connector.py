"""Bare TCP servers send heads for ever, or more than anyone asked for."""

import asyncio

import pytest
from yarl import URL

from adapters.connector import MOST_HEADS
from adapters.fault import UpstreamFault
from adapters.http import open_session, send
from bench.models.client import ModelClient
from bench.models.completion import ModelError
from bench.record import ModelCallRecord
from tests.support.upstreams import CONTINUE, HINTS, Answer, bare_server, for_ever

pytestmark = pytest.mark.anyio

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def once(text: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(text)
        await writer.drain()

    return answer


@pytest.mark.parametrize("head", [CONTINUE, HINTS, b"HTTP/1.1 199 x\r\n\r\n"])
async def test_informational_heads_without_end_close_their_connection(head: bytes) -> None:
    async with bare_server(for_ever(head)) as url, open_session() as session:
        with pytest.raises(UpstreamFault, match="does not answer in HTTP") as caught:
            await send(session, URL(url), {}, 60)
    assert (caught.value.kind, caught.value.retryable) == ("unreachable", True)


async def test_informational_heads_as_upstreams_send_them_are_passed_over() -> None:
    text = CONTINUE + HINTS * (MOST_HEADS - 2) + ANSWER
    async with bare_server(once(text)) as url, open_session() as session:
        for _ in range(3):
            assert (await send(session, URL(url), {}, 60)).body == b"{}"


async def test_answers_that_nobody_asked_for_are_not_taken_for_the_next_one() -> None:
    text = ANSWER + ANSWER.replace(b"{}", b"[]") * 10_000
    async with bare_server(once(text)) as url, open_session() as session:
        for _ in range(3):
            assert (await send(session, URL(url), {}, 60)).body == b"{}"


async def test_a_model_that_sends_heads_without_end_gives_no_answer() -> None:
    async with (
        bare_server(for_ever(CONTINUE)) as url,
        ModelClient.open(url, "m", None, retries=0) as client,
    ):
        record = ModelCallRecord(1, "act", "m", 0.0, 0.0)
        with pytest.raises(ModelError, match="does not answer in HTTP"):
            await client.complete([], record=record)
