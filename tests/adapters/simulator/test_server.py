from collections.abc import AsyncIterator, Mapping

import aiohttp
import pytest

from adapters.host import ORIGINAL_HOST
from adapters.rapidapi.adapter import request_of
from adapters.simulator import Faults, SimulatedUpstream
from manifests import Catalog, RapidApiBinding, Signature

pytestmark = pytest.mark.anyio

COINS = {"X-RapidAPI-Host": "coinranking1.p.rapidapi.com"}


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


@pytest.fixture
async def simulator(catalog: Catalog) -> AsyncIterator[SimulatedUpstream]:
    async with SimulatedUpstream.open(catalog) as opened:
        yield opened


async def test_all_42_rapidapi_hosts_answer_every_sample_request(
    catalog: Catalog, simulator: SimulatedUpstream, session: aiohttp.ClientSession
) -> None:
    hosts = set()
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


async def test_answers_depend_on_seed_and_request_alone(
    catalog: Catalog, session: aiohttp.ClientSession
) -> None:
    async def answer(seed: int, *uuids: str) -> list[bytes]:
        async with SimulatedUpstream.open(catalog, seed=seed) as simulator:
            urls = [f"{simulator.base_url}/coin/{uuid}" for uuid in uuids]
            asked = [session.get(url, headers={**COINS, "X-RapidAPI-Key": "x"}) for url in urls]
            return [await (await response).read() for response in asked]

    first, second, again = await answer(1, "a", "b", "a")
    assert await answer(1, "a") == [first] == [again] != [second]
    assert await answer(2, "a") != [first]


async def test_a_request_without_a_key_is_refused_as_upstream_does(
    simulator: SimulatedUpstream, session: aiohttp.ClientSession
) -> None:
    async with session.get(f"{simulator.base_url}/coin/a", headers=COINS) as response:
        assert response.status == 401


async def test_failures_come_at_the_rate_that_is_set_and_the_rest_of_an_unknown_host_is_not_found(
    catalog: Catalog, session: aiohttp.ClientSession
) -> None:
    codes = []
    async with SimulatedUpstream.open(catalog, faults=Faults(failure_rate=0.3)) as simulator:
        for _ in range(300):
            asked = session.get(simulator.base_url, headers={ORIGINAL_HOST: "example.com"})
            async with asked as response:
                codes.append(response.status)
        assert simulator.requests == {("example.com", "/"): 300}
    assert 60 <= codes.count(503) <= 120
    assert set(codes) == {404, 503}


@pytest.mark.parametrize(
    ("host", "path", "name", "part"),
    [
        ("63.push2his.eastmoney.com", "/api/qt/stock/kline/get", "secid", "data"),
        ("www.chinamoney.com.cn", "/ags/ms/cm-u-bk-currency/ClsYldCurvHis", "termId", "records"),
    ],
)
async def test_an_argument_that_the_upstream_does_not_know_gets_no_data_and_no_traceback(
    simulator: SimulatedUpstream,
    session: aiohttp.ClientSession,
    caplog: pytest.LogCaptureFixture,
    host: str,
    path: str,
    name: str,
    part: str,
) -> None:
    url, headers = simulator.base_url + path, {ORIGINAL_HOST: host}
    for odd in ("AAPL", "", "nan", "中文", "1e-12", "-5"):
        async with session.get(url, params={name: odd}, headers=headers) as response:
            assert response.status == 200, odd
            assert not (await response.json())[part], odd
    assert caplog.records == []


@pytest.mark.parametrize("end", [{}, {"end": "20500101"}, {"end": "20260630"}])
async def test_a_history_begins_on_the_day_from_which_it_was_asked_for(
    simulator: SimulatedUpstream, session: aiohttp.ClientSession, end: Mapping[str, str]
) -> None:
    url = f"{simulator.base_url}/api/qt/stock/kline/get"
    asked = {"secid": "1.600519", "beg": "20230103", **end}
    headers = {ORIGINAL_HOST: "push2his.eastmoney.com"}
    async with session.get(url, params=asked, headers=headers) as response:
        bars = (await response.json())["data"]["klines"]
    assert (bars[0][:10], bars[-1][:10]) == ("2023-01-03", "2026-06-30")
