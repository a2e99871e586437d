import aiohttp
import pytest

from adapters.host import ORIGINAL_HOST
from adapters.rapidapi.adapter import request_of
from adapters.simulator import Faults, SimulatedUpstream
from manifests import Catalog, RapidApiBinding, Signature

pytestmark = pytest.mark.anyio


async def test_all_42_rapidapi_hosts_answer_every_sample_request(catalog: Catalog) -> None:
    hosts = set()
    async with SimulatedUpstream.open(catalog) as simulator, aiohttp.ClientSession() as session:
        for manifest in catalog:
            if not isinstance(manifest.binding, RapidApiBinding):
                continue
            arguments = Signature(manifest).bind(manifest.sample())
            url, _ = request_of(manifest.binding, arguments, simulator.base_url)
            headers = {"X-RapidAPI-Key": "x", "X-RapidAPI-Host": manifest.binding.host}
            async with session.get(url, headers=headers) as response:
                assert response.status == 200, manifest.name
                assert await response.json()
            hosts.add(manifest.binding.host)
    assert len(hosts) == 42


async def _answer(
    simulator: SimulatedUpstream, uuid: str, key: str | None = "x"
) -> tuple[int, bytes]:
    headers = {"X-RapidAPI-Host": "coinranking1.p.rapidapi.com"}
    if key:
        headers["X-RapidAPI-Key"] = key
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{simulator.base_url}/coin/{uuid}", headers=headers) as response,
    ):
        return response.status, await response.read()


async def test_answers_depend_on_seed_and_request_alone(catalog: Catalog) -> None:
    async with SimulatedUpstream.open(catalog, seed=1) as one:
        first = [await _answer(one, uuid) for uuid in ("a", "b", "a")]
    async with SimulatedUpstream.open(catalog, seed=1) as same:
        assert await _answer(same, "a") == first[0] == first[2] != first[1]
    async with SimulatedUpstream.open(catalog, seed=2) as other:
        assert await _answer(other, "a") != first[0]


async def test_a_request_without_a_key_is_refused_as_upstream_does(catalog: Catalog) -> None:
    async with SimulatedUpstream.open(catalog) as simulator:
        assert (await _answer(simulator, "a", key=None))[0] == 401


async def test_failures_come_at_the_rate_that_is_set(catalog: Catalog) -> None:
    async with SimulatedUpstream.open(catalog, faults=Faults(failure_rate=0.3)) as simulator:
        codes = [(await _answer(simulator, str(n)))[0] for n in range(300)]
    assert 60 <= codes.count(503) <= 120
    assert set(codes) == {200, 503}


async def test_what_it_does_not_stand_for_is_not_found(catalog: Catalog) -> None:
    async with SimulatedUpstream.open(catalog) as simulator, aiohttp.ClientSession() as session:
        headers = {ORIGINAL_HOST: "example.com"}
        async with session.get(simulator.base_url, headers=headers) as response:
            assert response.status == 404
        assert simulator.requests == {("example.com", "/"): 1}


@pytest.mark.parametrize("odd", ["AAPL", "", "nan", "中文", "1e-12", "-5"])
@pytest.mark.parametrize(
    ("host", "path", "name", "part"),
    [
        ("63.push2his.eastmoney.com", "/api/qt/stock/kline/get", "secid", "data"),
        ("www.chinamoney.com.cn", "/ags/ms/cm-u-bk-currency/ClsYldCurvHis", "termId", "records"),
    ],
)
async def test_an_argument_that_the_upstream_does_not_know_gets_no_data_and_no_traceback(
    catalog: Catalog,
    caplog: pytest.LogCaptureFixture,
    host: str,
    path: str,
    name: str,
    part: str,
    odd: str,
) -> None:
    async with SimulatedUpstream.open(catalog) as simulator, aiohttp.ClientSession() as session:
        url, headers = simulator.base_url + path, {ORIGINAL_HOST: host}
        async with session.get(url, params={name: odd}, headers=headers) as response:
            assert response.status == 200
            assert not (await response.json())[part]
    assert caplog.records == []


@pytest.mark.parametrize("end", [{}, {"end": "20500101"}, {"end": "20260630"}])
async def test_a_history_begins_on_the_day_from_which_it_was_asked_for(
    catalog: Catalog, end: dict[str, str]
) -> None:
    async with SimulatedUpstream.open(catalog) as simulator, aiohttp.ClientSession() as session:
        url = f"{simulator.base_url}/api/qt/stock/kline/get"
        headers = {ORIGINAL_HOST: "push2his.eastmoney.com"}
        asked = {"secid": "1.600519", "beg": "20230103", **end}
        async with session.get(url, params=asked, headers=headers) as response:
            bars = (await response.json())["data"]["klines"]
    assert (bars[0][:10], bars[-1][:10]) == ("2023-01-03", "2026-06-30")
