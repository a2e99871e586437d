"""Answers in use: a gateway in front of an upstream that changes what it answers."""

import json
import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from pydantic import SecretStr

from cache import CacheControl
from gateway import CallContext, Gateway, GatewaySettings
from gateway.server import http
from gateway.shapes.shape import MAX_DOCUMENT, Shape
from gateway.shapes.store import CHANGES, VARIANTS, ShapeStore, read_changes
from gateway.shapes.watch import ShapeWatch
from gateway.telemetry.exposition import TEXT
from gateway.telemetry.metrics import CallMetrics, Metrics
from gateway.telemetry.vitals import Vitals
from manifests import Catalog
from tests.support.gateways import PLANTED_KEY
from tests.support.upstreams import upstream
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

ANEW = CallContext(cache=CacheControl(no_cache=True))
EVIL = "<b>\x1b[2J\u202e'\"&"


class Changing:
    """An upstream with one answer at a time."""

    def __init__(self) -> None:
        self.body = b"{}"

    async def handle(self, _: web.Request) -> web.Response:
        return web.Response(body=self.body, content_type="application/json")


class Compared:
    """A gateway and its upstream. `url` is the upstream's base URL."""

    def __init__(self, gateway: Gateway, answering: Changing, url: str) -> None:
        self.gateway = gateway
        self.answering = answering
        self.url = url

    @property
    def watch(self) -> ShapeWatch:
        assert self.gateway.answers.shapes is not None
        return self.gateway.answers.shapes

    @property
    def kinds(self) -> dict[str, int]:
        """How many changes of each kind were counted."""
        found: dict[str, int] = {}
        for (_, kind), count in self.watch.changes.items():
            found[kind] = found.get(kind, 0) + count
        return found

    async def answer(self, said: Any, tool: str = "get_coin", **arguments: Any) -> None:
        """One call that upstream answers so, until the answer has been compared or left out."""
        self.answering.body = said if isinstance(said, bytes) else json.dumps(said).encode()
        before = self.watch.answers.total()
        arguments = arguments or {"uuid": "Qwsogvtv82FCd"}
        assert (await self.gateway.call(tool, arguments, ANEW)).ok
        await until(lambda: self.watch.answers.total() > before)

    async def changes(self, tool: str = "get_coin") -> list[str]:
        """The changes in the answer that changed last, in words."""
        changes = await self.watch.last_changes(tool)
        return [f"{c.kind} {c.path}: {'|'.join(c.before)} > {'|'.join(c.after)}" for c in changes]


@asynccontextmanager
async def open_compared(
    catalog: Catalog, folder: Path, url: str | None = None, **settings: Any
) -> AsyncIterator[Compared]:
    """With the upstream at `url`, answers are what that one says."""
    answering = Changing()
    async with upstream(answering.handle) as own:
        chosen = GatewaySettings(
            **{
                "cache_dir": folder / "cache",
                "rapidapi_keys": (SecretStr(PLANTED_KEY),),
                "rapidapi_base_url": url or own,
                "shape_share": 1.0,
                **settings,
            }
        )
        async with Gateway.open(chosen, catalog=catalog) as gateway:
            yield Compared(gateway, answering, url or own)


async def test_a_change_is_counted_stored_and_told_on_the_tools_page(
    catalog: Catalog, tmp_path: Path
) -> None:
    async with open_compared(catalog, tmp_path) as compared, Vitals.watch() as vitals:
        await compared.answer({"data": [{"price": 1, "name": "x"}]})
        await compared.answer({"data": [{"price": 2, "name": "y"}]})
        assert await compared.changes() == []
        await compared.answer({"data": [{"price": "2", "cost": 1}]})
        assert await compared.changes() == [
            "type_changed data[].price: number > string",
            "path_removed data[].name: string > ",
            "path_added data[].cost:  > number",
        ]
        async with Metrics.open(compared.gateway, vitals, CallMetrics()) as metrics:
            text = (await metrics.exposition(TEXT)).decode()
        for kind in ("type_changed", "path_removed", "path_added"):
            line = f'finport_shape_changes_total{{kind="{kind}",tool="get_coin"}} 1.0'
            assert line in text or f'{{tool="get_coin",kind="{kind}"}} 1.0' in text
        assert 'finport_shape_answers_total{outcome="compared"} 2.0' in text
        async with http.serve(compared.gateway) as url, aiohttp.ClientSession(url) as client:
            async with client.get("/tools/get_coin") as response:
                page = " ".join((await response.text()).split())
            async with client.get("/v1/tools/get_coin") as response:
                manifest = await response.json()
            async with client.get("/tools/get_coins") as response:
                assert "Last change of shape" not in await response.text()
        assert "Last change of shape" in page
        assert "<code>data[].price</code> from number to string" in page
        assert [c["kind"] for c in manifest["shape_changes"]] == [
            *("type_changed", "path_removed", "path_added")
        ]
        assert manifest["shape_changes"][1]["before"] == ["string"]


async def test_tables_differ_by_columns(catalog: Catalog, tmp_path: Path) -> None:
    async with open_compared(catalog, tmp_path) as compared:
        await compared.answer([{"日期": "2024-01-02", "收盘": 1.5}])
        await compared.answer([{"日期": "2024-01-02", "收盘价": 1.5}])
        assert await compared.changes() == [
            "column_removed 收盘: number > ",
            "column_added 收盘价:  > number",
        ]
        await compared.answer([])
        assert await compared.changes() == ["empty :  > "]
        await compared.answer({"error": "none"})
        assert await compared.changes() == ["type_changed : table > document"]
        await compared.answer([{"日期": "2024-01-02", "收盘价": 1.5}])
        await compared.answer({"error": "none"})
        assert compared.kinds == {
            **dict.fromkeys(["column_removed", "column_added", "empty", "type_changed"], 1)
        }


async def test_arguments_that_choose_a_form_have_shapes_of_their_own(
    catalog: Catalog, tmp_path: Path
) -> None:
    tool = "ticker_per_symbol"
    async with open_compared(catalog, tmp_path) as compared:
        await compared.answer({"a": 1}, tool, market="global", symbol="BTCUSD")
        await compared.answer({"b": 1}, tool, market="local", symbol="BTCUSD")
        await compared.answer({"b": 1, "ETHUSD": 1}, tool, market="local", symbol="BTCUSD")
        assert await compared.changes(tool) == ["path_added ETHUSD:  > number"]
        await compared.answer({"a": 1}, tool, market="global", symbol="ETHUSD")
        assert compared.kinds == {"path_added": 1}
        changes = await compared.watch.last_changes(tool)
        assert [c.variant for c in changes] == ['{"market":"local"}']


async def test_what_is_known_outlives_the_gateway_and_is_shared(
    catalog: Catalog, tmp_path: Path
) -> None:
    async with open_compared(catalog, tmp_path) as first:
        await first.answer({"a": 1, "b": 1})
        async with open_compared(catalog, tmp_path, first.url) as second:
            second.answering = first.answering
            await first.answer({"a": 1})
            await second.answer({"a": 1})
            assert first.kinds == {"path_removed": 1}
            assert second.kinds == {}
            assert await second.changes() == ["path_removed b: number > "]
        url = first.url
        path = first.gateway.settings.shapes_path
    assert [c.path for c in read_changes(path, "get_coin")] == ["b"]
    async with open_compared(catalog, tmp_path, url) as other_upstream_now_gone:
        assert other_upstream_now_gone.gateway.settings.shapes_path == path
        assert await other_upstream_now_gone.changes() == ["path_removed b: number > "]


async def test_each_of_many_changes_at_once_is_found_by_one_of_two_gateways(
    catalog: Catalog, tmp_path: Path
) -> None:
    async with (
        open_compared(catalog, tmp_path) as first,
        open_compared(catalog, tmp_path, first.url) as second,
    ):
        await first.answer({"a": 1})
        for n in range(15):
            first.answering.body = json.dumps({"a": 1, f"b{n}x": 1}).encode()
            before = first.watch.answers.total() + second.watch.answers.total()
            for each in (first, second):
                assert (await each.gateway.call("get_coin", {"uuid": f"n{n}"}, ANEW)).ok
            await until(
                lambda before=before: (  # type: ignore[misc]
                    first.watch.answers.total() + second.watch.answers.total() == before + 2
                )
            )
        both = first.watch.changes + second.watch.changes
        assert both == {("get_coin", "path_added"): 15}


async def test_when_it_is_off_there_is_no_file(catalog: Catalog, tmp_path: Path) -> None:
    async with open_compared(catalog, tmp_path, shape_share=0) as compared:
        assert (await compared.gateway.call("get_coin", {"uuid": "x"}, ANEW)).ok
        assert compared.gateway.answers.shapes is None
        path = compared.gateway.settings.shapes_path
    assert path.parent.is_dir()
    assert not path.exists()


async def test_cached_answers_and_those_that_may_not_be_stored_are_left_alone(
    catalog: Catalog, tmp_path: Path
) -> None:
    unstored = CallContext(cache=CacheControl(no_store=True))
    async with open_compared(catalog, tmp_path) as compared:
        await compared.answer({"a": 1})
        for _ in range(5):
            assert (await compared.gateway.call("get_coin", {"uuid": "Qwsogvtv82FCd"})).ok
        compared.answering.body = b'{"b": 1}'
        assert (await compared.gateway.call("get_coin", {"uuid": "y"}, unstored)).ok
        assert (await compared.gateway.call("generate_wallet", {}, ANEW)).error is not None
        await compared.answer({"a": 1})
        assert compared.watch.answers == {"first": 1, "compared": 1}
        assert compared.kinds == {}


async def test_a_share_of_the_answers_is_compared(catalog: Catalog, tmp_path: Path) -> None:
    async with open_compared(catalog, tmp_path, shape_share=0.5) as compared:
        for n in range(60):
            assert (await compared.gateway.call("get_coin", {"uuid": f"n{n}"})).ok
        watch = compared.watch
        assert 0 < watch.answers.total() <= 60
    assert 5 < watch.answers.total() < 55


async def test_what_cannot_be_compared_is_counted(catalog: Catalog, tmp_path: Path) -> None:
    async with open_compared(catalog, tmp_path) as compared:
        await compared.answer({"a": "x" * MAX_DOCUMENT})
        await compared.answer({f"a{n}x": n for n in range(1_000)})
        await compared.answer({"a": [[[1] * 100] * 100] * 10})
        assert compared.watch.answers == {"too_large": 3}
        await compared.answer({"a": 1})
        assert compared.watch.answers == {"too_large": 3, "first": 1}


@pytest.mark.parametrize("name", ["w", "宽" * 40], ids=["many columns", "many bytes"])
async def test_wide_tables_of_a_tool_blind_nothing_to_its_others(
    name: str, catalog: Catalog, tmp_path: Path
) -> None:
    async with open_compared(catalog, tmp_path) as compared:
        await compared.answer([{"a": 1, "b": 1}])
        for turn in range(3):
            await compared.answer([{f"{name}{turn} {n}": n for n in range(400)}])
        await compared.answer([{"a": 1, "b": 1}])
        await compared.answer([{"a": "1", "b": 1, "c": 1}])
        assert await compared.changes() == [
            "type_changed a: number > string",
            "column_added c:  > number",
        ]
        assert compared.watch.answers == {"first": 1, "compared": 5}


@pytest.mark.parametrize(
    "make", [Path.mkdir, os.mkfifo, lambda path: path.write_bytes(b"no database" * 1_000)]
)
async def test_a_file_that_is_damaged_or_cannot_be_written_fails_no_call(
    make: Callable[[Path], None], catalog: Catalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_compared(catalog, tmp_path) as compared:
        make(compared.gateway.settings.shapes_path)
        for n in range(3):
            await compared.answer({f"a{n}": 1})
        assert compared.watch.answers == {"failed": 3}
        assert await compared.changes() == []
        assert caplog.text.count("could not be compared") == 1


async def test_a_damaged_row_counts_as_none(catalog: Catalog, tmp_path: Path) -> None:
    async with open_compared(catalog, tmp_path) as compared:
        for damaged in (b"{", b"[]", b'{"document": 3}', b'{"document": [1, 2, 3]}', "text", 7):
            await compared.answer({"a": 1})
            with closing(sqlite3.connect(compared.gateway.settings.shapes_path)) as database:
                database.execute("UPDATE known SET shapes = ?", (damaged,))
                database.commit()
            await compared.answer({"b": 1})
        assert compared.watch.answers["failed"] == 0
        assert compared.watch.answers["first"] == 7


async def test_hostile_names_stay_text(catalog: Catalog, tmp_path: Path) -> None:
    long = "x" * 10_000
    async with open_compared(catalog, tmp_path) as compared:
        await compared.answer({EVIL: 1, long: {long: {long: 1}}})
        await compared.answer({"a": 1, long: {long: {long: {long: 1, "b": 1}}}})
        async with (
            http.serve(compared.gateway) as url,
            aiohttp.ClientSession(url) as client,
            client.get("/tools/get_coin") as response,
        ):
            page = await response.text()
        changes = await compared.watch.last_changes("get_coin")
    assert "path removed" in page
    assert not [mark for mark in ("<b>", "\x1b", "\u202e") if mark in page]
    assert max(len(change.path) for change in changes) <= 300


def test_the_file_is_bounded(tmp_path: Path) -> None:
    store = ShapeStore.open(tmp_path / "s.sqlite")
    for n in range(VARIANTS + 10):
        first = Shape({"object"}, {"a": Shape({"number"})})
        assert store.learn("t", f'{{"n":{n}}}', first, "live", float(n)) is None
    again = Shape({"object"}, {"a": Shape({"number"}), "b": Shape({"number"})})
    assert store.learn("t", '{"n":0}', again, "live", 100.0) is None, "the oldest one is forgotten"
    assert store.learn("t", '{"n":73}', again, "live", 100.0) != []
    for n in range(CHANGES + 10):
        again.parts[f"c{n}"] = Shape({"number"})
        assert len(store.learn("t", '{"n":73}', again, "live", 101.0 + n) or []) == 1
    store.close()
    kept = read_changes(tmp_path / "s.sqlite", "t")
    assert [change.path for change in kept] == [f"c{n}" for n in reversed(range(10, CHANGES + 10))]


@pytest.mark.parametrize(
    "damage", [{"before": 1}, {"variant": "[]"}, {"time": 1e300}, {"time": "x"}]
)
def test_a_damaged_change_is_not_read(damage: dict[str, Any], tmp_path: Path) -> None:
    store = ShapeStore.open(tmp_path / "s.sqlite")
    for type_ in ("number", "string"):
        store.learn("t", "{}", Shape({"table"}, {"a": Shape({type_})}), "live", 10.0)
    store.close()
    [change] = read_changes(tmp_path / "s.sqlite", "t")
    assert change.to_dict()["time"] == "1970-01-01T00:00:10+00:00"
    with closing(sqlite3.connect(tmp_path / "s.sqlite")) as database:
        text = json.dumps(asdict(change) | damage)
        database.execute("UPDATE found SET change = ?", (text,))
        database.commit()
    with pytest.raises(ValueError, match="damaged"):
        read_changes(tmp_path / "s.sqlite", "t")
