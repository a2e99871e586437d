"""What a request to a model holds: what was asked for, and nothing else."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from bench.models.simulated import MODEL, SimulatedModel
from bench.suites import load_suite
from manifests import Catalog
from tests.support.commands import finbench
from tests.support.markets import write_market

pytestmark = pytest.mark.anyio

STRICT = ("temperature", "max_tokens", "seed", "top_p")


async def run(
    catalog: Catalog, suite: str, *options: str, refused: tuple[str, ...] = STRICT
) -> Any:
    """A run of two episodes against a model that takes none of the fields `refused`."""
    tasks = [] if suite == "investorbench" else load_suite(suite).tasks
    async with SimulatedModel.open(tasks, catalog, refused=refused) as model:
        asked = ("--model", MODEL, "--base-url", model.base_url, "--upstream", "simulated")
        command = ("run", suite, *asked, "--episodes", "2", "--out", "run", *options)
        return await to_thread.run_sync(partial(finbench, *command))


def recorded(name: str) -> Any:
    return json.loads(Path(f"run/{name}.json").read_text())


@pytest.mark.parametrize(
    ("suite", "options"),
    [
        ("starter", ("--agent", "fatr", "--judge", "llm")),
        ("starter", ("--agent", "llm", "--judge", "llm", "--judge-protocol", "authors")),
        ("finova-sample", ("--agent", "llm")),
        ("fintrace-sample", ("--agent", "llm", "--judge", "llm")),
        ("fintrace-sample", ("--agent", "llm", "--judge", "llm", "--judge-protocol", "authors")),
        ("investorbench", ("--agent", "finmem", "--dataset", "market")),
    ],
)
async def test_a_model_that_takes_only_its_defaults_plays_and_judges(
    suite: str, options: tuple[str, ...], catalog: Catalog
) -> None:
    write_market(Path("market"), ("AAA",))
    done = await run(catalog, suite, *options)
    assert done.returncode == 0, done.stderr
    metrics = recorded("metrics")
    for side in (metrics["usage"], metrics["usage"]["judge"]):
        assert side["model_calls"]["failed"] == 0
    assert ("judges its own answers" in done.stderr) == ("--judge" in options)


async def test_fields_are_sent_as_given_and_stand_in_the_run(catalog: Catalog) -> None:
    given = ("--agent", "llm", "--max-completion-tokens", "9", "--body", '{"top_k": 5}')
    done = await run(catalog, "starter", *given, "--seed", "3", refused=("seed",))
    assert "Unsupported parameter: 'seed'" in done.stderr
    assert recorded("run")["body"] == {"top_k": 5, "max_completion_tokens": 9, "seed": 3}


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--body", "[1]", "is no JSON object"),
        ("--body", '{"messages": []}', "--body: Finport sets the field 'messages' itself"),
        ("--body", '{"temperature": 1}', "temperature is in --body and in --temperature"),
        ("--header", "X-Plan", "--header wants NAME=VARIABLE"),
        ("--header", "X-Plan=NOT_SET", "'NOT_SET' is not set"),
        ("--header", "Host=HOME", "'Host' is no header that can be added"),
        ("--judge-body", '{"n": 2}', "--judge-body: Finport sets the field 'n' itself"),
    ],
)
def test_what_can_not_be_sent_is_refused(option: str, value: str, said: str) -> None:
    asked = ("--agent", "llm", "--model", MODEL, "--base-url", "http://127.0.0.1:1/v1")
    judged = ("--judge", "llm", "--temperature", "0.5")
    done = finbench("run", "starter", *asked, *judged, option, value)
    assert done.returncode == 2
    assert said in done.stderr
