"""Functions as agents, named `python:module:factory`."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import finbench

OWN = """
import asyncio
from finport import ModelError

RATES = ("rates", {"base": "EUR"})

def both():
    async def agent(question, tools):
        one, other = await asyncio.gather(
            *(tool.call(**RATES[1]) for tool in tools if tool.name == "rates"),
            tools.call("no_such_tool", {}),
        )
        assert tools.schemas[0]["type"] == "function"
        return f"{'EUR' in one} {other}"
    return agent

async def slowly_made():
    class Agent:
        async def __call__(self, question, tools):
            return question
    return Agent()

def eager():
    async def agent(question, tools):
        told = ""
        while "No more tool calls" not in told:
            told = await tools.call(*RATES)
        return "enough"
    return agent

def endless():
    async def agent(question, tools):
        try:
            while True:
                await tools.call(*RATES)
        finally:
            print("left", flush=True)
    return agent

def impatient():
    async def agent(question, tools):
        try:
            await asyncio.wait_for(tools.call(*RATES), 1e-9)
        except TimeoutError:
            return "gave up"
    return agent

def stuck():
    async def agent(question, tools):
        await tools.call(*RATES)
        try:
            await asyncio.sleep(1e3)
        finally:
            print("left", flush=True)
    return agent

def broken():
    async def agent(question, tools):
        raise KeyError("price")
    return agent

def silent():
    async def agent(question, tools):
        return " "
    return agent

def of_model():
    async def agent(question, tools):
        raise ModelError("the endpoint is down")
    return agent

def of_number():
    async def agent(question, tools):
        return 5
    return agent

def plain():
    return lambda question, tools: question

async def agent(question, tools):
    return question

number = 5
"""


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs one episode with a factory of `OWN`: its record, and what the command wrote."""
    monkeypatch.chdir(tmp_path)
    Path("own_functions.py").write_text(OWN)

    def run(factory: str, *options: str) -> tuple[dict[str, Any], str]:
        run_of = ("run", "starter", "--episodes", "1", "--retrieval", "all", "--out", "run")
        agent = ("--agent", f"python:own_functions:{factory}", "--upstream", "simulated")
        done = finbench(*run_of, *agent, *options)
        assert done.returncode in (0, 1), done.stderr
        (record,) = Path("run/episodes.jsonl").read_text("utf-8").splitlines()
        return json.loads(record), done.stdout

    return run


def test_calls_that_are_made_at_once_are_a_round_and_are_recorded(ran: Any) -> None:
    record, _ = ran("both")
    calls = [(c["step"], c["tool_name"], c["ok"]) for c in record["tool_calls"]]
    assert calls == [(1, "rates", True), (1, "no_such_tool", False)]
    assert record["execution_result"].startswith('True {"error":{"code":"unknown_tool"')
    assert (record["setting"], record["ending"]) == ("python:own_functions:both", "answer")
    about = json.loads(Path("run/run.json").read_bytes())
    assert about["agent"] == "python:own_functions:both"
    assert list(about["own_code"]) == ["own_functions.py"]


def test_a_factory_may_be_a_coroutine_and_give_an_object(ran: Any) -> None:
    record, _ = ran("slowly_made")
    assert record["execution_result"] == record["question"]


def test_an_agent_without_rounds_is_told_once_and_then_ended(ran: Any) -> None:
    record, _ = ran("eager", "--max-rounds", "2")
    assert (record["execution_result"], len(record["tool_calls"])) == ("enough", 2)


@pytest.mark.parametrize(
    ("factory", "options", "ending", "error"),
    [
        ("endless", ("--max-rounds", "2"), "rounds", "limit: 2 rounds are used up"),
        ("endless", ("--max-calls", "1"), "calls", "limit: 1 calls are used up"),
        ("stuck", ("--max-wall-s", "1"), "time", "limit: 1 s have passed"),
    ],
)
def test_an_agent_ends_with_its_episode(
    ran: Any, factory: str, options: tuple[str, ...], ending: str, error: str
) -> None:
    record, said = ran(factory, *options)
    assert (record["ending"], record["error"]) == (ending, error)
    assert "left" in said


def test_an_agent_may_give_up_on_a_call(ran: Any) -> None:
    record, _ = ran("impatient")
    assert (record["execution_result"], record["ending"]) == ("gave up", "answer")


@pytest.mark.parametrize(
    ("factory", "ending", "error"),
    [
        ("broken", "agent_error", "agent: own_functions.py:59: KeyError: 'price'"),
        ("silent", "empty", None),
        ("of_model", "model_error", "model: the endpoint is down"),
        (
            "of_number",
            "agent_error",
            "agent: TurnError: the answer of a turn is a text, not a value",
        ),
    ],
)
def test_what_an_agent_does_wrong_ends_its_episode(
    ran: Any, factory: str, ending: str, error: str | None
) -> None:
    record, _ = ran(factory)
    assert record["ending"] == ending
    assert record["error"] == error or record["error"].startswith(error)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("plain", "the factory gives an `async def agent(question, tools)`, which returns a text"),
        ("agent", "missing 2 required positional arguments: 'question' and 'tools'"),
        ("number", "it is no factory, a function without arguments that gives the agent"),
        ("nothing", "has no attribute 'nothing'"),
    ],
)
def test_what_is_no_factory_is_told_before_the_run(
    name: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own_functions.py").write_text(OWN)
    agent = f"python:own_functions:{name}"
    done = finbench("run", "starter", "--agent", agent, "--upstream", "simulated", "--out", "run")
    assert done.returncode == 2
    assert f"own_functions:{name}" in done.stderr
    assert error in done.stderr
