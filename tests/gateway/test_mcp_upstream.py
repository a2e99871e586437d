"""MCP servers as upstreams: one made with the official SDK, an official one, and hostile ones."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web
from mcp import Client, StdioServerParameters

from finport import Gateway, GatewaySettings, SettingsError
from gateway.server import http
from tests.support.checkout import ROOT
from tests.support.commands import FINPORT, finbench, finport
from tests.support.mcp_servers import (
    command_of,
    desk_over_http,
    entry,
    new_desk,
    raw_server,
    settings_of,
)
from tests.support.servers import asked, server
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.anyio

LOCK = ROOT / "tests" / "clients" / "servers.lock"


@pytest.fixture(scope="module")
def time_server(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The program of an official server, in an environment of its own."""
    given = os.environ.get("TEST_CLIENTS")
    if given and (Path(given) / "servers" / "servers.lock").is_file():
        folder = Path(given) / "servers"
    else:
        folder = tmp_path_factory.mktemp("servers") / "env"
        uv = [sys.executable, "-m", "uv"]
        install = ["pip", "install", "--quiet", "--require-hashes", "-r", str(LOCK)]
        for words in (
            [*uv, "venv", "--quiet", "--python", sys.executable, str(folder)],
            [*uv, *install, "--python", str(folder / "bin" / "python")],
        ):
            done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
            if done.returncode:
                pytest.skip(f"mcp-server-time can't be installed: {done.stderr[-200:]}")
    return [str(folder / "bin" / "mcp-server-time"), "--local-timezone", "UTC"]


def told(result: Any) -> Any:
    """What the official client got of a server."""
    assert not result.is_error, result
    if result.structured_content is not None:
        return result.structured_content
    (part,) = result.content
    return orjson.loads(part.text)


PRICE = ("price", {"ticker": "ACME"})
CONVERT = (
    "convert_time",
    {"source_timezone": "UTC", "time": "16:30", "target_timezone": "Asia/Tokyo"},
)


async def recorded(folder: Path, providers: dict[str, Any], name: str) -> list[Any]:
    """What both servers answer through the gateway's own MCP, recorded as a snapshot."""
    settings = settings_of(
        folder, providers=providers, mode="record", snapshot=folder / f"{name}.snapshot"
    )
    async with (
        Gateway.open(settings) as gateway,
        http.serve(gateway) as url,
        Client(f"{url}/mcp?tools=all") as client,
    ):
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"d_price", "d_order", "convert_time", "get_current_time"} <= {*listed}
        assert listed["d_price"].description is not None
        assert listed["d_price"].description.startswith("The price of a ticker on the desk.")
        return [
            told(await client.call_tool(f"{prefix}{tool}", arguments))["data"]
            for prefix, (tool, arguments) in (("d_", PRICE), ("", CONVERT))
        ]


@pytest.mark.usefixtures("patient_with_servers")
async def test_two_servers_answer_as_directly_and_replay_when_they_are_gone(
    tmp_path: Path, time_server: list[str]
) -> None:
    async with desk_over_http(tmp_path) as desk:
        providers: dict[str, Any] = {
            "desk": {"mcp": desk.url, "prefix": "d_"},
            "time": {"command": time_server, "intent": "informational"},
        }
        async with Client(desk.url) as client:
            direct = [told(await client.call_tool(*PRICE))]
        program = StdioServerParameters(command=time_server[0], args=time_server[1:])
        async with Client(program) as client:
            direct.append(told(await client.call_tool(*CONVERT)))
        assert await recorded(tmp_path, providers, "monday") == direct
        (desk.folder / "price").write_text('"2.5 EUR"')
        later = await recorded(tmp_path, providers, "tuesday")
        assert later[0] == {**direct[0], "price": "2.5 EUR"}
    for day, price in (("monday", direct[0]), ("tuesday", later[0])):
        settings = settings_of(
            tmp_path, providers=providers, mode="offline", snapshot=tmp_path / f"{day}.snapshot"
        )
        async with Gateway.open(settings) as gateway:
            answers = [
                await gateway.call(f"d_{PRICE[0]}", PRICE[1]),
                await gateway.call(*CONVERT),
            ]
            assert [answer.source for answer in answers] == ["replayed", "replayed"]
            assert [answer.value for answer in answers] == [price, direct[1]]
    days = [str(tmp_path / f"{day}.snapshot") for day in ("monday", "tuesday")]
    report = finbench("drift", "diff", *days, "--json")
    assert "d_price" in report.stdout, report.stdout + report.stderr


async def test_a_server_that_dies_is_reached_again(tmp_path: Path) -> None:
    async with desk_over_http(tmp_path) as desk:
        settings = settings_of(tmp_path, providers={"desk": {"mcp": desk.url, "cache": False}})
        async with Gateway.open(settings) as gateway:
            assert (await gateway.call(*PRICE)).ok
            desk.end()
            gone = await gateway.call(*PRICE)
            assert gone.code == "upstream_unreachable"
            assert gone.message is not None
            assert "127.0.0.1" not in gone.message
            await desk.start()
            await answered(gateway)


async def answered(gateway: Gateway) -> None:
    """Until a call is answered."""
    async with asyncio.timeout(PATIENCE_S):
        while not (await gateway.call(*PRICE)).ok:
            await asyncio.sleep(0.1)


async def test_a_program_that_dies_is_started_again_and_ends_with_the_gateway(
    tmp_path: Path,
) -> None:
    desk = new_desk(tmp_path)
    settings = settings_of(tmp_path, providers={"desk": {"command": command_of(desk)}})
    async with Gateway.open(settings) as gateway:
        before = programs(desk)
        assert before
        assert (await gateway.call("die", {})).code == "upstream_unreachable"
        await answered(gateway)
        assert programs(desk).isdisjoint(before)
    await until(lambda: not programs(desk))


def programs(desk: Path) -> set[int]:
    """The processes that serve a desk, with those that keep them."""
    found = set[int]()
    for entry_ in Path("/proc").iterdir():
        with suppress(OSError):
            if entry_.name.isdigit() and str(desk).encode() in (entry_ / "cmdline").read_bytes():
                found.add(int(entry_.name))
    return found


async def test_a_program_ends_when_its_gateway_is_killed(tmp_path: Path) -> None:
    desk = new_desk(tmp_path)
    options = ("--catalog", "none", "--mcp", " ".join(command_of(desk)))
    process = subprocess.Popen(  # noqa: ASYNC220
        [*FINPORT, "call", "slow", "seconds=60", *options],
        env={**os.environ, "FINPORT_CACHE_DIR": str(tmp_path / "cache")},
        stderr=subprocess.DEVNULL,
    )
    await until((desk / "log").exists)
    mine = programs(desk) - {process.pid}
    assert len(mine) == 2
    process.kill()
    process.wait()
    await until(lambda: not programs(desk))


async def test_a_server_that_hangs_costs_its_callers_a_timeout_and_is_reached_again(
    tmp_path: Path,
) -> None:
    async with desk_over_http(tmp_path) as desk:
        providers = {"desk": {"mcp": desk.url, "cache": False}}
        settings = settings_of(tmp_path, providers=providers, attempt_timeout_s=0.5)
        async with Gateway.open(settings) as gateway:
            (desk.folder / "hung").touch()
            late = await gateway.call(*PRICE)
            assert late.code == "timeout"
            (desk.folder / "hung").unlink()
            await answered(gateway)


async def test_a_caller_that_leaves_cancels_the_call_upstream(tmp_path: Path) -> None:
    async with desk_over_http(tmp_path) as desk:
        settings = settings_of(tmp_path, providers={"desk": {"mcp": desk.url}})
        async with Gateway.open(settings) as gateway:
            call = asyncio.create_task(gateway.call("slow", {"seconds": 60}))
            await until(lambda: "slow begins" in desk.log)
            call.cancel()
            await until(lambda: "slow cancelled" in desk.log)
            with suppress(asyncio.CancelledError):
                await call


async def test_identical_calls_are_one_and_a_transactional_tool_runs_for_each(
    tmp_path: Path,
) -> None:
    async with desk_over_http(tmp_path) as desk:
        settings = settings_of(tmp_path, providers={"desk": {"mcp": desk.url}})
        async with Gateway.open(settings) as gateway:
            order = ("order", {"ticker": "ACME", "amount": 2})
            calls = [gateway.call(*PRICE) for _ in range(5)]
            answers = await asyncio.gather(*calls, gateway.call(*order), gateway.call(*order))
            assert all(answer.ok for answer in answers)
        assert desk.log.count("price ACME") == 1
        assert desk.log.count("order ACME 2") == 2
        closed = settings_of(
            tmp_path, providers={"desk": {"mcp": desk.url}}, allow_transactional=False
        )
        async with Gateway.open(closed) as gateway:
            assert (await gateway.call(*order)).code == "forbidden"


@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_tools_come_and_go_as_the_server_says(tmp_path: Path, transport: str) -> None:
    async with desk_over_http(tmp_path) as desk:
        provider = (
            {"mcp": desk.url} if transport == "http" else {"command": command_of(desk.folder)}
        )
        async with Gateway.open(settings_of(tmp_path, providers={"desk": provider})) as gateway:
            for more in (["more_a", "more_b"], ["more_b"]):
                (desk.folder / "more").write_text(" ".join(more))
                assert (await gateway.call("relist", {})).ok
                await until(lambda more=more: others(gateway) == more)  # type: ignore[misc]
            assert (await gateway.call("more_b", {"x": 1})).value == {"result": 2}


def others(gateway: Gateway) -> list[str]:
    return [tool.name for tool in gateway.catalog if tool.name.startswith("more_")]


async def test_a_tool_that_comes_later_takes_no_name_of_another(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with desk_over_http(tmp_path) as desk, raw_server([entry("more_a")]) as raw:
        providers = {"desk": {"mcp": desk.url}, "raw": {"mcp": raw.url}}
        async with Gateway.open(settings_of(tmp_path, providers=providers)) as gateway:
            (desk.folder / "more").write_text("more_a more_b")
            assert (await gateway.call("relist", {})).ok
            await until(lambda: others(gateway) == ["more_b", "more_a"])
            taken = gateway.catalog.get("more_a")
            assert taken is not None
            assert taken.provider == "raw"
    assert "tool more_a of provider desk is left out: provider raw has one" in caplog.text


PRICES = {
    "openapi": "3.1.0",
    "info": {"title": "Prices", "version": "1"},
    "servers": [{"url": "/v1"}],
    "paths": {
        "/prices": {"get": {"operationId": "prices", "responses": {"200": {"description": "."}}}}
    },
}

TOOL = """
import finport

@finport.tool
def rate() -> float:
    '''The rate.'''
    return VALUE
"""


@asynccontextmanager
async def document_server() -> AsyncIterator[tuple[str, list[str], asyncio.Event]]:
    """A server of an OpenAPI document: its URL, the requests, and an event that it waits for."""
    fetched, may_answer = list[str](), asyncio.Event()
    may_answer.set()

    async def answered(request: web.Request) -> web.Response:
        fetched.append(request.path)
        await may_answer.wait()
        return web.json_response(PRICES)

    app = web.Application()
    app.router.add_get("/openapi.json", answered)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        yield f"http://127.0.0.1:{port}/openapi.json", fetched, may_answer
    finally:
        await runner.cleanup()


async def test_what_a_server_lists_anew_has_no_other_provider_read_again(tmp_path: Path) -> None:
    file = tmp_path / "rates.py"
    file.write_text(TOOL.replace("VALUE", "1.5"))
    async with desk_over_http(tmp_path) as desk, document_server() as (document, fetched, _):
        providers = {
            "desk": {"mcp": desk.url},
            "rates": {"python": file},
            "prices": {"openapi": document, "prefix": "p_"},
        }
        async with Gateway.open(settings_of(tmp_path, providers=providers)) as gateway:
            file.write_text("this can't be read")
            (desk.folder / "more").write_text("more_a")
            assert (await gateway.call("relist", {})).ok
            await until(lambda: others(gateway) == ["more_a"])
            assert fetched == ["/openapi.json"]
            assert gateway.catalog.get("p_prices") is not None
            assert (await gateway.call("rate", {})).value == 1.5
            with pytest.raises(SettingsError, match="provider rates"):
                await gateway.reload()


async def test_calls_go_to_the_servers_of_the_settings_that_count(tmp_path: Path) -> None:
    def says(word: str) -> Any:
        return lambda _: {"content": [{"type": "text", "text": word}]}

    async with (
        raw_server([entry("tool")], tools_call=says("one")) as one,
        raw_server([entry("tool")], tools_call=says("two")) as two,
        document_server() as (document, fetched, may_answer),
    ):

        def settings(url: str, **others: Any) -> GatewaySettings:
            providers = {"raw": {"mcp": url, "cache": False}, **others}
            return settings_of(tmp_path, providers=providers)

        async with Gateway.open(settings(one.url)) as gateway:
            for wrong in ({"only": ["none"]}, {}):
                may_answer.clear()
                fetched.clear()
                other = settings(two.url, prices={"openapi": document, **wrong})
                reload = asyncio.create_task(gateway.reload(other))
                await until(lambda: fetched)
                assert (await gateway.call("tool", {})).value == "one"
                may_answer.set()
                await asyncio.wait([reload])
                refused = isinstance(reload.exception(), SettingsError)
                assert refused == bool(wrong)
                word = "one" if wrong else "two"
                assert (await gateway.call("tool", {})).value == word


async def test_two_servers_with_one_name_are_refused_at_the_start_with_both_named(
    tmp_path: Path,
) -> None:
    async with raw_server([entry("price")]) as one, raw_server([entry("price")]) as other:
        providers = {"one": {"mcp": one.url}, "other": {"mcp": other.url}}
        with pytest.raises(SettingsError, match=r"two tools are named price: .*one.* and .*other"):
            async with Gateway.open(settings_of(tmp_path, providers=providers)):
                pass
        providers["other"]["prefix"] = "o_"
        async with Gateway.open(settings_of(tmp_path, providers=providers)) as gateway:
            assert {tool.name for tool in gateway.catalog} == {"price", "o_price"}


async def test_a_server_that_is_not_there_at_the_start_is_no_failure(tmp_path: Path) -> None:
    async with desk_over_http(tmp_path) as desk:
        providers = {"desk": {"mcp": desk.url}}
        desk.end()
        async with Gateway.open(settings_of(tmp_path, providers=providers)) as gateway:
            assert len(gateway.catalog) == 0
            await desk.start()
            await until(lambda: len(gateway.catalog))
            assert (await gateway.call(*PRICE)).ok
        desk.end()
        async with Gateway.open(settings_of(tmp_path, providers=providers)) as gateway:
            assert gateway.catalog.get("price") is not None, "its listing was kept"
            kept = await gateway.call(*PRICE)
            assert kept.ok or kept.code == "upstream_unreachable"


async def test_sighup_follows_the_settings(tmp_path: Path) -> None:
    async with raw_server([entry("one")]) as one, raw_server([entry("two")]) as two:
        file = tmp_path / "finport.toml"
        file.write_text(f'catalog = "none"\n[providers.a]\nmcp = "{one.url}"\n')
        async with server(tmp_path / "home", FINPORT_CONFIG=str(file)) as served:
            assert await names(served.url) == {"one"}
            file.write_text(f'catalog = "none"\n[providers.b]\nmcp = "{two.url}"\n')
            served.tell(signal.SIGHUP)
            async with asyncio.timeout(PATIENCE_S):
                while await names(served.url) != {"two"}:
                    await asyncio.sleep(0.05)
            file.write_text(
                f'catalog = "none"\n[providers.a]\nmcp = "{two.url}"\n'
                f'[providers.b]\nmcp = "{two.url}"\n'
            )
            served.tell(signal.SIGHUP)
            await served.says("nothing was reloaded: setting providers: two tools are named two")
            assert await names(served.url) == {"two"}, "what is refused changes nothing"


async def names(url: str) -> set[str]:
    _, said = await asked(f"{url}/v1/tools")
    return {tool["name"] for tool in said["tools"]}


async def test_a_program_gets_only_the_variables_that_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("DESK_KEY", "hidden-4711")
    monkeypatch.setenv("OTHER_KEY", "hidden-0815")
    desk = new_desk(tmp_path)
    provider = {"command": command_of(desk), "environment": ["DESK_KEY"]}
    caplog.set_level("INFO")
    async with Gateway.open(settings_of(tmp_path, providers={"desk": provider})) as gateway:
        variables = (await gateway.call("variables", {})).value["result"]
        assert "DESK_KEY" in variables
        assert "OTHER_KEY" not in variables
        assert not any(name.startswith("FINPORT_") for name in variables)
        refused = await gateway.call("failing", {"secret": "hidden-0815"})
        assert refused.code == "upstream_error"
        assert "hidden-4711" not in str(refused.message)
    assert "MCP server desk: desk begins [31m red" in caplog.text, "without its escape"
    assert "hidden-4711" not in caplog.text
    monkeypatch.delenv("DESK_KEY")
    async with Gateway.open(settings_of(tmp_path, providers={"desk": provider})) as gateway:
        lacking = await gateway.call("picture", {})
        assert lacking.code == "not_configured"
        assert "variable DESK_KEY of provider desk is not set" in str(lacking.message)


async def test_what_a_server_lists_can_be_written_to_a_manifest_file(tmp_path: Path) -> None:
    desk = new_desk(tmp_path)
    command = " ".join(command_of(desk))
    out = tmp_path / "out"
    options = ("--prefix", "d_", "--only", "p*", "--name", "desk", "--out", str(out))
    done = await asyncio.to_thread(
        finport, "manifests", "import", "mcp", command, *options, "--json"
    )
    assert done.returncode == 0, done.stderr
    report = orjson.loads(done.stdout)
    assert report == {
        "file": str(out / "desk.json"), "tools": ["d_price", "d_picture"], "left_out": {},
    }  # fmt: skip
    snapshot = tmp_path / "recorded.snapshot"
    provider = {"command": command_of(desk), "prefix": "d_"}
    recording = settings_of(
        tmp_path, providers={"desk": provider}, mode="record", snapshot=snapshot
    )
    async with Gateway.open(recording) as gateway:
        answer = await gateway.call("d_price", PRICE[1])
    shipped = settings_of(
        tmp_path / "elsewhere", manifests=(out,), mode="offline", snapshot=snapshot
    )
    async with Gateway.open(shipped) as gateway:
        replayed = await gateway.call("d_price", PRICE[1])
        assert (replayed.source, replayed.value) == ("replayed", answer.value)
    unreachable = await asyncio.to_thread(
        finport, "manifests", "import", "mcp", "http://127.0.0.1:9/mcp"
    )
    assert unreachable.returncode == 1
    assert "is not reached" in unreachable.stderr


async def test_a_replay_asks_the_server_only_for_what_was_not_recorded(tmp_path: Path) -> None:
    async with desk_over_http(tmp_path) as desk:
        providers = {"desk": {"mcp": desk.url}}
        snapshot = {"snapshot": tmp_path / "recorded.snapshot", "providers": providers}
        async with Gateway.open(settings_of(tmp_path, mode="record", **snapshot)) as gateway:
            assert (await gateway.call(*PRICE)).ok
        (desk.folder / "more").write_text("more_a")
        replay = settings_of(tmp_path, mode="replay", **snapshot)
        async with Gateway.open(replay) as gateway:
            assert (await gateway.call(*PRICE)).source == "replayed"
            other = await gateway.call("price", {"ticker": "OTHER"})
            assert (other.source, other.value["ticker"]) == ("live", "OTHER")
            assert others(gateway) == [], "a replay has the tools that were recorded"
        desk.end()
        async with Gateway.open(replay) as gateway:
            assert (await gateway.call(*PRICE)).source == "replayed"


async def test_without_the_sdk_the_start_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(SettingsError, match=r"provider desk: .*pip install 'finport\[mcp\]'"):
        async with Gateway.open(
            settings_of(tmp_path, providers={"desk": {"mcp": "http://localhost:9/mcp"}})
        ):
            pass


@pytest.mark.parametrize("url", ["ftp://host/mcp", "http://", "http://me:word@host/mcp"])
async def test_a_url_that_is_none_or_holds_a_secret_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(SettingsError, match="provider desk: the URL of an MCP server") as refused:
        async with Gateway.open(settings_of(tmp_path, providers={"desk": {"mcp": url}})):
            pass
    assert "word" not in str(refused.value)


async def test_the_catalogue_is_composed_once_at_the_start(tmp_path: Path) -> None:
    async with (
        raw_server([entry("tool")]) as raw,
        Gateway.open(settings_of(tmp_path, providers={"raw": {"mcp": raw.url}})) as gateway,
    ):
        await asyncio.sleep(0.6)
        assert gateway.catalog.version == 0


async def test_each_worker_of_a_server_has_its_own_connection(tmp_path: Path) -> None:
    desk = new_desk(tmp_path)
    options = ("--workers", "2", "--catalog", "none", "--mcp", " ".join(command_of(desk)))
    async with server(tmp_path / "home", *options) as served:
        assert len(programs(desk)) >= 2 * 2
        status, said = await asked(f"{served.url}/v1/tools/price", PRICE[1])
        assert (status, said["data"]["ticker"]) == (200, "ACME")
        served.tell(signal.SIGTERM)
        code, log = await served.ended()
    assert code == 0, log
    await until(lambda: not programs(desk))
