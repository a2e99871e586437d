"""Finds what gave a run nothing at all, so that its figures mean nothing: endpoints that answered
no request, an agent or a judge that failed on every episode.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bench.record import Ending
from bench.runs.metrics import JUDGE

if TYPE_CHECKING:
    from bench.runs.about import RunInfo
    from bench.runs.run import RunPlan


def silences(plan: "RunPlan", metrics: Mapping[str, Any], about: "RunInfo") -> Iterator[str]:
    """A line for each model and gateway that answered no request, with where it is, and for an
    agent and a judge that failed on every episode; each with the first error.
    """
    usage, errors = metrics["usage"], about.first_errors
    if [*usage["endings"]] == [Ending.AGENT_ERROR]:
        count = usage["endings"][Ending.AGENT_ERROR]
        yield _failure("agent", count, errors.get(Ending.AGENT_ERROR))
    if [*usage["endings"]] == [Ending.ENVIRONMENT_ERROR]:
        count = usage["endings"][Ending.ENVIRONMENT_ERROR]
        yield _failure("environment", count, errors.get(Ending.ENVIRONMENT_ERROR))
    yield from of_judge(about.judged, about.failed_judgements, errors.get(JUDGE))
    url = plan.agent.model.base_url if plan.agent.model else None
    yield from of_model("agent", url, usage, errors.get(Ending.MODEL_ERROR))
    yield from of_model("judge", plan.judge.base_url, usage["judge"], errors.get(JUDGE))
    calls = about.gateway_calls
    if calls and calls["made"] and calls["unanswered"] == calls["made"]:
        yield _sentence(
            "the gateway", plan.gateway, f"{calls['made']} calls", calls["first_silence"]
        )


def of_judge(judged: int, failed: int, error: str | None = None) -> Iterator[str]:
    """The line for a judge, if it failed on every episode."""
    if judged and failed == judged:
        yield _failure("judge", failed, error)


def _failure(who: str, episodes: int, error: str | None) -> str:
    text = f"the {who} failed in all {episodes} episodes"
    return f"{text}; the first: {error}" if error else text


def of_model(
    whose: str, url: str | None, usage: Mapping[str, Any], error: str | None = None
) -> Iterator[str]:
    """The line for one model, if it answered none of its requests."""
    asked = usage["model_calls"]
    if asked["calls"] and asked["failed"] == asked["calls"]:
        yield _sentence(f"the {whose}'s model", url, f"{asked['calls']} requests", error)


def _sentence(who: str, url: str | None, asked: str, error: str | None) -> str:
    where = f" at {url}" if url else ""
    return f"{who}{where} answered none of {asked}{f'; the first: {error}' if error else ''}"
