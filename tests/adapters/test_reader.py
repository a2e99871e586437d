"""Real processes read real bodies; what they compute may be anything."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import pytest
from aiohttp import web

from adapters.conventions import UpstreamErrorBody
from adapters.fault import UpstreamFault
from adapters.http import Reply
from adapters.normalise import Answer, from_json
from adapters.reader import READ_AT_ONCE, Reader
from manifests import Catalog
from tests.support.checkout import ROOT
from tests.support.processes import is_running
from tests.support.tools import tool
from tests.support.upstreams import COINS, SECRET, adapter_for, upstream
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

LONG = b" " * READ_AT_ONCE


def answer(reply: Reply) -> Answer:
    return from_json(reply.body, reply.charset)


def refusal(reply: Reply, said: list[str]) -> UpstreamErrorBody:
    return UpstreamErrorBody(f"{said} of {len(reply.body)} bytes", reply.status)


def fault(_: Reply) -> Answer:
    raise UpstreamFault("rate_limited", "slowly", retryable=True, retry_after_s=2.5)


def process(_: Reply) -> Answer:
    arguments, environment = Path("/proc/self/cmdline"), Path("/proc/self/environ")
    told = arguments.read_text() + environment.read_text()
    return Answer(json.dumps([os.getpid(), SECRET in told]).encode())


def hangs(reply: Reply) -> Answer:
    Path(reply.charset or "").write_text(str(os.getpid()))
    time.sleep(600)
    raise AssertionError


def dies(_: Reply) -> Answer:
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError


def takes_all(_: Reply) -> Answer:
    blocks = []
    while True:
        blocks.append(bytearray(2**24))


def grows(_: Reply) -> Answer:
    KEPT.append(b"x" * 2**28)
    return Answer(str(os.getpid()).encode())


KEPT: list[bytes] = []


@pytest.fixture(scope="module")
async def reader() -> AsyncIterator[Reader]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", str(ROOT))
        environment.setenv("FINPORT_RAPIDAPI_KEYS", SECRET)
        async with Reader.open() as opened:
            yield opened


def reply(body: bytes = LONG, charset: str | None = None) -> Reply:
    return Reply(200, {}, charset, body)


async def number_of(reader: Reader, into: Callable[[Reply], Answer] = process) -> int:
    value = json.loads((await reader.read("h", reply(), into)).data)
    return int(value[0] if isinstance(value, list) else value)


async def test_a_long_body_comes_to_the_same_as_a_short_one(reader: Reader) -> None:
    for text in ('[{"a": "样"},{"b": 1e400}]', '{"a": [1]}', "[1,2]"):
        body = text.encode("gb18030")
        assert await reader.read("h", reply(body + LONG, "gb18030"), answer) == from_json(
            body, "gb18030"
        )
    assert await reader.read("h", reply(), refusal, ["a", "b"]) == UpstreamErrorBody(
        f"['a', 'b'] of {len(LONG)} bytes", 200
    )
    with pytest.raises(UpstreamFault) as caught:
        await reader.read("h", reply(), fault)
    assert (caught.value.kind, caught.value.message) == ("rate_limited", "slowly")
    assert (caught.value.retryable, caught.value.retry_after_s) == (True, 2.5)
    with pytest.raises(UpstreamFault, match="empty"):
        await reader.read("h", reply(), answer)


async def test_a_process_is_used_again_and_knows_no_secret(reader: Reader) -> None:
    first = json.loads((await reader.read("h", reply(), process)).data)
    assert first == [await number_of(reader), False]
    assert await reader.read("h", reply(b"short"), process) == process(reply())


@pytest.mark.parametrize("into", [dies, takes_all])
async def test_what_takes_too_much_memory_is_too_large_and_costs_no_other(
    reader: Reader, into: Callable[[Reply], Answer]
) -> None:
    with pytest.raises(UpstreamFault, match="memory") as caught:
        await reader.read("h", reply(), into)
    assert (caught.value.kind, caught.value.retryable) == ("too_large", False)
    assert await number_of(reader)


async def test_a_process_that_has_grown_or_ended_is_not_used_again(reader: Reader) -> None:
    grown = await number_of(reader, grows)
    other = await number_of(reader)
    assert grown != other
    os.kill(other, signal.SIGKILL)
    await until(lambda: not is_running(other))
    assert await number_of(reader) != other


async def test_a_host_whose_bodies_take_long_leaves_a_process_to_the_others(
    reader: Reader, tmp_path: Path
) -> None:
    slow = [
        asyncio.create_task(reader.read("slow", reply(charset=str(tmp_path / f"{n}")), hangs))
        for n in range(4)
    ]
    await started(tmp_path / "0")
    assert json.loads((await reader.read("other", reply(), process)).data)
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    assert not (tmp_path / "1").exists()


async def test_a_process_whose_caller_leaves_or_waits_for_too_long_is_ended(
    reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = asyncio.create_task(reader.read("h", reply(charset=str(tmp_path / "left")), hangs))
    abandoned = await started(tmp_path / "left")
    left.cancel()
    with pytest.raises(asyncio.CancelledError):
        await left
    assert not is_running(abandoned)
    monkeypatch.setattr("adapters.reader.READ_S", 0.2)
    with pytest.raises(UpstreamFault, match=r"took more than 0.2 s") as caught:
        await reader.read("h", reply(charset=str(tmp_path / "late")), hangs)
    assert (caught.value.kind, caught.value.retryable) == ("too_large", False)


async def started(file: Path) -> int:
    await until(lambda: file.exists() and file.read_text() != "")
    return int(await anyio.Path(file).read_text())


async def test_processes_end_with_their_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    async with Reader.open() as own:
        numbers = await asyncio.gather(*(number_of(own) for _ in range(4)))
    assert not any(map(is_running, numbers))


async def test_a_long_refusal_is_told_without_the_key_it_repeats(catalog: Catalog) -> None:
    async def handler(_: web.Request) -> web.Response:
        text = json.dumps({"message": f"no such key: {SECRET}"})
        return web.Response(text=text + " " * READ_AT_ONCE, content_type="application/json")

    async with upstream(handler) as url, adapter_for(catalog, url) as adapter:
        with pytest.raises(UpstreamFault, match=r"refused the call: no such key: \*\*\*") as caught:
            await adapter.fetch(tool(catalog, "get_coin"), {"uuid": COINS}, 30)
    assert caught.value.kind == "rejected"


def test_many_rows_are_normalised_within_bounds_of_memory() -> None:
    code = """
import resource
from adapters.normalise import from_json
body = b'[' + b','.join([b'{"a":1}'] * 300_000) + b']'
resource.setrlimit(resource.RLIMIT_DATA, (2**28, 2**28))
print(from_json(body).rows)
"""
    run = [sys.executable, "-c", code]
    told = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert told.stdout == "300000\n"
