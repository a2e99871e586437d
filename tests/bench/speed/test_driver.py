"""`finbench speed driver` in small: what it counts adds up, and what is wrong is noticed. Nothing
is said about speed.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.agents import Episode, ErrorRates, ScriptedAgent
from bench.environment import INSPECT_PYTHON
from bench.runs.driver import Driver
from bench.speed.baselines import inspect_ai
from bench.speed.driver import Figures, Sizes, flat, many, model_driven, scripted
from bench.speed.driver_scripted import ANSWER
from bench.speed.driver_stage import TOOL, CheckedAgent, Stage, log_bytes, suite
from bench.speed.measurement import MeasurementError
from tests.support.answers import answer

pytestmark = pytest.mark.anyio

TINY = Sizes(
    rounds=1,
    concurrency=20,
    episodes=60,
    many=50,
    many_episodes=100,
    think_s=0.02,
    http_episodes=100,
    http_think_s=0.02,
    calls=360,
    window=90,
    windows=2,
    model_episodes=30,
    model_concurrency=10,
)


def numbers(figures: Figures) -> dict[str, float]:
    return {name: value for name, value in figures.items() if not isinstance(value, str)}


async def test_scripted_episodes_are_measured_with_and_without_a_judge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(INSPECT_PYTHON, raising=False)
    figures = await scripted(TINY)
    assert figures["inspect"] == f"not measured: set {INSPECT_PYTHON}"
    found = numbers(figures)
    assert min(found.values()) > 0
    assert found["judged_log_bytes_per_episode"] > found["scripted_log_bytes_per_episode"] > 1_000


async def test_episodes_that_think_are_in_flight_at_once() -> None:
    found = numbers(await many(TINY))
    assert found["many_most_in_flight"] == found["many_http_most_in_flight"] == TINY.many
    for side in ("many", "many_http"):
        assert found[f"{side}_calls_per_s"] == pytest.approx(3 * found[f"{side}_episodes_per_s"])
        assert found[f"{side}_loop_lag_p99_ms"] > 0
        assert found[f"{side}_peak_rss_mb"] > 10


@pytest.mark.soak
async def test_a_call_is_compared_with_an_early_one() -> None:
    found = numbers(await flat(TINY))
    assert min(found.values()) > 0
    assert found["last_to_first_min"] <= found["last_to_first"] <= found["last_to_first_max"]


@pytest.mark.soak
async def test_model_driven_episodes_ask_what_the_official_client_asks() -> None:
    found = numbers(await model_driven(TINY))
    sent = [found[f"{side}_sent_bytes_per_episode"] for side in ("model", "official_aiohttp")]
    assert sent[0] == pytest.approx(sent[1], rel=0.01)
    assert found["model_log_bytes_per_episode"] > 1_000
    assert found["model_to_official_aiohttp"] > 0
    assert found["model_to_official_default"] > 0


async def test_another_answer_than_expected_fails_the_measurement(tmp_path: Path) -> None:
    async with Stage.open(tmp_path) as stage:
        wrong = (*stage.expected[:2], b"[]")
        scripted_agent = ScriptedAgent([TOOL], rates=ErrorRates(0, 0, 0))
        for agent in (
            CheckedAgent(scripted_agent, wrong, ANSWER),
            CheckedAgent(scripted_agent, stage.expected, "nothing was found"),
        ):
            driver = Driver(suite(), agent, stage.client, stage.directory, concurrency=2)
            await driver.run(2)
        with pytest.raises(MeasurementError, match="0 of 4 episodes passed"):
            stage.check(4)
    with pytest.raises(MeasurementError, match="4 of 5 episodes are on disk"):
        log_bytes(tmp_path, 5)
    assert log_bytes(tmp_path, 4) > 4_000


async def test_a_checked_agent_reads_the_newest_reply() -> None:
    agent = CheckedAgent(ScriptedAgent([TOOL]), [b"1", b"2"], ANSWER)
    history: Any = [SimpleNamespace(replies=(answer(data),)) for data in (b"1", b"1")]
    episode = Episode(suite().tasks[0], 0, history=history)
    with pytest.raises(MeasurementError, match="a reply is not"):
        await agent.act(episode)


def test_inspect_samples_that_ended_otherwise_are_counted() -> None:
    told = {"episodes": 3, "outputs": {"20240101": "a", "20240102": "b"}}

    def sample(answer: str, *outputs: str) -> SimpleNamespace:
        messages = [SimpleNamespace(role="user", text="?")]
        messages += [SimpleNamespace(role="tool", text=text) for text in outputs]
        return SimpleNamespace(output=SimpleNamespace(completion=answer), messages=messages)

    right = sample(inspect_ai.ANSWER, "a", "b")
    log = SimpleNamespace(samples=[right, sample("no", "a", "b")])
    assert inspect_ai.wrong(log, told) == 2
    log.samples += [right, right]
    assert inspect_ai.wrong(log, told) == 0
