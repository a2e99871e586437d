"""What measurements are made of: checked episodes, and the programs of their baselines."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.agents import Episode
from bench.processes import server
from bench.speed.baselines import SERVERS, inspect_ai
from bench.speed.episodes import ANSWER, CheckedAgent, Stage, scripted_agent
from bench.speed.harness import MeasurementError
from tests.support.answers import answer

pytestmark = pytest.mark.anyio

LIBRARIES = {
    "fastmcp.py": """
class FastMCP:
    def __init__(self, name): pass
    def tool(self, function): pass
    def http_app(self, **how): pass
""",
    "aktools/main.py": "app = None",
    "requests/adapters.py": "class HTTPAdapter:\n    send = None",
    "uvicorn.py": """
class Config:
    def __init__(self, app, **how): pass
class Server:
    def __init__(self, config): pass
    def run(self, sockets):
        while True:
            sockets[0].accept()
""",
}


@pytest.mark.parametrize(
    "given", [("aktools", "http://127.0.0.1:9"), ("fastmcp", "answer.json", "tuned")]
)
async def test_a_baseline_serves_with_its_library(given: tuple[str, ...], tmp_path: Path) -> None:
    for file, text in LIBRARIES.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    (tmp_path / "answer.json").write_text("{}")
    command = (sys.executable, "-P", SERVERS, *given)
    async with server(tmp_path, *command, variables={"PYTHONPATH": str(tmp_path)}) as (url, _):
        assert url.startswith("http://127.0.0.1:")


async def test_another_answer_than_expected_fails_the_measurement(tmp_path: Path) -> None:
    async with Stage.open(tmp_path) as stage:
        with pytest.raises(MeasurementError, match="0 of 2 episodes passed"):
            await stage.play(scripted_agent(), 2, 2, answer="nothing was found")


async def test_a_checked_agent_reads_the_newest_reply() -> None:
    agent = CheckedAgent(scripted_agent(), [b"1", b"2"], ANSWER)
    history: Any = [SimpleNamespace(replies=(answer(data),)) for data in (b"1", b"1")]
    task: Any = None
    with pytest.raises(MeasurementError, match="a reply is not"):
        await agent.act(Episode(task, 0, history=history))


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
