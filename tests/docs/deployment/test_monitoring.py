"""Prometheus and Grafana with the files of docs/deployment, over the metrics of real gateways."""

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import combinations, count
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from tests.support.fleets import (
    DEPLOYMENT,
    GATEWAYS,
    METRICS_KEY,
    Fleet,
    needs,
    own_address,
    substituted,
)
from tests.support.schemas import schemas
from tests.support.servers import server
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio

RULES = "prometheus-rules.yml"
KEY_FILE = "/etc/prometheus/finport-metrics-key"
KEYS = {"FINPORT_API_KEYS": "desk=fp_0451", "FINPORT_METRICS_KEY": METRICS_KEY}
COIN_HOST = "coinranking1.p.rapidapi.com"

Panel = dict[str, Any]


def dashboard() -> dict[str, Any]:
    read: dict[str, Any] = json.loads((DEPLOYMENT / "grafana-dashboard.json").read_text())
    return read


def queries(panel: Panel) -> Iterator[str]:
    """What a panel asks for, with the variables as Grafana fills them in."""
    for target in panel["targets"]:
        expr: str = target["expr"]
        yield expr.replace("$instance", ".*").replace("$__rate_interval", "10s")


@dataclass
class Prometheus:
    """A Prometheus that runs with the files of docs/deployment, and looks once a second."""

    url: str
    client: aiohttp.ClientSession

    async def asked(self, query: str) -> list[dict[str, Any]]:
        """The series that a query finds now; fails if Prometheus can't read it."""
        params = {"query": query}
        async with self.client.get(f"{self.url}/api/v1/query", params=params) as response:
            said = await response.json()
        assert said["status"] == "success", f"{query}: {said}"
        result: list[dict[str, Any]] = said["data"]["result"]
        return result

    @classmethod
    @asynccontextmanager
    async def of(cls, addresses: Sequence[str], folder: Path) -> AsyncIterator["Prometheus"]:
        (folder / "key").write_text(METRICS_KEY)
        shutil.copy(DEPLOYMENT / RULES, folder)
        changes = dict(zip(GATEWAYS, addresses, strict=True))
        changes |= {"interval: 15s": "interval: 1s", KEY_FILE: str(folder / "key")}
        config = folder / "prometheus.yml"
        config.write_text(substituted(config.name, changes))
        listen = f"{own_address()}:9090"
        process = await asyncio.create_subprocess_exec(
            *("prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"),
            f"--web.listen-address={listen}",
            stderr=subprocess.DEVNULL,
        )
        try:
            async with aiohttp.ClientSession() as client:
                made = cls(f"http://{listen}", client)
                async with asyncio.timeout(PATIENCE_S):
                    while True:
                        with suppress(aiohttp.ClientError):
                            async with client.get(f"{made.url}/-/ready") as response:
                                if response.status == 200:
                                    break
                        await asyncio.sleep(0.1)
                yield made
        finally:
            process.terminate()
            await process.wait()


@needs("promtool")
def test_rules_do_what_they_say(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.touch()
    shutil.copy(DEPLOYMENT / RULES, tmp_path)
    config = tmp_path / "prometheus.yml"
    config.write_text(substituted(config.name, {KEY_FILE: str(key)}))
    plan = Path(__file__).with_name("rules.test.yml")
    for words in (("promtool", "check", "config", config), ("promtool", "test", "rules", plan)):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_is_tested_and_says_who_should_know() -> None:
    groups = yaml.safe_load((DEPLOYMENT / RULES).read_text())["groups"]
    alerts = {rule["alert"]: rule for each in groups for rule in each["rules"] if "alert" in rule}
    plan = yaml.safe_load(Path(__file__).with_name("rules.test.yml").read_text())["tests"]
    checks = [check for test in plan for check in test.get("alert_rule_test", ())]
    fired = {check["alertname"] for check in checks if check.get("exp_alerts")}
    assert fired == alerts.keys()
    assert {rule["labels"]["severity"] for rule in alerts.values()} == {"critical", "warning"}


def test_panels_do_not_overlap_and_ask_the_chosen_source() -> None:
    board = dashboard()
    panels = board["panels"]
    source, instance = board["templating"]["list"]
    assert (source["type"], instance["type"]) == ("datasource", "query")
    assert len({p["id"] for p in panels}) == len({p["title"] for p in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        assert panel["datasource"] == instance["datasource"]
        assert panel["description"]
        for target in panel["targets"]:
            assert target["expr"].count("{") == target["expr"].count('{instance=~"$instance"')
    for one, other in combinations([panel["gridPos"] for panel in panels], 2):
        apart = (one[at] + one[size] <= other[at] for at, size in ("xw", "yh"))
        behind = (other[at] + other[size] <= one[at] for at, size in ("xw", "yh"))
        assert any(apart) or any(behind)


def test_grafana_knows_each_field_of_the_dashboard() -> None:
    program = """
import json, sys
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

register_default_plugins()
print(json.dumps(Dashboard.from_json(json.load(sys.stdin)), cls=JSONEncoder))
"""
    said = json.loads(schemas(program, json.dumps(dashboard())))
    assert list(lost(dashboard(), said, "dashboard")) == []


def lost(given: object, kept: object, place: str) -> Iterator[str]:
    """Where `kept` lacks what was given; defaults that were added don't count."""
    if isinstance(given, dict) and isinstance(kept, dict):
        for name, value in given.items():
            yield from lost(value, kept.get(name), f"{place}.{name}")
    elif isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        for n, (value, other) in enumerate(zip(given, kept, strict=True)):
            yield from lost(value, other, f"{place}[{n}]")
    elif given != kept:
        yield place


async def test_rules_and_panels_name_metrics_of_the_gateway(tmp_path: Path) -> None:
    async with (
        server(tmp_path) as gateway,
        aiohttp.ClientSession() as client,
        client.get(f"{gateway.url}/metrics") as response,
    ):
        exposed = {*re.findall("^# TYPE (\\w+)", await response.text(), re.MULTILINE)}
    named = {word for panel in dashboard()["panels"] for word in queries(panel)}
    text = "\n".join([*named, (DEPLOYMENT / RULES).read_text()])
    names = {name.removesuffix("_bucket") for name in re.findall(r"\bfinport_\w+", text)}
    assert names <= exposed


@needs("prometheus")
async def test_each_panel_finds_what_it_asks_for(tmp_path: Path) -> None:
    settings = f"""
retries = 0
[simulated_faults]
server_error = 0.7
[hosts."{COIN_HOST}"]
per_month = 100_000
"""
    (tmp_path / "finport.toml").write_text(settings)
    told = KEYS | {"FINPORT_CONFIG": str(tmp_path / "finport.toml")}
    host, numbers = own_address(), count()
    wanted = {panel["title"]: [*queries(panel)] for panel in dashboard()["panels"]}
    rare = {"Changes of shape"}  # of an upstream that changes
    async with (
        server(tmp_path, "--host", host, **told) as gateway,
        Prometheus.of([f"{host}:{gateway.port}", f"{host}:1"], tmp_path) as prometheus,
        aiohttp.ClientSession(headers={"X-Api-Key": "fp_0451"}) as client,
        asyncio.timeout(2 * PATIENCE_S),
    ):

        async def call(tool: str, **arguments: str) -> None:
            url = f"{gateway.url}/v1/tools/{tool}"
            async with client.post(url, json=arguments) as response:
                await response.read()

        await call("stock_zh_a_hist", symbol="600519")
        while wanted.keys() > rare:
            coins = ("kept", *(f"{next(numbers)}" for _ in range(4)))
            await asyncio.gather(call("get_coin"), *(call("get_coin", uuid=u) for u in coins))
            for title, exprs in [*wanted.items()]:
                found = [series for expr in exprs for series in await prometheus.asked(expr)]
                if any(series["value"][1] != "NaN" for series in found):
                    del wanted[title]


@pytest.mark.soak
@needs("prometheus")
async def test_prometheus_reads_both_gateways_as_one(tmp_path: Path) -> None:
    async with Fleet.open(tmp_path, **KEYS) as fleet:
        addresses = [*fleet.changes().values()]
        async with Prometheus.of(addresses, tmp_path) as prometheus:
            async with asyncio.timeout(PATIENCE_S):
                while (found := await prometheus.asked("finport:workers")) == []:
                    await asyncio.sleep(0.1)
                while found[0]["value"][1] != "2":
                    found = await prometheus.asked("finport:workers")
            assert found[0]["metric"] == {"__name__": "finport:workers", "job": "finport"}
