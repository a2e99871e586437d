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
    for who, ending in (("agent", Ending.AGENT_ERROR), ("environment", Ending.ENVIRONMENT_ERROR)):
        if [*usage["endings"]] == [ending]:
            episodes = usage["endings"][ending]
            yield _told(f"the {who} failed in all {episodes} episodes", errors.get(ending))
    yield from of_judge(about.judged, about.failed_judgements, errors.get(JUDGE))
    url = plan.agent.model.base_url if plan.agent.model else None
    yield from of_model("agent", url, usage, errors.get(Ending.MODEL_ERROR))
    yield from of_model("judge", plan.judge.base_url, usage["judge"], errors.get(JUDGE))
    calls = about.gateway_calls
    if calls and calls["made"] and calls["unanswered"] == calls["made"]:
        text = f"the gateway at {plan.gateway} answered none of {calls['made']} calls"
        yield _told(text, calls["first_silence"])


def of_judge(judged: int, failed: int, error: str | None = None) -> Iterator[str]:
    """The line for a judge, if it failed on every episode."""
    if judged and failed == judged:
        yield _told(f"the judge failed in all {failed} episodes", error)


def of_model(
    whose: str, url: str | None, usage: Mapping[str, Any], error: str | None = None
) -> Iterator[str]:
    """The line for one model, if it answered none of its requests."""
    asked = usage["model_calls"]
    if asked["calls"] and asked["failed"] == asked["calls"]:
        where = f" at {url}" if url else ""
        yield _told(f"the {whose}'s model{where} answered none of {asked['calls']} requests", error)


def _told(text: str, error: str | None) -> str:
    return f"{text}; the first: {error}" if error else text
