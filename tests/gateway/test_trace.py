"""The trace when it is full: producers wait in line, one lets the next on, none is forgotten. And
when its disk is full: it ends with a whole record, and goes on where it stopped.
"""

import asyncio
import json
import resource
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gateway import CallContext
from gateway.server import http
from gateway.trace import BOUND, JsonLines, TraceError
from manifests import Catalog
from tests.support.commands import served
from tests.support.gateways import LocalGateway, open_local_gateway
from tests.support.upstreams import upstream
from tests.support.waiting import PATIENCE_S, Held, until

pytestmark = pytest.mark.anyio

RECORD = {"text": "x" * 20_000}
PRODUCERS, EACH = 100, 5
FULL = Path("/dev/full")


async def produce(lines: JsonLines, most: list[int]) -> None:
    for _ in range(EACH):
        if lines.full:
            await lines.room()
        lines.put(RECORD)
        most.append(len(lines._buffer))


async def test_producers_that_wait_all_go_on_and_keep_to_the_bound(tmp_path: Path) -> None:
    most: list[int] = []
    async with asyncio.timeout(PATIENCE_S), JsonLines.open(tmp_path / "lines") as lines:
        await asyncio.gather(*(produce(lines, most) for _ in range(PRODUCERS)))
    assert (tmp_path / "lines").read_bytes().count(b"\n") == PRODUCERS * EACH
    assert max(most) < BOUND + 2 * len(RECORD["text"])


@pytest.mark.parametrize("name", ["lines", "lines.torn"])
async def test_records_go_through_a_link_only_where_the_user_named_it(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "mine").write_text('{"cut off')
    (tmp_path / "lines").write_text('{"cut off')
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).symlink_to("mine")
    with pytest.raises(TraceError, match=rf"{name}: it is a symbolic link"):
        async with JsonLines.open(tmp_path / "lines"):
            pass
    assert (tmp_path / "mine").read_text() == '{"cut off'
    if name == "lines":
        async with JsonLines.open(tmp_path / "lines", follow_links=True) as lines:
            lines.put({"a": 1})
        assert (tmp_path / "mine").read_text() == '{"a":1}\n'


async def test_a_producer_that_is_cancelled_in_line_keeps_nobody_waiting(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S), JsonLines.open(tmp_path / "lines") as lines:
        tasks = [asyncio.create_task(produce(lines, [])) for _ in range(PRODUCERS)]
        await asyncio.sleep(0)
        assert lines.full
        for task in tasks[:-1:2]:
            task.cancel()
        await asyncio.sleep(0)
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(one is None or isinstance(one, asyncio.CancelledError) for one in ended)
    assert ended.count(None) >= PRODUCERS // 2


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
async def test_producers_in_line_are_told_when_writing_fails() -> None:
    async def write() -> None:
        async with asyncio.timeout(PATIENCE_S), JsonLines.open(FULL, follow_links=True) as lines:
            producers = [produce(lines, []) for _ in range(PRODUCERS)]
            results = await asyncio.gather(*producers, return_exceptions=True)
            assert TraceError in {type(result) for result in results}

    with pytest.raises(TraceError, match="No space left"):
        await write()


AGAIN_S = 0.01
MARGIN = 300
"""Bytes that still fit on a disk that is called full: a piece of a record."""


@contextmanager
def full_disk(file: Path) -> Iterator[None]:
    """No file may grow beyond what `file` has now, and a little."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + MARGIN, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def numbers(file: Path) -> list[int]:
    return [json.loads(line)["n"] for line in file.read_text().splitlines()]


def numbered(n: int) -> dict[str, Any]:
    return {"n": n, "text": "x" * 200}


async def test_a_stream_goes_on_where_a_full_disk_stopped_it(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    async with JsonLines.open(file, AGAIN_S) as lines:
        lines.put(numbered(0))
        await lines.written()
        with full_disk(file):
            for n in range(1, 5):
                lines.put(numbered(n))
            await until(lambda: lines.failure is not None)
            assert lines.failure == "File too large"
            assert numbers(file) == [0, 1], "whole records only"
            lines.put(numbered(5))
        await lines.written()
        assert lines.failure is None
        assert numbers(file) == [0, 1, 2, 3, 4, 5]
    assert numbers(file) == [0, 1, 2, 3, 4, 5]


async def test_a_stream_that_does_not_try_again_ends_with_a_whole_record(tmp_path: Path) -> None:
    file = tmp_path / "lines"

    async def write() -> None:
        async with JsonLines.open(file) as lines:
            lines.put(numbered(0))
            await lines.written()
            with full_disk(file):
                for n in range(1, 5):
                    lines.put(numbered(n))
                await lines.written()
            with pytest.raises(TraceError, match="File too large"):
                lines.put(numbered(5))

    with pytest.raises(TraceError, match="File too large; 3 records could not be written"):
        await write()
    assert numbers(file) == [0, 1]


async def test_closing_on_a_full_disk_says_what_is_lost(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"")

    async def write() -> None:
        async with JsonLines.open(file, 60) as lines:
            lines.put(numbered(0))
            lines.put(numbered(1))
            await until(lambda: lines.failure is not None)

    with (
        full_disk(file),
        pytest.raises(TraceError, match="File too large; 1 records could not be written"),
    ):
        await write()
    assert numbers(file) == [0]


@pytest.mark.parametrize("torn", [b'{"n": 1, "te', b'{"n": 1}', b"x" * 200_000])
@pytest.mark.parametrize("whole", [b"", b'{"n": 0}\n'])
async def test_what_was_cut_off_is_moved_aside_and_glued_to_nothing(
    tmp_path: Path, whole: bytes, torn: bytes
) -> None:
    file = tmp_path / "lines"
    file.write_bytes(whole + torn)
    for n in (2, 3):
        async with JsonLines.open(file) as lines:
            lines.put({"n": n})
    assert numbers(file) == [0, 2, 3][not whole :]
    assert (tmp_path / "lines.torn").read_bytes() == torn + b"\n"


class Told:
    """An observer."""

    def __init__(self) -> None:
        self.codes: list[str] = []

    def ended(self, result: Any, bound: object, context: object) -> None:  # noqa: ARG002
        self.codes.append(result.error.code.value if result.error else "ok")


@asynccontextmanager
async def traced(
    catalog: Catalog, folder: Path, again_s: float = AGAIN_S, **settings: Any
) -> AsyncIterator[tuple[LocalGateway, Held, JsonLines]]:
    """With a long `again_s` a write that failed is tried again at the end."""
    slow = Held()
    slow.released.set()
    async with (
        upstream(slow.handle) as origin,
        JsonLines.open(folder / "calls.jsonl", again_s) as lines,
        open_local_gateway(
            catalog,
            folder,
            trace=lines,
            rapidapi_base_url=origin,
            allow_transactional=True,
            **settings,
        ) as local,
    ):
        yield local, slow, lines


def coin(n: int) -> tuple[str, dict[str, Any]]:
    return "get_coin", {"uuid": f"{n:0200}"}


WALLET = ("generate_wallet", {"chain": "ethereum"})


async def test_while_the_trace_can_t_be_written_nothing_is_asked_and_then_all_goes_on(
    catalog: Catalog, tmp_path: Path
) -> None:
    file = tmp_path / "calls.jsonl"
    async with (
        traced(catalog, tmp_path) as (local, slow, lines),
        http.serve(local.gateway, "127.0.0.1", 0) as url,
        aiohttp.ClientSession() as client,
    ):
        with local.gateway.observed(Told()) as told:
            slow.released.clear()
            first = asyncio.create_task(local.gateway.call(*WALLET))
            await until(lambda: slow.asked == 1)
            with full_disk(file):
                slow.released.set()
                assert (await first).ok, "the answer of a call that was executed is given"
                await until(lambda: lines.failure is not None)
                for call in (WALLET, coin(0), ("nothing_like_it", {})):
                    async with client.post(f"{url}/v1/tools/{call[0]}", json=call[1]) as answer:
                        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
                        error = (await answer.json())["error"]
                    assert (error["code"], error["retryable"]) == ("overloaded", True)
                    assert error["message"] == (
                        "the trace can't be written: File too large; "
                        "calls are refused until it is written again"
                    )
                async with client.get(f"{url}/readyz") as answer:
                    assert answer.status == 503
                    assert (await answer.json())["reason"] == (
                        "the trace can't be written: File too large"
                    )
                async with client.get(f"{url}/metrics") as answer:
                    assert "\nfinport_halted 1.0\n" in await answer.text()
                assert slow.asked == 1
            await until(lambda: lines.failure is None)
            assert (await local.gateway.call(*WALLET)).ok
            async with client.get(f"{url}/readyz") as answer:
                assert answer.status == 200
            async with client.get(f"{url}/metrics") as answer:
                assert "\nfinport_halted 0.0\n" in await answer.text()
        assert told.codes == ["ok", "overloaded", "overloaded", "overloaded", "ok"]
    tools = [json.loads(line)["tool"] for line in file.read_text().splitlines()]
    assert tools == ["generate_wallet", "generate_wallet"]


async def fill(lines: JsonLines) -> None:
    """Let the stream fail, with a full buffer behind it."""
    while not lines.full:
        lines.put({"text": "x" * 20_000})
    await until(lambda: lines.failure is not None and lines.full)


async def test_a_call_under_way_waits_for_room_until_its_deadline_and_is_answered(
    catalog: Catalog, tmp_path: Path
) -> None:
    file = tmp_path / "calls.jsonl"
    async with traced(catalog, tmp_path, PATIENCE_S) as (local, slow, lines):
        slow.released.clear()
        call = asyncio.create_task(local.gateway.call(*WALLET, CallContext(deadline_s=1.0)))
        await until(lambda: slow.asked == 1)
        with full_disk(file):
            await fill(lines)
            slow.released.set()
            result = await call
            assert result.ok
            assert lines.failure is not None
    assert json.loads(file.read_text().splitlines()[-1])["call_id"] == result.call_id


async def test_a_call_cancelled_while_it_waits_for_room_is_recorded_and_told_once(
    catalog: Catalog, tmp_path: Path
) -> None:
    file = tmp_path / "calls.jsonl"
    async with traced(catalog, tmp_path, PATIENCE_S) as (local, slow, lines):
        with local.gateway.observed(Told()) as told:
            slow.released.clear()
            call = asyncio.create_task(local.gateway.call(*coin(1)))
            await until(lambda: slow.asked == 1)
            with full_disk(file):
                await fill(lines)
                slow.released.set()
                await until(lambda: bool(told.codes))
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)
                assert call.cancelled()
        assert told.codes == ["ok"]
        assert local.gateway.outcomes == {"live": 1}
    records = [json.loads(line) for line in file.read_text().splitlines()]
    assert [record["ok"] for record in records if "call_id" in record] == [True]


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux changes limits of others")
def test_a_served_trace_recovers_from_a_full_disk(tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    with served(tmp_path / "cache", "--trace", str(file)) as (process, url):

        def status(path: str, body: bytes | None = None) -> int:
            try:
                with urllib.request.urlopen(f"{url}{path}", body, timeout=30) as answer:
                    return int(answer.status)
            except urllib.error.HTTPError as error:
                return error.code

        def until_ready(wanted: int) -> None:
            deadline = time.monotonic() + 20
            while status("/readyz") != wanted:
                assert time.monotonic() < deadline
                time.sleep(0.02)

        call = ("/v1/tools/get_coin", b'{"uuid": "x"}')
        assert status(*call) == 200
        while not file.stat().st_size:
            time.sleep(0.01)
        soft, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        full = file.stat().st_size + MARGIN
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (full, hard))
        assert status(*call) == 200, "it was answered before the trace was known to be full"
        until_ready(503)
        assert status(*call) == 503
        assert len(file.read_text().splitlines()) == 1
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (soft, hard))
        until_ready(200)
        assert status(*call) == 200
        process.terminate()
        assert process.wait(30) == 0
    answered = [json.loads(line)["ok"] for line in file.read_text().splitlines()]
    assert answered == [True, True, True]
