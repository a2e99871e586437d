"""Providers of the user's own: in the settings file and by flags, together, reloaded, refused."""

import asyncio
import json
import os
import signal
import subprocess
import textwrap
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from finport import Gateway, GatewaySettings, SettingsError, tool
from manifests import ArgumentError, Catalog, Manifest, Signature
from manifests.catalog import text_of
from tests.support.commands import FINPORT, finport
from tests.support.servers import asked, server
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

RATES = """
    import finport

    @finport.tool(domains=["bond"])
    async def rate(tenor: str = "1D") -> dict:
        '''In-house funding rate.'''
        return {"tenor": tenor, "rate": RATE}
"""


def written(folder: Path, rate: float, name: str = "desk.py") -> Path:
    file = folder / name
    file.write_text(textwrap.dedent(RATES).replace("RATE", str(rate)))
    return file


def settings_of(folder: Path, **chosen: Any) -> GatewaySettings:
    return GatewaySettings(upstream="simulated", cache_dir=folder / "cache", **chosen)


ORDERS = {
    "name": "orders",
    "description": "Takes orders.",
    "timeliness": "realtime",
    "intent_type": "informational",
    "regulatory_domains": (),
    "parameters": (
        {
            "name": "tickers",
            "type": "array",
            "description": "Tickers",
            "required": True,
            "example": '["ACME"]',
            "json_schema": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
        },
        {"name": "terms", "type": "object", "description": "Terms"},
    ),
    "binding": {"source": "python", "function": "x.orders", "code": "0"},
}


def test_arrays_and_objects_bind_to_their_canonical_text() -> None:
    signature = Signature(Manifest.model_validate(ORDERS))
    bound = signature.bind({"tickers": ["A", "B"], "terms": {"b": 1, "a": [2.5]}})
    assert bound == {"tickers": '["A","B"]', "terms": '{"a":[2.5],"b":1}'}
    assert signature.bind(bound) == bound
    assert signature.bind({"tickers": '["A", "B"]', "terms": '{"b":1,"a":[2.5]}'}) == bound
    for wrong, told in (
        ("A,B", "is no array"),
        (["A"] * 4, r"does not fit at \$"),
        ([1], r"does not fit at \$\[0\]"),
        ({"a": 1}, "is an object"),
    ):
        with pytest.raises(ArgumentError, match=told):
            signature.bind({"tickers": wrong})


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
        max_leaves=20,
    )
)
def test_a_value_and_its_text_bind_alike(value: Any) -> None:
    signature = Signature(Manifest.model_validate(ORDERS))
    bound = signature.bind({"tickers": [], "terms": {"value": value}})
    assert orjson.loads(str(bound["terms"])) == {"value": value}
    assert signature.bind(bound) == bound


OBJECTS = {"type": "object", "properties": {"a": {"type": "integer"}}}
KINDS = [{"type": "object", "required": [name]} for name in "abcd"]


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({"items": OBJECTS, "uniqueItems": True}, [{"a": n} for n in range(5_500)]),
        ({"items": {"oneOf": KINDS}}, [{}] * 20_000),
        ({"items": {"oneOf": KINDS}}, [{"a": 1}] * 7_000),
        ({"items": {"enum": [f"v{n}" for n in range(500)]}}, ["no"] * 13_000),
    ],
)
def test_what_a_schema_asks_of_a_long_value_takes_no_time(schema: Any, values: Any) -> None:
    parameter = {**ORDERS["parameters"][0], "json_schema": {"type": "array", **schema}}  # type: ignore[index]
    parameter["example"] = "[]"
    signature = Signature(Manifest.model_validate({**ORDERS, "parameters": (parameter,)}))
    began = time.process_time()
    with suppress(ArgumentError):
        signature.bind({"tickers": values})
    assert time.process_time() - began < 1.0  # in Python it took from 1 s to a minute


@pytest.mark.parametrize("name", ["read_result", "call_tool", "resolve_symbol"])
async def test_names_of_the_gateways_own_tools_are_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / "own.py"
    file.write_text(textwrap.dedent(RATES).replace("RATE", "1").replace("rate(", f"{name}("))
    with pytest.raises(
        SettingsError, match=r"provider own has a tool named .*give its tools a prefix"
    ):
        async with Gateway.open(settings_of(tmp_path, tools=(file,))):
            pass
    prefixed = {"own": {"python": file, "prefix": "own_"}}
    async with Gateway.open(settings_of(tmp_path, providers=prefixed)) as gateway:
        assert gateway.catalog.get(f"own_{name}") is not None


def test_an_empty_catalogue_is_searched(tmp_path: Path) -> None:
    done = finport("tools", "anything", "--catalog", "none", cache=tmp_path)
    assert done.returncode == 0
    assert "0 of 0 tools" in done.stdout


def test_tools_of_ones_own_are_recorded(tmp_path: Path) -> None:
    file, calls, out = written(tmp_path, 3), tmp_path / "calls.jsonl", tmp_path / "own.snap"
    calls.write_text('{"tool": "rate", "arguments": {"tenor": "7D"}}\n')
    own = {"FINPORT_TOOLS": str(file)}
    options = ("--calls", str(calls), "--out", str(out), "--upstream", "simulated")
    done = finport("snapshot", "record", *options, cache=tmp_path, **own)
    assert done.returncode == 0, done.stderr
    offline = ("--mode", "offline", "--snapshot", str(out))
    again = finport("call", "rate", "tenor=7D", *offline, cache=tmp_path, **own)
    assert '"rate": 3' in again.stdout
    whole = ("--out", "whole.snap", "--upstream", "simulated", "--json")
    done = finport("snapshot", "record", *whole, cache=tmp_path, FINPORT_CATALOG="none", **own)
    assert json.loads(done.stdout)["tools"] == {"rate": 1}, "without --calls and --tools all"


async def test_the_page_shows_arrays_and_hides_own_tools_without_a_key(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    binding = {"source": "http", "base_url": "http://localhost:9", "path": "/orders", "parts": [
        {"argument": "tickers", "place": "query", "name": "t", "style": "form", "explode": True},
        {"argument": "terms", "place": "query", "name": "o", "style": "json"},
    ]}  # fmt: skip
    tool_ = Manifest.model_validate_json(orjson.dumps({**ORDERS, "binding": binding}))
    (folder / "orders.json").write_text(text_of([tool_]))
    options = ("--manifests", str(folder))
    async with (
        server(tmp_path, *options) as served,
        aiohttp.ClientSession() as client,
        client.get(f"{served.url}/tools/orders") as page,
    ):
        assert page.status == 200
        assert "[&#34;ACME&#34;]" in await page.text()
    keyed = {"FINPORT_API_KEYS": "a-key-of-a-client"}
    async with server(tmp_path, *options, **keyed) as served, aiohttp.ClientSession() as client:
        for path, shown in (("/tools/orders", 404), ("/tools/get_coin", 200)):
            async with client.get(f"{served.url}{path}") as page:
                assert page.status == shown
        async with client.get(f"{served.url}/?provider=own") as page:
            assert "Takes orders" not in await page.text()


async def test_tables_of_the_settings_file_are_providers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, 4.25)
    config = tmp_path / "finport.toml"
    config.write_text(
        f"""
        [providers.desk]
        python = "{tmp_path}/desk.py"
        prefix = "acme_"
        timeliness = "daily"
        domains = ["macro"]
        limits = {{ per_second = 50 }}
        """
    )
    monkeypatch.setenv("FINPORT_CONFIG", str(config))
    async with Gateway.open(settings_of(tmp_path)) as gateway:
        manifest = gateway.catalog.get("acme_rate")
        assert manifest is not None
        assert (manifest.home, manifest.timeliness) == ("desk", "daily")
        assert manifest.regulatory_domains == ("macro",)
        result = await gateway.call("acme_rate", {})
        assert result.value == {"tenor": "1D", "rate": 4.25}
        assert result.upstream == "live"  # a tool of the user's own is never simulated
        assert [m.name for m in gateway.catalog.select(provider="desk")] == ["acme_rate"]


async def test_a_file_that_is_only_found_runs_no_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, 1)
    monkeypatch.chdir(tmp_path)
    for line in ('tools = "desk.py"', '[providers.desk]\npython = "desk.py"', 'mcp = "python x"'):
        (tmp_path / "finport.toml").write_text(line)
        with pytest.raises(SettingsError, match="was only found here"):
            GatewaySettings.read()


async def test_two_providers_with_one_name_are_refused_and_both_are_named(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    one, other = written(tmp_path, 1), written(tmp_path / "a", 2, "night.py")
    with pytest.raises(
        SettingsError, match="two tools are named rate: provider desk and provider night"
    ):
        async with Gateway.open(settings_of(tmp_path, tools=(one, other))):
            pass
    apart = {"night": {"python": other, "prefix": "night_"}}
    async with Gateway.open(settings_of(tmp_path, tools=(one,), providers=apart)) as gateway:
        assert (await gateway.call("night_rate", {})).value["rate"] == 2
        assert (await gateway.call("rate", {})).value["rate"] == 1


async def test_the_packaged_catalogue_stays_away_if_asked(tmp_path: Path) -> None:
    file = written(tmp_path, 1)
    async with Gateway.open(settings_of(tmp_path, catalog="none", tools=(file,))) as gateway:
        assert [m.name for m in gateway.catalog] == ["rate"]
        assert (await gateway.call("stock_zh_a_hist", {"symbol": "600519"})).code == "unknown_tool"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, "one of python, manifests, openapi, mcp, command is set, not none"),
        ({"python": "x.py", "mcp": "http://x"}, "not python and mcp"),
        ({"python": "x.py", "base_url": "http://x"}, "base_url has no effect with python"),
        ({"python": "x.py", "prefix": "a b"}, "prefix"),
        ({"mcp": "http://x", "credentials": {"Authorization": "Bearer secret"}}, "credentials"),
    ],
)
def test_a_wrong_provider_is_refused_without_its_values(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingsError, match=told) as caught:
        GatewaySettings.read(providers={"acme": fields})
    assert "secret" not in str(caught.value)


async def test_a_reload_takes_what_changed_and_keeps_what_is_wrong_out(tmp_path: Path) -> None:
    file = written(tmp_path, 1)
    async with Gateway.open(settings_of(tmp_path, tools=(file,))) as gateway:
        assert (await gateway.call("rate", {})).value["rate"] == 1
        written(tmp_path, 2)
        await gateway.reload()
        assert (await gateway.call("rate", {})).value["rate"] == 2
        file.write_text("raise RuntimeError('no')")
        with pytest.raises(SettingsError, match="it raised RuntimeError"):
            await gateway.reload()
        assert (await gateway.call("rate", {})).value["rate"] == 2


async def test_a_reload_does_not_touch_calls_under_way(tmp_path: Path) -> None:
    entered = asyncio.Event()
    leave = asyncio.Event()

    @tool
    async def slow() -> int:
        """Answers when it may."""
        entered.set()
        await leave.wait()
        return 7

    async with Gateway.open(settings_of(tmp_path, catalog="none"), tools=[slow]) as gateway:
        call = asyncio.create_task(gateway.call("slow", {}))
        await entered.wait()
        await gateway.reload()
        leave.set()
        assert (await call).value == 7


async def test_ten_reloads_under_load_lose_no_call(tmp_path: Path) -> None:
    file = written(tmp_path, 0)
    async with Gateway.open(settings_of(tmp_path, tools=(file,))) as gateway:
        results = []

        async def load() -> None:
            for n in range(100):
                results.append(await gateway.call("rate", {"tenor": f"{n}D"}))
                await asyncio.sleep(0)

        loading = [asyncio.create_task(load()) for _ in range(4)]
        for n in range(10):
            written(tmp_path, n)
            await gateway.reload()
        await asyncio.gather(*loading)
        assert len(results) == 400
        assert all(result.ok for result in results)


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_sighup_reloads_a_server(tmp_path: Path, workers: str) -> None:
    file = written(tmp_path, 1)
    async with server(tmp_path, "--tools", str(file), "--workers", workers) as served:

        async def rate() -> float:
            _, said = await asked(f"{served.url}/v1/tools/rate", {})
            return float(said["data"]["rate"])

        assert await rate() == 1
        written(tmp_path, 2)
        served.tell(signal.SIGHUP)
        async with asyncio.timeout(PATIENCE_S):
            while {await rate() for _ in range(8)} != {2}:
                await asyncio.sleep(0.1)
        file.write_text("raise RuntimeError('no')")
        served.tell(signal.SIGHUP)
        await served.says("nothing was reloaded: provider desk: ")
        assert await rate() == 2
        served.tell(signal.SIGTERM)
        code, _ = await served.ended()
        assert code == 0


CRUNCH = """
    import os, time
    import finport

    @finport.tool(in_process=True)
    def crunch(what: str = "add") -> dict:
        '''Crunches numbers in a process of its own.'''
        if what == "hang":
            time.sleep(60)
        if what == "die":
            os._exit(3)
        if what == "refuse":
            raise ValueError("no such thing to crunch")
        if what == "fail":
            raise KeyError("secret-token")
        return {"pid": os.getpid()}
"""


async def test_a_function_may_run_in_a_process_that_its_deadline_kills(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "crunch.py"
    file.write_text(textwrap.dedent(CRUNCH))
    chosen = settings_of(tmp_path, catalog="none", tools=(file,), deadline_s=5.0, retries=0)
    async with Gateway.open(chosen) as gateway:
        first = await gateway.call("crunch", {})
        assert first.value["pid"] != os.getpid()
        assert (await gateway.call("crunch", {"what": "hang"})).code == "timeout"
        assert (await gateway.call("crunch", {"what": "die"})).code == "upstream_error"
        refused = await gateway.call("crunch", {"what": "refuse"})
        assert "no such thing to crunch" in str(refused.message)
        failed = await gateway.call("crunch", {"what": "fail"})
        assert "crunch raised KeyError" in str(failed.message)
        assert "secret-token" not in caplog.text + str(failed.message)
        assert "KeyError in crunch, line" in caplog.text


def test_a_folder_of_manifests_is_a_provider(tmp_path: Path) -> None:
    known = Catalog.load().get("stock_zh_a_hist")
    assert known is not None
    folder = tmp_path / "more"
    folder.mkdir()
    renamed = known.model_copy(update={"name": "my_hist", "generated": "akshare 1.19.5"})
    (folder / "more.json").write_text(text_of([renamed]))
    shown = finport("tools", "show", "my_hist", "--manifests", str(folder), cache=tmp_path)
    assert "provider more" in " ".join(shown.stdout.split())
    assert "generated from akshare 1.19.5, checked by nobody" in shown.stdout
    lists = finport("tools", "--provider", "more", "--manifests", str(folder), cache=tmp_path)
    assert "1 of 1 tools" in lists.stdout
    odd = finport("tools", "--provider", "mine", "--manifests", str(folder), cache=tmp_path)
    assert odd.returncode == 2
    assert "--provider mine is not one of finport, more" in odd.stderr


def test_keys_and_mcp_know_the_users_own_tools(tmp_path: Path) -> None:
    file = written(tmp_path, 1)
    own = {"FINPORT_TOOLS": str(file)}
    made = finport("keys", "add", "desk", "--tools", "names:rate", cache=tmp_path, **own)
    assert "It may use 1 of 761 tools" in made.stderr
    odd = finport("keys", "add", "other", "--tools", "names:ratez", cache=tmp_path, **own)
    assert odd.returncode == 2
    command = (*FINPORT, "mcp", "--catalog", "none", "--tools", str(file))
    ask = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}\n'
    answer = subprocess.run(
        (*command, "--tools", "provider:desk"),
        input=ask,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert b'"name":"rate"' in answer.stdout, answer.stderr
