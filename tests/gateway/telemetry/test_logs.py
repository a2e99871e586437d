"""Logs: one line a record, with its request's id, and never in the way of the event loop."""

import asyncio
import io
import logging
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import aiohttp
import orjson
import pytest
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from gateway.telemetry.logs import ACCESS, REQUEST_ID, set_up
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.anyio

log = logging.getLogger("finport.test")


def written(format_: Literal["text", "json"], work: Callable[[], object], **options: Any) -> str:
    stream = io.BytesIO()
    with set_up(format_, stream, **options):
        work()
    return stream.getvalue().decode()


def fail() -> None:
    try:
        raise RuntimeError("it\nfailed\x1b[2J")
    except RuntimeError:
        log.exception("call %s failed", "7")


def test_a_json_line_says_when_where_and_what() -> None:
    before = datetime.now(UTC)
    (line,) = written("json", lambda: log.warning("%s is 股票", "600519")).splitlines()
    said = orjson.loads(line)
    at = datetime.fromisoformat(said.pop("at"))
    assert at.utcoffset() == before.utcoffset()
    assert before - timedelta(milliseconds=1) <= at <= datetime.now(UTC)
    assert said == {"level": "warning", "logger": "finport.test", "message": "600519 is 股票"}


@pytest.mark.parametrize("format_", ["text", "json"])
def test_what_a_caller_sends_makes_no_line_of_its_own(format_: Literal["text", "json"]) -> None:
    forged = "x\n2026-01-01 ERROR forged\r\x1b[31m\x85\u2028\ud800"
    text = written(format_, lambda: log.info("%s", forged))
    assert text.count("\n") == 1
    assert "\x1b" not in text
    assert format_ == "json" or len(text.splitlines()) == 1


def test_an_exception_is_text_in_its_line_or_indented_behind_it() -> None:
    (line,) = written("json", fail).splitlines()
    said = orjson.loads(line)
    assert said["message"] == "call 7 failed"
    assert said["exception"].startswith("Traceback")
    assert said["exception"].endswith("RuntimeError: it\nfailed\x1b[2J")
    first, *others = written("text", fail).splitlines()
    assert first.endswith("ERROR finport.test call 7 failed")
    assert others
    assert all(line.startswith("    ") for line in others)
    assert others[-1] == r"    failed\x1b[2J"


async def test_each_record_has_the_id_of_its_own_request() -> None:
    stream = io.BytesIO()

    async def request(name: str) -> None:
        REQUEST_ID.set(name)
        await asyncio.sleep(0)
        log.info("of %s", name)

    with set_up("json", stream):
        await asyncio.gather(*(asyncio.create_task(request(name)) for name in "ab"))
        log.info("of none")
    said = {line["message"]: line.get("request_id") for line in map(orjson.loads, _lines(stream))}
    assert said == {"of a": "a", "of b": "b", "of none": None}
    REQUEST_ID.set("r-1")
    assert written("text", lambda: log.info("x")).endswith("finport.test [r-1] x\n")


def _lines(stream: io.BytesIO) -> list[bytes]:
    return stream.getvalue().splitlines()


def test_arguments_are_logged_as_they_were() -> None:
    changing = [1]

    def work() -> None:
        log.info("%s", changing)
        changing.append(2)

    assert "[1]" in written("text", work)


def test_the_level_holds_and_is_given_back() -> None:
    root = logging.getLogger()
    before, handlers = root.level, [*root.handlers]
    assert written("text", lambda: log.debug("not this")) == ""
    assert (root.level, root.handlers) == (before, handlers)
    assert "not this" in written("text", lambda: log.debug("not this"), level=logging.DEBUG)


class Stuck(io.BytesIO):
    """Nobody reads it until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Event()
        self.gave_up = False

    def write(self, text: Any) -> int:
        self.gave_up |= not self.released.wait(PATIENCE_S)
        return super().write(text)


async def test_a_reader_that_hangs_holds_up_no_loop_and_losses_are_told() -> None:
    stream = Stuck()
    with set_up("json", stream, queued=10):
        for n in range(1_000):
            log.info("record %d", n)
        await asyncio.sleep(0)
        assert not stream.gave_up
        stream.released.set()
        await until(lambda: b"dropped" in stream.getvalue())
        (dropped,) = re.findall(rb"(\d+) log records were dropped", stream.getvalue())
        await until(lambda: stream.getvalue().count(b"record ") == 1_000 - int(dropped))
        log.info("the last")
    messages = [orjson.loads(line)["message"] for line in _lines(stream)]
    records = [message for message in messages if message.startswith("record")]
    (told,) = [message for message in messages if "dropped" in message]
    assert told.startswith(f"{1_000 - len(records)} log records were dropped")
    assert 10 <= len(records) <= 12
    assert messages[-1] == "the last"


def test_lines_about_requests_leave_room_for_what_goes_wrong() -> None:
    stream = Stuck()
    with set_up("text", stream, queued=100):
        for n in range(1_000):
            logging.getLogger(ACCESS).info("request %d", n)
        for n in range(20):
            log.error("wrong %d", n)
        stream.released.set()
    text = stream.getvalue().decode()
    assert text.count("wrong") == 20
    assert 50 <= text.count("request ") <= 52
    assert f"{1_000 - text.count('request ')} log records were dropped" in text


def test_the_end_waits_for_a_hanging_reader_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.telemetry.logs.FLUSH_S", 0.2)
    stream = Stuck()
    try:
        with set_up("text", stream, queued=2):
            for _ in range(10):
                log.info("x")
        assert not stream.gave_up
    finally:
        stream.released.set()


def test_everything_is_written_by_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.telemetry.logs.FLUSH_S", PATIENCE_S)

    def work() -> None:
        for n in range(5_000):
            log.info("record %d", n)

    text = written("text", work)
    assert text.count("\n") == 5_000
    assert text.rstrip().endswith("record 4999")


def test_a_stream_that_is_gone_ends_nothing() -> None:
    stream = io.BytesIO()
    stream.close()
    with set_up("text", stream):
        log.info("x")


def test_an_error_of_aiohttp_shows_no_header() -> None:
    headers = CIMultiDictProxy(CIMultiDict({"X-RapidAPI-Key": "planted"}))
    about = aiohttp.RequestInfo(URL("http://localhost/"), "GET", headers, URL("http://localhost/"))

    def work() -> None:
        try:
            raise aiohttp.ClientResponseError(about, (), status=500, headers=headers)
        except aiohttp.ClientResponseError:
            log.exception("asked")

    for text in (written("text", work), written("json", work)):
        assert "ClientResponseError" in text
        assert "planted" not in text


def test_it_is_stderr_where_nothing_else_is_said() -> None:
    code = (
        "import logging; from gateway.telemetry.logs import set_up\n"
        "with set_up('json'): logging.getLogger('finport').warning('股票')"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, env={"LC_ALL": "C"}
    )
    assert run.stdout == b""
    assert orjson.loads(run.stderr)["message"] == "股票"
