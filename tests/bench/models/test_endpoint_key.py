"""Which endpoint is sent which key: seen by servers on the loopback interface."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from click.testing import CliRunner

from adapters.embeddings import EndpointEmbedder
from adapters.fault import UpstreamFault
from bench.agents.registry import AgentSettings, open_agent
from bench.cli.main import main as finbench
from bench.environment import JUDGE_KEY, MODEL_KEY
from bench.judges.registry import JudgeSettings, judge_named, open_judge
from bench.models.client import ModelError
from bench.models.settings import GENERAL, ModelSettings, key_for
from bench.record import EpisodeRecord, ModelCallRecord
from bench.suites.fintoolbench.suite import LabelledTasks
from manifests import Catalog
from tests.support.played_model import completion
from tests.support.upstreams import upstream

pytestmark = pytest.mark.anyio

ELSEWHERE = "http://127.0.0.1:9/v1"
LLM_JUDGE = judge_named("llm", LabelledTasks.judges)
GENERAL_KEY = "sk-planted-general-0451"


@pytest.fixture(autouse=True)
def _general_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (MODEL_KEY, JUDGE_KEY):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(GENERAL, GENERAL_KEY)


class Heard:
    """The keys that came, in their order; without one, the answer is 401."""

    def __init__(self) -> None:
        self.keys: list[str | None] = []

    async def answer(self, request: web.Request) -> web.Response:
        key = request.headers.get("Authorization")
        self.keys.append(key)
        if key is None:
            return web.json_response({"error": {"message": "no key"}}, status=401)
        return web.Response(body=completion("5"), content_type="application/json")


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[Heard, str]]:
    heard = Heard()
    async with upstream(heard.answer) as url:
        yield heard, f"{url}/v1"


@pytest.mark.parametrize(
    ("base_url", "is_sent"),
    [
        ("https://api.openai.com/v1", True),
        ("https://API.openai.com:443/v1/", True),
        ("http://api.openai.com/v1", False),
        ("https://api.openai.com:8443/v1", False),
        ("https://api.openai.com.evil.example/v1", False),
        ("https://eu.api.openai.com/v1", False),
        ("https://api.openai.com@evil.example/v1", False),
        ("https://api.openai.com\\@evil.example/v1", False),
        ("https://openai.com/v1", False),
        ("http://127.0.0.1:8100/v1", False),
        ("https://[::1", False),
        ("", False),
    ],
)
def test_the_general_key_goes_to_its_own_origin_only(base_url: str, is_sent: bool) -> None:
    key = key_for(base_url, MODEL_KEY)
    assert (key.secret, key.source) == ((GENERAL_KEY, GENERAL) if is_sent else (None, None))
    assert GENERAL_KEY not in repr(key)


def test_a_key_of_its_own_goes_before_the_general_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MODEL_KEY, "own")
    assert key_for("https://api.openai.com/v1", MODEL_KEY).source == MODEL_KEY
    assert key_for(ELSEWHERE, JUDGE_KEY).secret is None
    monkeypatch.setenv(MODEL_KEY, " ")
    assert key_for("https://api.openai.com/v1", MODEL_KEY).source == GENERAL


async def test_agent_and_judge_send_their_own_keys_and_no_other(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MODEL_KEY, "the-models-key")
    monkeypatch.setenv(JUDGE_KEY, "the-judges-key")
    record = EpisodeRecord("t#0", "t", 0, "", "", "?", "", "5", [], 0.0, execution_result="5")
    async with listening() as (model, model_url), listening() as (judge, judge_url):
        agent_settings = AgentSettings.of("llm", model=ModelSettings("m", model_url))
        async with open_agent(agent_settings, catalog) as agent:
            await agent._model.complete(  # type: ignore[attr-defined]
                [], record=ModelCallRecord(0, "act", "m", 0.0, 0.0)
            )
        async with open_judge(JudgeSettings(LLM_JUDGE, "m", judge_url), catalog) as by:
            assert by is not None
            await by.judge(record)
    assert set(model.keys) == {"Bearer the-models-key"}
    assert set(judge.keys) == {"Bearer the-judges-key"}


async def test_an_endpoint_elsewhere_gets_no_key_and_the_error_names_the_variable(
    catalog: Catalog,
) -> None:
    async with listening() as (heard, url):
        settings = AgentSettings.of("llm", model=ModelSettings("m", url))
        async with open_agent(settings, catalog) as agent:
            record = ModelCallRecord(0, "act", "m", 0.0, 0.0)
            with pytest.raises(ModelError, match=f"401 .no key was sent: set {MODEL_KEY}."):
                await agent._model.complete([], record=record)  # type: ignore[attr-defined]
        with pytest.raises(UpstreamFault, match="401: no key was sent, set FINPORT_EMBEDDINGS_KEY"):
            await EndpointEmbedder(url, "words").embed(["x"])
    assert heard.keys == [None, None]


async def test_the_judge_takes_the_agents_key_at_the_agents_endpoint_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(MODEL_KEY, "the-models-key")
    assert JudgeSettings(LLM_JUDGE, "m", ELSEWHERE, is_agents=True).key.source == MODEL_KEY
    assert JudgeSettings(LLM_JUDGE, "m", ELSEWHERE).key.secret is None


async def test_an_embeddings_key_is_not_sent_where_a_redirect_points() -> None:
    async with listening() as (heard, url):

        async def redirect(_: web.Request) -> web.Response:
            return web.Response(status=307, headers={"Location": f"{url}/embeddings"})

        async with upstream(redirect) as first:
            with pytest.raises(UpstreamFault, match="answered 307"):
                await EndpointEmbedder(first, "words", "planted").embed(["x"])
    assert heard.keys == []


def test_run_json_names_the_variables_and_holds_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MODEL_KEY, "planted-model-key")
    done = CliRunner().invoke(
        finbench,
        [
            *("run", "starter", "--upstream", "simulated", "--episodes", "1", "--agent", "llm"),
            *("--model", "m", "--base-url", ELSEWHERE, "--judge", "llm", "--out", "out"),
            *("--max-wall-s", "0.01", "--top-k", "0"),
        ],
    )
    assert done.exit_code in (0, 1), done.output  # whether the model was asked in that time
    about = json.loads((tmp_path / "out/run.json").read_text())
    assert (about["model_key"], about["judge_key"]) == (MODEL_KEY, MODEL_KEY)
    for file in (tmp_path / "out").iterdir():
        assert b"planted" not in file.read_bytes(), file.name
