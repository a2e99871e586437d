"""Episodes in Inspect AI, for `test_inspect.py`: a program of its environment.

play_inspect.py investorbench FOLDER    a session of a market, by native tools
play_inspect.py outage                  a gateway that is away, then there
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from finport_inspect.choice import Choice, suite_of
from inspect_ai import eval_async, eval_retry_async
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import ChatMessage, ModelAPI, ModelOutput, ModelUsage, modelapi

from bench.processes import gateway
from bench.suites.generated.answer import Answer
from finport_inspect import TASKS

FEW = 4


@modelapi(name="played")
class Played(ModelAPI):
    """`trader` buys on each day, `oracle` answers generated tasks."""

    async def generate(self, input: list[ChatMessage], *_: Any, **__: Any) -> ModelOutput:  # noqa: A002
        output = trader(input) if self.model_name == "trader" else oracle(input)
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output


def trader(messages: list[ChatMessage]) -> ModelOutput:
    last = messages[-1]
    if last.role == "tool" and last.function == "market_observe" and last.error is None:
        seen = json.loads(last.text)
        symbol = seen["assets"][0]["symbol"]
        traded = {"date": seen["date"], "symbol": symbol, "action": "buy"}
        return ModelOutput.for_tool_call("played", "market_trade", traded)
    if last.role == "tool" and (last.error or json.loads(last.text).get("is_over")):
        return ModelOutput.from_content("played", "The market is over.")
    return ModelOutput.for_tool_call("played", "market_observe", {})


def oracle(messages: list[ChatMessage]) -> ModelOutput:
    tasks = suite_of(Choice("generated", limit=FEW)).tasks
    asked = next(task for task in tasks if task.question == messages[0].text)
    made = sum(message.role == "assistant" for message in messages)
    if made < len(asked.tools):
        call = asked.tools[made]
        return ModelOutput.for_tool_call("played", call.name, call.arguments)
    return ModelOutput.from_content("played", Answer.model_validate_json(asked.answer).text)


def told(log: EvalLog) -> dict[str, Any]:
    samples = read_eval_log(log.location).samples or []
    scores = [sample.scores["finport_reward"] for sample in samples if sample.scores]
    return {
        "status": log.status,
        "errors": [sample.error.message for sample in samples if sample.error],
        "values": [score.value for score in scores],
        "metadata": [score.metadata for score in scores],
        "tools": [list(sample.metadata["tools"]) for sample in samples],
    }


async def investorbench(folder: str) -> list[dict[str, Any]]:
    task = TASKS["investorbench"](dataset=folder, limit=1)
    (log,) = await eval_async(task, model="played/trader", log_dir="logs")
    return [told(log)]


async def outage() -> list[dict[str, Any]]:
    suite = suite_of(Choice("generated", limit=FEW))
    settings = {"upstream": "simulated", **suite.gateway_settings}
    with tempfile.TemporaryDirectory() as folder:
        async with gateway(Path(folder), **settings) as server:
            url = server.url
        task = TASKS["generated"](limit=FEW, url=url)
        limits = {"log_dir": "logs", "fail_on_error": False, "score_on_error": True}
        (log,) = await eval_async(task, model="played/oracle", **limits)
        port = url.rpartition(":")[2]
        async with gateway(Path(folder), "--port", port, **settings):
            (again,) = await eval_retry_async(log, log_dir="logs")
        return [told(log), told(again)]


if __name__ == "__main__":
    found = asyncio.run(investorbench(sys.argv[2]) if sys.argv[1] != "outage" else outage())
    Path("told.json").write_text(json.dumps(found))
