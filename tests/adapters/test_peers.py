"""Calls that one worker passes to another: an answer arrives whole, or a fault says why not."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from adapters.fault import UpstreamFault
from adapters.frames import frame
from adapters.peers import Peers

pytestmark = pytest.mark.anyio


async def answered(call: Mapping[str, Any], client: str) -> bytes:
    if call["operation"] == "trade":
        raise UpstreamFault("misused", "the current day is another")
    return f"{client} {call['operation']}\n".encode()


async def test_an_answer_or_its_fault_arrives_whole(tmp_path: Path) -> None:
    async with AsyncExitStack() as parts:
        one, _ = [
            await parts.enter_async_context(Peers.open(tmp_path, own, answered, "session"))
            for own in (0, 1)
        ]
        assert await one.ask(1, {"operation": "observe"}, "me", 5) == b"me observe\n"
        with pytest.raises(UpstreamFault, match="the current day is another") as told:
            await one.ask(1, {"operation": "trade"}, "me", 5)
        assert told.value.kind == "misused"
        with pytest.raises(UpstreamFault, match="has ended") as told:
            await one.ask(2, {"operation": "observe"}, "me", 5)
        assert told.value.kind == "gone"


HALF = frame({"fault": None}, b"an answer")[:-4]


@pytest.mark.parametrize(("said", "kind"), [(b"", "gone"), (HALF, "gone"), (None, "timeout")])
async def test_a_worker_that_ends_or_stalls_gives_no_part_of_an_answer(
    tmp_path: Path, said: bytes | None, kind: str
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        if said is None:
            await reader.read()  # until the other one has given up
        else:
            writer.write(said)
        writer.close()

    server = await asyncio.start_unix_server(serve, tmp_path / "session-1.sock")
    async with server, Peers.open(tmp_path, 0, answered, "session") as peers:
        with pytest.raises(UpstreamFault) as told:
            await peers.ask(1, {"operation": "observe"}, "me", 0.2)
        assert told.value.kind == kind
