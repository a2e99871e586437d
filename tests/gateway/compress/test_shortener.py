"""Shortening beside the event loop: ended with its callers, shared fairly, and never on the loop if
it takes long.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from finport import CallContext, Gateway
from gateway.compress import answer, shortener
from gateway.result import Result
from manifests import Catalog
from tests.support.gateways import open_local_gateway
from tests.support.upstreams import upstream
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.anyio

TOOL = "get_coin"
ANSWERS: dict[str, Any] = {
    "small": {"price": 1.5, "name": "x" * 300},
    "plain": {"price": 1.5, "name": "x" * 3_000},
    "sparse": [{f"k{n}": n} for n in range(120)],
    "long": {f"k{n}": n for n in range(60_000)},
}


class Watched:
    """What threads and the event loop shorten: where, and how it ended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started: list[str] = []
        self.on_loop: list[bool] = []
        self.ended: list[type[BaseException] | None] = []
        self.gate = threading.Event()
        self.gate.set()
        self._loop_thread = threading.get_ident()
        self._compress: Callable[..., Any] = answer.compress
        monkeypatch.setattr(answer, "compress", self)

    def __call__(self, entry: Any, budget: Any, question: str, meanings: Any) -> Any:
        self.on_loop.append(threading.get_ident() == self._loop_thread)
        self.started.append(question)
        if question.startswith("held"):
            self.gate.wait(PATIENCE_S)
        try:
            made = self._compress(entry, budget, question, meanings)
        except BaseException as error:
            self.ended.append(type(error))
            raise
        self.ended.append(None)
        return made


@asynccontextmanager
async def opened(catalog: Catalog, folder: Path) -> AsyncIterator[Gateway]:
    """A gateway that has all answers in memory."""

    async def answer(request: web.Request) -> web.Response:
        body = orjson.dumps(ANSWERS[request.path.rsplit("/", 1)[-1]])
        return web.Response(body=body, content_type="application/json")

    async with (
        upstream(answer) as origin,
        open_local_gateway(catalog, folder, rapidapi_base_url=origin) as local,
    ):
        for name in ANSWERS:
            assert (await local.gateway.call(TOOL, {"uuid": name})).ok
        assert (await ask(local.gateway, "small")).ok  # the vocabulary is loaded
        yield local.gateway


async def ask(
    gateway: Gateway, name: str, question: str = "", limit: int = 60, **context: Any
) -> Result:
    asked = CallContext(max_tokens=limit, question=question, **context)
    return await gateway.call(TOOL, {"uuid": name}, asked)


async def test_work_ends_once_its_callers_have_had_their_time(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(catalog, tmp_path) as gateway:
        watched = Watched(monkeypatch)
        asked = (ask(gateway, "long", f"k{n}", deadline_s=0.05) for n in range(8))
        for result in await asyncio.gather(*asked):
            assert result.error is not None
            assert (result.error.code, result.error.by) == ("timeout", "gateway")
        result = await ask(gateway, "plain", "the price")
        assert result.ok
        await until(lambda: len(watched.ended) == len(watched.started))
        assert watched.ended.count(TimeoutError) == len(watched.ended) - 1


async def test_work_goes_on_for_as_long_as_a_caller_waits_for_it(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(catalog, tmp_path) as gateway:
        watched = Watched(monkeypatch)
        callers = [asyncio.create_task(ask(gateway, "long", "k5")) for _ in range(2)]
        await until(lambda: bool(watched.started))
        callers[0].cancel()
        assert (await callers[1]).ok
        watched.gate.clear()
        last = asyncio.create_task(ask(gateway, "long", "held k7"))
        await until(lambda: len(watched.started) == 2)
        last.cancel()
        await asyncio.wait([last])
        watched.gate.set()
        await until(lambda: len(watched.ended) == 2)
        assert watched.ended == [None, TimeoutError]


async def test_no_client_takes_all_threads(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(catalog, tmp_path) as gateway:
        watched = Watched(monkeypatch)
        watched.gate.clear()
        asked = (ask(gateway, "plain", f"held {n}", client="greedy") for n in range(9))
        greedy = [asyncio.create_task(one) for one in asked]
        await until(lambda: len(watched.started) == shortener.THREADS - 1)
        assert (await ask(gateway, "plain", "price", client="other", deadline_s=PATIENCE_S)).ok
        assert len(watched.started) == shortener.THREADS
        watched.gate.set()
        assert all(result.ok for result in await asyncio.gather(*greedy))


async def test_only_what_has_few_bytes_and_cells_is_shortened_on_the_event_loop(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(catalog, tmp_path) as gateway:
        watched = Watched(monkeypatch)
        assert len(orjson.dumps(ANSWERS["sparse"])) < shortener.AT_ONCE
        for name, question in (
            ("small", "price"),
            ("small", "?" * 999),
            ("plain", ""),
            ("sparse", ""),
        ):
            assert (await ask(gateway, name, question)).ok
        assert watched.on_loop == [True, False, False, False]
