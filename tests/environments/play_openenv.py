"""Plays episodes of a server of `finport_openenv`, with OpenEnv's own clients; prints what it saw.

`play_openenv.py URL everything|outage [PORT]`. In an outage it waits for a line on its input, at
which the gateway has gone.
"""

import asyncio
import json
import sys
from itertools import islice
from typing import Any

from openenv.core.generic_client import GenericEnvClient
from openenv.core.mcp_client import MCPToolClient

from bench.suites.generated.answer import Answer
from finport import Task, endless_tasks
from finport_openenv import FinportAction, FinportCall, FinportEnv

TASKS = {task.id: task for task in islice(endless_tasks(0), 256)}


def gold(task: Task) -> str:
    return Answer.model_validate_json(task.answer).text


async def solved(url: str, answer: str | None = None, **reset: Any) -> dict[str, Any]:
    """An episode with the labelled calls, and the right answer unless another is given."""
    async with FinportEnv(base_url=url) as env:
        first = await env.reset(**reset)
        task = TASKS[first.observation.task]
        offered = {one["function"]["name"] for one in first.observation.functions}
        calls = [FinportCall(tool=call.name, arguments=call.arguments) for call in task.tools]
        played = await env.step(FinportAction(calls=calls))
        between = await env.state()
        last = await env.step(FinportAction(answer=gold(task) if answer is None else answer))
        return {
            "task": task.id,
            "offers": all(call.name in offered for call in task.tools),
            "question": first.observation.question == task.question,
            "first": [first.reward, first.done],
            "replies": [reply.ok for reply in played.observation.replies],
            "step": [played.reward, played.done, between.step_count, between.done],
            "reward": last.reward,
            "done": last.done,
            "passed": last.observation.passed,
            "credit": last.observation.credit,
            "figures": last.observation.figures,
            "outage": last.observation.outage,
            "metadata": last.metadata,
        }


async def refused(url: str) -> list[str]:
    """What the server says to what it can't do."""
    said = list[str]()
    async with GenericEnvClient(base_url=url) as env:
        for ask in (
            env.step({"answer": "1"}),
            env.reset(suite="no_such_suite"),
            env.reset(task="no_such_task"),
            env.reset(index=10**6),
            env.step({}),
        ):
            try:
                await ask
                said.append("")
            except RuntimeError as error:
                said.append(str(error))
    return said


async def by_mcp(url: str) -> dict[str, Any]:
    """An agent calls a tool over `/mcp` in the session of whoever gives the answer over `/ws`."""
    async with MCPToolClient(base_url=url) as env:
        first = await env.reset(index=0)
        task = TASKS[first.observation.task]
        listed = {tool.name: tool.input_schema for tool in await env.list_tools()}
        texts = [await env.call_tool(call.name, **call.arguments) for call in task.tools]
        last = await env.step(FinportAction(answer=gold(task)))
        return {
            "listed": all(call.name in listed for call in task.tools),
            "schemas": all(schema.get("type") == "object" for schema in listed.values()),
            "texts": [str(text)[:60] for text in texts],
            "reward": last.reward,
            "credit": last.observation.credit,
        }


async def traded(url: str) -> dict[str, Any]:
    """A market played to its end, in a session that the agent does not see."""
    async with FinportEnv(base_url=url) as env:
        first = await env.reset(suite="investorbench", index=0)
        names = [one["function"]["name"] for one in first.observation.functions]
        parameters = [one["function"]["parameters"] for one in first.observation.functions]
        for _ in range(40):
            seen = await env.step(FinportAction(calls=[FinportCall(tool="market_observe")]))
            (reply,) = seen.observation.replies
            said = json.loads(reply.text) if reply.ok else {"done": True}
            if said.get("done"):
                break
            trades = [
                FinportCall(
                    tool="market_trade",
                    arguments={"date": said["date"], "symbol": one["symbol"], "action": "buy"},
                )
                for one in said["assets"]
            ]
            await env.step(FinportAction(calls=trades))
        last = await env.step(FinportAction(answer="the market is closed"))
        return {
            "tools": names,
            "session": any("session" in one["properties"] for one in parameters),
            "reward": last.reward,
            "figures": last.observation.figures,
            "outage": last.observation.outage,
        }


async def everything(url: str) -> dict[str, Any]:
    together = await asyncio.gather(*(solved(url, index=number) for number in range(12)))
    return {
        "together": together,
        "seeded": [(await solved(url, seed=7))["task"] for _ in range(2)],
        "wrong": await solved(url, "17.5", index=0),
        "refused": await refused(url),
        "mcp": await by_mcp(url),
        "market": await traded(url),
    }


async def outage(url: str) -> dict[str, Any]:
    before = await solved(url, index=0)
    sys.stdout.write("played\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.readline)
    return {"before": before, "after": await solved(url, "17.5", index=0)}


if __name__ == "__main__":
    play = {"everything": everything, "outage": outage}[sys.argv[2]]
    sys.stdout.write(json.dumps(asyncio.run(play(sys.argv[1]))))
