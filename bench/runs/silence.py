"""Finds endpoints that answered no request of a run, whose figures then mean nothing."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bench.record import Ending
from bench.runs.driver import JUDGE

if TYPE_CHECKING:
    from bench.runs.about import RunInfo
    from bench.runs.run import RunPlan


def silences(plan: "RunPlan", metrics: Mapping[str, Any], about: "RunInfo") -> Iterator[str]:
    """A line for each model and gateway that answered no request: where it is and its error."""
    usage, errors = metrics["usage"], about.first_errors
    url = plan.agent.model.base_url if plan.agent.model else None
    yield from of_model("agent", url, usage, errors.get(Ending.MODEL_ERROR))
    yield from of_model("judge", plan.judge.base_url, usage["judge"], errors.get(JUDGE))
    calls = about.gateway_calls
    if calls and calls["made"] and calls["unanswered"] == calls["made"]:
        yield _sentence(
            "the gateway", plan.gateway, f"{calls['made']} calls", calls["first_silence"]
        )


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
