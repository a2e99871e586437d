"""FinTrace's judge: a model is asked about whole trajectories, and may answer anything."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.judges import JudgeParts
from bench.record import EpisodeRecord, Judgement
from bench.suites.fintrace.judge import (
    ARGUMENTS_CHARS,
    RUBRICS,
    STEPS,
    TrajectoryJudge,
    read_scores,
)
from bench.suites.fintrace.suite import FinTrace
from manifests import Catalog
from tests.support.played_model import INPUT, Aside, opened, playing, says
from tests.support.runs import call, episode

pytestmark = pytest.mark.anyio

ALL = dict.fromkeys(RUBRICS, 4)


def answering(*replies: str | int) -> Aside:
    given = iter(replies)

    async def aside(_: dict[str, Any]) -> Any:
        reply = next(given)
        return reply if isinstance(reply, int) else says(reply)

    return aside


async def judged(record: EpisodeRecord, aside: Aside, repeats: int = 3) -> tuple[Judgement, Any]:
    async with playing() as played, opened(played) as model:
        played.aside["judge-trajectory"] = aside
        parts = JudgeParts(Catalog.load(), model, repeats)
        return await TrajectoryJudge(parts).judge(record), played


async def test_the_median_of_the_repeats_counts() -> None:
    replies = [json.dumps(ALL | {"TaskPassRate": score}) for score in (1, 5, 2)]
    judgement, _ = await judged(episode(0, call()), answering(*replies))
    assert sorted(judgement.by_metric["TaskPassRate"]) == [1, 2, 5]
    assert (judgement.invalid, judgement.judge) == (0, "llm:played")
    figures = FinTrace.measured(replace(episode(0, call()), judgement=judgement), []).figures
    assert (figures["TaskPassRate"], figures["FinalAnswerQuality"]) == (2, 4)


async def test_what_is_no_score_is_counted_and_the_rest_is_kept() -> None:
    odd = ALL | {"TaskRelevance": 6, "ProgressScore": "3", "TaskPassRate": None}
    judgement, _ = await judged(episode(0), answering(json.dumps(odd), "I think it is good.", 400))
    assert judgement.invalid == 2 + len(RUBRICS) + len(RUBRICS)
    assert judgement.by_metric == {
        name: [3 if name == "ProgressScore" else 4]
        for name in RUBRICS
        if name not in ("TaskRelevance", "TaskPassRate")
    }
    assert [request.error is None for request in judgement.model_calls].count(False) == 1
    assert sum(request.input_tokens for request in judgement.model_calls) == 2 * INPUT


async def test_the_judge_sees_the_query_the_gold_and_what_the_agent_read() -> None:
    long = replace(call(), parameters={"q": "x" * 10_000}, observed="short")
    record = replace(
        episode(0, *[call()] * STEPS, long),
        labelled_tools=["get_coin", "rates"],
        labelled_arguments=[{"uuid": "a"}, None],
        execution_result="It is 42 \ud800.",
    )
    _, played = await judged(record, answering(json.dumps(ALL)), repeats=1)
    about = json.loads(played.asides[0]["messages"][1]["content"])
    assert about["query"] == record.question
    assert about["gold"] == [{"tool": "get_coin", "arguments": {"uuid": "a"}}, {"tool": "rates"}]
    assert about["reference"] == "42"
    assert len(about["steps"]) == STEPS
    assert about["steps_left_out"] == 1
    assert about["steps"][-1]["output"] == "short"
    assert len(about["steps"][-1]["arguments"]) == ARGUMENTS_CHARS


@pytest.mark.parametrize(
    ("reply", "scores"),
    [
        ('```json\n{"TaskRelevance": 3}\n```', {"TaskRelevance": 3}),
        ('<think>{"TaskRelevance": 1}</think>{"TaskRelevance": 5}', {"TaskRelevance": 5}),
        ('{"TaskRelevance": 4.0, "ProgressScore": 4.5}', {"TaskRelevance": 4}),
        ('{"TaskRelevance": true}', {}),
        ('{"TaskRelevance": 0}', {}),
        ('{"TaskRelevance": 1e400}', {}),
        ("", {}),
    ],
)
def test_a_score_is_a_whole_number_from_1_to_5(reply: str, scores: dict[str, float]) -> None:
    assert read_scores(reply) == scores


@given(st.text() | st.dictionaries(st.sampled_from([*RUBRICS]), st.floats() | st.text()).map(str))
def test_no_reply_breaks_the_reader(reply: str) -> None:
    assert all(score in (1, 2, 3, 4, 5) for score in read_scores(reply).values())
