"""Python functions as tools: their manifests, their calls, and files of them."""

import asyncio
import textwrap
import threading
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from adapters.python.provider import THREADS
from finport import FunctionToolError, Gateway, GatewaySettings, SettingsError, connect, tool
from gateway import CallContext
from gateway.server import http
from manifests import Catalog
from manifests.functions import tool_of
from tests.support.commands import finport

pytestmark = pytest.mark.anyio


@tool(domains=["equity"], timeliness="daily", fresh_s=60, examples={"ticker": "ACME"})
async def acme_prices(
    ticker: Annotated[str, "Ticker of the in-house list"],
    day: date = date(2024, 1, 31),
    side: Literal["bid", "ask"] = "bid",
    lots: int | None = None,
) -> list[dict[str, Any]]:
    """Prices of the in-house desk for one ticker.

    Args:
        day: The day that is asked for.
    """
    if ticker == "NONE":
        raise ValueError("there is no such ticker; try ACME")
    if ticker == "BUG":
        raise KeyError("secret-token")
    if ticker == "SLOW":
        await asyncio.sleep(60)
    price = 1.5 * (lots or 1)
    return [{"day": day.isoformat(), "ticker": ticker, "side": side, "price": price}]


def gateway_of(folder: Path, *tools: Callable[..., Any], **settings: Any) -> Any:
    chosen = GatewaySettings(upstream="simulated", cache_dir=folder, **settings)
    return Gateway.open(chosen, tools=tools)


def test_hints_and_docstring_make_the_manifest() -> None:
    manifest = tool_of(acme_prices).manifest
    assert manifest.description == "Prices of the in-house desk for one ticker."
    assert (manifest.source, manifest.timeliness) == ("python", "daily")
    ticker, day, side, lots = manifest.parameters
    assert (ticker.type, ticker.required, ticker.example) == ("string", True, "ACME")
    assert ticker.description == "Ticker of the in-house list"
    assert (day.format, day.default) == ("date", "2024-01-31")
    assert day.description == "The day that is asked for."
    assert side.enum == ("bid", "ask")
    assert (lots.type, lots.required, lots.default) == ("integer", False, None)


def no_words(x: int) -> int:
    return x


def a_list(x: list[int]) -> int:
    """Sums."""
    return sum(x)


def many(*x: int) -> int:
    """Sums."""
    return sum(x)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (no_words, "no_words: has no docstring"),
        (a_list, "a_list: parameter x: its hint is not str, int"),
        (many, "many: parameter x: each parameter has a name"),
    ],
)
def test_what_can_be_no_tool_is_refused(function: Callable[..., Any], text: str) -> None:
    with pytest.raises(FunctionToolError, match=text):
        tool_of(function)


async def test_a_function_is_called_like_any_tool(tmp_path: Path) -> None:
    async with gateway_of(tmp_path, acme_prices) as gateway:
        assert len(gateway.catalog) == 761
        given = {"ticker": "ACME", "day": "20240105"}
        first = await gateway.call("acme_prices", given)
        assert first.ok, first.message
        assert (first.source, first.upstream) == ("live", "live"), "under a simulated upstream"
        assert first.value == [{"day": "2024-01-05", "ticker": "ACME", "side": "bid", "price": 1.5}]
        assert (await gateway.call("acme_prices", given)).source == "cached"
        refused = await gateway.call("acme_prices", {"ticker": "ACME", "side": "both"})
        assert refused.error is not None
        assert "'bid', 'ask'" in refused.error.message
        assert gateway.catalog.search.rank("in-house desk prices", 3)[0][0] == "acme_prices"


async def test_what_a_function_raises_is_told_without_its_secrets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with gateway_of(tmp_path, acme_prices, retries=0) as gateway:
        none = await gateway.call("acme_prices", {"ticker": "NONE"})
        assert none.message == "acme_prices refuses this: there is no such ticker; try ACME"
        bug = await gateway.call("acme_prices", {"ticker": "BUG"})
        assert bug.message == "acme_prices raised KeyError; the gateway's log has more"
        late = await gateway.call("acme_prices", {"ticker": "SLOW"}, CallContext(deadline_s=0.3))
        assert late.code == "timeout"
    assert "acme_prices failed: KeyError in acme_prices, line " in caplog.text
    assert "secret-token" not in caplog.text


RAISED: dict[str, type[BaseException]] = {
    "exit": SystemExit,
    "interrupt": KeyboardInterrupt,
    "cancelled": asyncio.CancelledError,
    "stop": StopIteration,
}


@tool
def ends_thread(how: str) -> int:
    """Raises what is no plain error."""
    raise RAISED[how]


@tool
async def ends_task(how: str) -> int:
    """Raises what is no plain error, or leaks the end of a task of its own."""
    if how == "cancelled":
        inner = asyncio.create_task(asyncio.sleep(60))
        inner.cancel()
        await inner
    raise RAISED[how]


@tool(in_process=True)
def ends_process(how: str) -> int:
    """Raises what is no plain error."""
    raise RAISED[how]


async def test_what_would_end_a_thread_or_a_task_fails_one_call(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"retries": 0, "breaker_attempts": 1000}
    tools = (ends_thread, ends_task, ends_process)
    async with gateway_of(tmp_path, *tools, **settings) as gateway:
        for how, raised in RAISED.items():
            for one in tools:
                name, kind = one.__name__, raised.__name__
                kind = "RuntimeError" if (name, how) == ("ends_task", "stop") else kind
                result = await gateway.call(name, {"how": how}, CallContext(deadline_s=60))
                assert result.message == f"{name} raised {kind}; the gateway's log has more"


async def test_a_thread_that_exits_is_free_again(tmp_path: Path) -> None:
    @tool
    def leaves(n: int) -> int:
        """Exits unless it is given 0."""
        if n:
            raise SystemExit(n)
        return n

    settings: dict[str, Any] = {"retries": 0, "breaker_attempts": 1000}
    async with gateway_of(tmp_path, leaves, **settings) as gateway:
        for n in range(1, THREADS + 2):
            await gateway.call("leaves", {"n": n}, CallContext(deadline_s=1))
        done = await gateway.call("leaves", {"n": 0}, CallContext(deadline_s=5))
        assert (done.ok, done.value) == (True, 0), done.message


async def test_a_function_that_blocks_stops_neither_the_loop_nor_the_end(tmp_path: Path) -> None:
    let_go = threading.Event()

    @tool
    def blocking(n: int) -> int:
        """Waits."""
        if n:
            let_go.wait(30)
        return n

    async with gateway_of(tmp_path, blocking, retries=0) as gateway:
        started = time.monotonic()
        hung = [gateway.call("blocking", {"n": n}, CallContext(deadline_s=1)) for n in range(1, 9)]
        done = await gateway.call("blocking", {"n": 0})
        assert (done.ok, done.value) == (True, 0)
        assert {result.code for result in await asyncio.gather(*hung)} == {"timeout"}
        assert time.monotonic() - started < 20
    let_go.set()


FILE = """
    import finport

    @finport.tool
    def acme_rate(currency: str = "USD") -> dict:
        \"\"\"In-house funding rate of a currency.\"\"\"
        return {"currency": currency, "rate": 4.25}
"""


def written(folder: Path, text: str = FILE, name: str = "mine.py") -> Path:
    file = folder / name
    file.write_text(textwrap.dedent(text))
    return file


async def test_from_a_file_to_an_answer_over_mcp(tmp_path: Path) -> None:
    settings = GatewaySettings(upstream="simulated", cache_dir=tmp_path, tools=(written(tmp_path),))
    async with (
        Gateway.open(settings) as gateway,
        http.serve(gateway) as url,
        Client(streamable_http_client(f"{url}/mcp")) as client,
    ):
        found = await client.call_tool("search_tools", {"query": "in-house funding rate"})
        assert found.structured_content is not None
        assert found.structured_content["tools"][0]["name"] == "acme_rate"
        order = {"name": "acme_rate", "arguments": {"currency": "EUR"}}
        called = await client.call_tool("call_tool", order)
        assert called.structured_content is not None
        assert called.structured_content["data"] == {"currency": "EUR", "rate": 4.25}


async def test_a_recorded_answer_is_replayed_without_the_function_being_run(
    tmp_path: Path,
) -> None:
    runs = list[int]()

    @tool
    def counted(n: int) -> int:
        """Counts."""
        runs.append(n)
        return n

    snapshot = tmp_path / "s.snapshot"
    async with gateway_of(tmp_path / "a", counted, mode="record", snapshot=snapshot) as gateway:
        assert (await gateway.call("counted", {"n": 1})).ok
    async with gateway_of(tmp_path / "b", counted, mode="offline", snapshot=snapshot) as gateway:
        replayed = await gateway.call("counted", {"n": 1})
        assert (replayed.source, replayed.value, replayed.upstream) == ("replayed", 1, "live")
    assert runs == [1]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1", "no function in it is a tool"),
        ("raise RuntimeError('no')", "it raised RuntimeError: no"),
        ("import finport\n@finport.tool\ndef f(x): 'F.'", "its hint is not str"),
        (
            "import finport\n@finport.tool\ndef get_coin(): 'F.'",
            r"two tools are named get_coin: rapidapi \(coinranking1.*\) and provider mine",
        ),
    ],
)
async def test_a_file_that_gives_no_tools_is_refused_at_the_start(
    tmp_path: Path, text: str, told: str
) -> None:
    settings = GatewaySettings(
        upstream="simulated", cache_dir=tmp_path, tools=(written(tmp_path, text),)
    )
    with pytest.raises(SettingsError, match=told):
        async with Gateway.open(settings):
            pass


def test_the_command_line_serves_a_file(tmp_path: Path) -> None:
    file = str(written(tmp_path))
    called = finport(
        "call", "acme_rate", "--tools", file, "--upstream", "simulated", cache=tmp_path
    )
    assert '"rate": 4.25' in called.stdout, called.stderr
    found = finport("tools", "in-house funding rate", "--tools", file, cache=tmp_path)
    assert "acme_rate" in found.stdout
    lacking = finport("tools", "--tools", "nowhere.py", cache=tmp_path)
    assert lacking.returncode == 2
    assert "provider nowhere: nowhere.py: No such file" in lacking.stderr


def test_functions_are_tools_of_a_catalogue_only_once(catalog: Catalog) -> None:
    assert len(catalog.with_own((), [tool_of(acme_prices)])) == len(catalog) + 1
    assert len(catalog) == 760


def test_a_list_of_records_is_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "desk.py").write_text(
        "import finport\n\n\n@finport.tool\ndef quotes(n: int) -> list[dict[str, int]]:\n"
        '    """Quotes of the desk."""\n    return [{"a": i, "b": 2 * i} for i in range(n)]\n'
    )
    with connect(upstream="simulated", tools=["desk.py"], cache_dir="cache") as client:
        result = client.call("quotes", n=2)
        assert (result.columns, result.rows) == (("a", "b"), 2)
        assert result.value == [{"a": 0, "b": 0}, {"a": 1, "b": 2}]
        assert client.call("quotes", n=0).rows == 0
