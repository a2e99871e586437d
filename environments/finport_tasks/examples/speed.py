"""Rollouts a second through Finport, beside the same tasks with a tool server made by FastMCP.

    FASTMCP_PYTHON=fastmcp/bin/python python speed.py --at-once 512 --rounds 3

Both play the same tasks with the same scripted model, in turns, so that what else the machine does
meets both. FastMCP's tools only look an answer up that Finport gave before. `server_cpu_ms` and
`environment_cpu_ms` are the processor time for a rollout of the tool server and of verifiers, which
compare even where other programs take turns with these.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

import aiohttp
import verifiers.v1 as vf
from finport_tasks.taskset import FinportConfig, FinportTask, FinportTaskset
from finport_tasks.tools import ToolServers

from bench.processes import Server, gateway, server

HERE = Path(__file__).parent
NOW = "2026-06-30"


class FastMcpTask(FinportTask):
    """A task whose tools are at a path of FastMCP's server."""

    async def setup(self, trace: vf.Trace) -> None:  # noqa: ARG002
        url = f"{self.config.gateway}/{self.data.id}/mcp"
        tools = self.config.tools.model_copy(update={"url": url})
        self.config = self.config.model_copy(update={"tools": tools})


async def recorded(tasks: list[FinportTask]) -> dict[str, list[dict[str, Any]]]:
    """The tools of each task by the path of its server, with the answers to the labelled calls."""
    found: dict[str, list[dict[str, Any]]] = {}
    async with aiohttp.ClientSession() as session:
        for task in tasks:
            offered = ",".join(task.task.details["offered"])
            url = f"{task.config.gateway}/mcp?tools=names:{offered}&output_schema=none"
            servers = ToolServers(session, {"": url}, {}, 60.0)
            tools = {
                schema["function"]["name"]: {**schema["function"], "answers": {}}
                for schema in await servers.schemas()
            }
            for call in task.task.tools:
                text = await servers.call(call.name, json.dumps(call.arguments))
                key = json.dumps(call.arguments, sort_keys=True)
                tools[call.name]["answers"][key] = text
            found[f"/{task.data.id}"] = [*tools.values()]
    return found


def cpu_ms(running: Server) -> float:
    """The processor time that a process has taken so far."""
    told = Path(f"/proc/{running.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(told[11]) + int(told[12])) * 1000 / os.sysconf("SC_CLK_TCK")


async def play(tasks: list[FinportTask], model: str, at_once: int, gateway: str) -> dict[str, Any]:
    """Play so many rollouts at once."""
    taskset = {"id": "finport-tasks", "limit": 1, "task": {"gateway": gateway}}
    env = vf.load_environment(vf.env_config_type("finport-tasks")(taskset=taskset))
    client = vf.EvalClientConfig(base_url=model, api_key_var="NO_KEY")
    context = vf.ModelContext(client=client, model="oracle", sampling=vf.SamplingConfig())
    slots = [env.slots(tasks[number % len(tasks)])[0] for number in range(at_once)]
    async with env.serving():
        began, before = time.monotonic(), time.process_time()
        played = await asyncio.gather(*(env.run_slot(slot, context) for slot in slots))
        seconds = time.monotonic() - began
        own_ms = (time.process_time() - before) * 1000 / at_once
    traces = [trace for episode in played for trace in episode.traces]
    errors = sum(len(trace.errors) for trace in traces)
    right = sum(trace.ok and trace.reward == 1 for trace in traces)
    speed = {"rollouts_s": round(at_once / seconds, 2), "environment_cpu_ms": round(own_ms, 1)}
    return {**speed, "right": right, "errors": errors}


async def main(at_once: int, rounds: int, tasks: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = {"upstream": "simulated", "simulated_seed": 0, "simulated_now": NOW}
        oracle = (sys.executable, str(HERE / "oracle.py"), "--tasks", str(tasks))
        async with (
            gateway(folder, quiet=True, **settings) as finport,
            server(folder, *oracle, quiet=True) as model,
        ):
            config = FinportConfig(id="finport-tasks", task={"gateway": finport.url})  # type: ignore[arg-type]
            ours = [*islice(FinportTaskset(config), tasks)]
            file = folder / "tools.json"
            file.write_text(json.dumps(await recorded(ours)))
            program = (os.environ["FASTMCP_PYTHON"], str(HERE / "fastmcp_server.py"), str(file))
            async with server(folder, *program) as fastmcp:
                there = config.task.model_copy(update={"gateway": fastmcp.url})
                theirs: list[FinportTask] = [FastMcpTask(task.data, there) for task in ours]
                sides = {"finport": (ours, finport), "fastmcp": (theirs, fastmcp)}
                speeds: dict[str, list[float]] = {"finport": [], "fastmcp": []}
                for number in range(rounds):
                    for side in [*sides][:: 1 if number % 2 == 0 else -1]:
                        played, running = sides[side]
                        before = cpu_ms(running)
                        found = await play(played, model.url, at_once, running.url)
                        found["server_cpu_ms"] = round((cpu_ms(running) - before) / at_once, 2)
                        speeds[side].append(found["rollouts_s"])
                        print(json.dumps({"round": number, "side": side, **found}), flush=True)  # noqa: T201
    medians = {side: statistics.median(values) for side, values in speeds.items()}
    ratios = [a / b for a, b in zip(speeds["finport"], speeds["fastmcp"], strict=True)]
    said = {"at_once": at_once, "rollouts_s": medians, "ratio": round(statistics.median(ratios), 3)}
    print(json.dumps(said))  # noqa: T201


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--at-once", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=8)
    asyncio.run(main(**vars(parser.parse_args())))
