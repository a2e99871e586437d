"""What is sent to players: everything but secrets."""

import pickle
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.agents.declaration import AgentType
from bench.agents.registry import AgentSettings
from bench.engines.cluster import EngineError
from bench.engines.work import Work, check_options
from bench.runs.run import RunPlan
from bench.suites import load_suite
from gateway import GatewaySettings
from manifests import Catalog

PLAN = RunPlan(load_suite("starter"), "embedded", episodes=4, concurrency=10, starts_per_s=100)

SECRETS = {
    "rapidapi_keys": "rapid-secret",
    "api_keys": "client-secret",
    "metrics_key": "metrics-secret",
    "embeddings_key": "embeddings-secret",
    "extractor_key": "extractor-secret",
    "credentials": {"host.test": "credential-secret"},
    "rapidapi_base_url": "http://user:url-secret@127.0.0.1:1",
}


def test_no_secret_is_sent_and_each_node_has_its_own(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work.of(PLAN, GatewaySettings.read(**SECRETS, upstream="simulated"), catalog, 3)
    sent = pickle.dumps(work.settings)
    assert b"-secret" not in sent
    monkeypatch.setenv("FINPORT_RAPIDAPI_KEYS", "own")
    monkeypatch.setenv("FINPORT_MAX_ROWS", "7")
    found = Work(work.plan, pickle.loads(sent), catalog, 3).settings_of(1)  # noqa: S301
    assert [key.get_secret_value() for key in found.rapidapi_keys] == ["own"]
    assert found.upstream == "simulated"
    assert found.max_rows == 100, "a setting of the run, not of the node"
    assert (found.sharing, found.worker) == (3, 1)


def test_limits_of_the_run_are_shared_and_paths_are_whole(catalog: Catalog) -> None:
    settings = GatewaySettings.read(snapshot=Path("s.snap"), mode="offline")
    work = Work.of(PLAN, settings, catalog, 4)
    assert (work.plan.concurrency, work.plan.starts_per_s) == (3, 25)
    assert work.settings.snapshot == Path.cwd() / "s.snap"
    assert work.settings_of(0).max_connections == settings.max_connections / 4


@dataclass(frozen=True)
class Options:
    api_key: str = ""
    temper: str = "calm"


def test_an_option_that_looks_like_a_credential_is_refused() -> None:
    kind = AgentType("own", "", lambda _options, _parts: None, Options)  # type: ignore[arg-type, return-value]
    for options, is_refused in ((Options(temper="hot"), False), (Options(api_key="k"), True)):
        plan = RunPlan(PLAN.suite, "embedded", 1, 1, agent=AgentSettings("own", kind, options))
        if is_refused:
            with pytest.raises(EngineError, match=r"api_key.*environment variable"):
                check_options(plan)
        else:
            check_options(plan)
