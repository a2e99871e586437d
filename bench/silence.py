"""Endpoints that a run asked and that never answered: then what it measured is nothing."""

from collections.abc import Iterator, Mapping
from typing import Any

from bench.driver import JUDGE
from bench.record import Ending
from bench.run import RunPlan


def silences(plan: RunPlan, metrics: Mapping[str, Any], about: Mapping[str, Any]) -> Iterator[str]:
    """Of each model and gateway that answered no request at all: where it is, and what it said."""
    usage, errors = metrics["usage"], about["first_errors"]
    for who, url, used, error in (
        ("agent's model", plan.agent.base_url, usage, errors.get(Ending.MODEL_ERROR)),
        ("judge's model", plan.judge.base_url, usage["judge"], errors.get(JUDGE)),
    ):
        asked = used["model_calls"]
        if asked["calls"] and asked["failed"] == asked["calls"]:
            yield _told(f"the {who}", url, f"{asked['calls']} requests", error)
    calls = about.get("gateway_calls")
    if calls and calls["made"] and calls["unanswered"] == calls["made"]:
        yield _told("the gateway", plan.gateway, f"{calls['made']} calls", calls["first_silence"])


def _told(who: str, url: str | None, asked: str, error: str | None) -> str:
    where = f" at {url}" if url else ""
    return f"{who}{where} answered none of {asked}{f'; the first: {error}' if error else ''}"
