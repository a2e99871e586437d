"""`finport.connect`: a client for scripts and notebooks, in this process and at a server."""

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import finport
from tests.support.commands import served
from tests.support.installed import NEEDS_AKSHARE


@pytest.fixture(scope="module", params=["here", "server"])
def client(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[finport.Client]:
    folder = tmp_path_factory.mktemp("client")
    if request.param == "here":
        with finport.connect(upstream="simulated", cache_dir=folder) as connected:
            yield connected
        return
    with served(folder) as (_, url), finport.connect(url) as connected:
        yield connected


def test_a_call_gives_all_rows(client: finport.Client) -> None:
    days: dict[str, Any] = {"symbol": "600519", "start_date": "20240101", "end_date": "20260101"}
    result = client.call("stock_zh_a_hist", **days)
    assert result.ok, result.message
    assert result.rows is not None
    assert result.rows > 400
    assert len(result.value) == result.rows
    assert not result.truncated
    assert "rows" in repr(result)
    assert len(repr(result)) < 200
    html = result._repr_html_()
    assert html.count("<tr>") == 11
    assert "more rows" in html
    cut = client.call("stock_zh_a_hist", max_rows=5, **days)
    assert len(cut.value) == 5
    with pytest.warns(finport.PartialTableWarning, match="only"):
        cut.to_pandas()


def test_frames_have_dates_and_numbers(client: finport.Client) -> None:
    pytest.importorskip("pandas")
    result = client.call("stock_zh_a_hist", symbol="600519", start_date="20240101")
    frame = result.to_pandas()
    assert frame["日期"].dtype.kind == "M"
    assert frame["收盘"].dtype.kind == "f"
    assert frame["股票代码"].iloc[0] == "600519"
    arrow = result.to_arrow()
    assert str(arrow.schema.field("日期").type).startswith("date32")


def test_tools_are_functions_with_signatures(client: finport.Client) -> None:
    tools = client.tools
    assert len(tools) >= 760
    assert "get_coin" in dir(tools)
    assert "get_coin" in [*tools]
    tool = tools.stock_zh_a_hist
    signature = inspect.signature(tool)
    assert signature.parameters["symbol"].default is inspect.Parameter.empty
    assert "symbol:" in (tool.__doc__ or "")
    assert tool(symbol="600519", start_date="20260101").ok
    wrong = tools["stock_zh_a_hist"](symbol="nothing like this")
    assert wrong.code == "invalid_arguments"
    assert "invalid_arguments" in wrong._repr_html_()
    with pytest.raises(AttributeError, match="no tool is named 'get_coins'"):
        _ = tools.get_coins
    with pytest.raises(LookupError):
        client.manifest("get_coins")


def test_search_finds_tools_by_name(client: finport.Client) -> None:
    found = client.search("daily price history of a Chinese share", limit=5)
    assert len(found) == 5
    assert "stock_zh_a_hist" in [tool.name for tool in found]
    assert {tool.source for tool in client.search("price", source="akshare")} == {"akshare"}


def test_it_works_where_a_loop_runs(tmp_path: Path) -> None:
    async def cell() -> bool:
        with finport.connect(upstream="simulated", cache_dir=tmp_path) as client:
            return client.call("get_coin", uuid="Qwsogvtv82FCd").ok

    assert asyncio.run(cell())


def test_a_client_that_is_collected_on_its_own_loop_ends(tmp_path: Path) -> None:
    client = finport.connect(upstream="simulated", cache_dir=tmp_path)
    loop, close = client._loop, client._close

    async def collected() -> None:
        close()

    loop.run(collected())
    loop._thread.join(20)
    assert not loop._thread.is_alive()


def test_no_rows_are_refused(tmp_path: Path) -> None:
    with (
        finport.connect(upstream="simulated", cache_dir=tmp_path) as client,
        pytest.raises(ValueError, match="max_rows"),
    ):
        client.call("get_coin", max_rows=0, uuid="x")


def test_a_closed_client_says_so(tmp_path: Path) -> None:
    client = finport.connect(upstream="simulated", cache_dir=tmp_path)
    client.close()
    client.close()
    assert "closed" in repr(client)
    with pytest.raises(RuntimeError, match="this client is closed"):
        client.call("get_coin", uuid="x")


def desk_rate(currency: str = "USD") -> dict[str, Any]:
    """In-house funding rate of a currency."""
    return {"currency": currency, "rate": 4.25}


FILE = """
import finport

@finport.tool
def desk_spread(currency: str = "USD") -> dict:
    'Spread of the desk.'
    return {"currency": currency, "spread": 0.5}
"""


def test_functions_are_tools_beside_files_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "desk.py"
    file.write_text(FILE)
    given: dict[str, Any] = {"upstream": "simulated", "cache_dir": tmp_path / "cache"}
    with finport.connect(tools=[desk_rate, file], **given) as client:
        assert client.tools.desk_rate().value == {"currency": "USD", "rate": 4.25}
        assert client.tools.desk_spread().value == {"currency": "USD", "spread": 0.5}
    with finport.connect(tools=[str(file)], **given) as client:
        assert client.tools.desk_spread().ok
        assert "desk_rate" not in client.names()
    monkeypatch.setenv("FINPORT_TOOLS", str(file))
    with finport.connect(tools=desk_rate, **given) as client:
        assert client.tools.desk_rate().ok
        assert client.tools.desk_spread().ok, "files of the environment are tools, too"


def test_a_wrong_gateway_is_refused() -> None:
    from bench.client import GatewayUnreachableError

    with pytest.raises(GatewayUnreachableError, match="no gateway answers"):
        finport.connect("http://127.0.0.1:9")
    with pytest.raises(finport.SettingsError):
        finport.connect(upstream="nowhere")
    with pytest.raises(TypeError, match="only a gateway in this process takes settings"):
        finport.connect("http://127.0.0.1:9", upstream="simulated")


@NEEDS_AKSHARE
def test_settings_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FINPORT_UPSTREAM", "simulated")
    monkeypatch.setenv("FINPORT_CACHE_DIR", str(tmp_path))
    with finport.connect() as client:
        assert client.call("get_coin", uuid="Qwsogvtv82FCd").source == "simulated"
