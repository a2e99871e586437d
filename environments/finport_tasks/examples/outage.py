"""Plays rollouts while their gateway is killed, and says what became of each.

    python outage.py --rollouts 2000 --at-once 2000 --kills 2 --away 10

The model is a scripted one that makes the right calls, and gives up if one fails. A rollout with
reward 0 would blame the agent for the gateway; the exit code is 1 if there is one.
"""

import argparse
import asyncio
import json
import os
import resource
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import verifiers.v1 as vf

from bench.processes import gateway, server

HERE = Path(__file__).parent
NOW = "2026-06-30"


class Killed:
    """A gateway at one port that can be killed, and stays away for a while."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self._port = listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self._stack = AsyncExitStack()
        self._process_id = 0

    async def start(self) -> None:
        settings = {"upstream": "simulated", "simulated_seed": 0, "simulated_now": NOW}
        opened = gateway(self._folder, "--port", str(self._port), quiet=True, **settings)
        running = await self._stack.enter_async_context(opened)
        self._process_id = running.process.pid

    async def kill(self) -> None:
        os.killpg(self._process_id, signal.SIGKILL)
        await self._stack.aclose()

    async def close(self) -> None:
        await self._stack.aclose()


async def play(rollouts: int, at_once: int, kills: int, away: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        oracle = (sys.executable, str(HERE / "oracle.py"), "--tasks", str(rollouts))
        killed = Killed(folder)
        await killed.start()
        async with server(folder, *oracle, quiet=True) as model:
            try:
                return await _play(killed, model.url, rollouts, at_once, kills, away)
            finally:
                await killed.close()


async def _play(
    killed: Killed, model: str, rollouts: int, at_once: int, kills: int, away: float
) -> dict[str, Any]:
    taskset = {"id": "finport-tasks", "limit": rollouts, "task": {"gateway": killed.url}}
    env = vf.load_environment(vf.env_config_type("finport-tasks")(taskset=taskset))
    client = vf.EvalClientConfig(base_url=model, api_key_var="NO_KEY")
    context = vf.ModelContext(client=client, model="oracle", sampling=vf.SamplingConfig())
    slots = [slot for task in env.taskset for slot in env.slots(task)]
    room, ended, down = asyncio.Semaphore(at_once), 0, list[float]()

    async def note(_: vf.Episode) -> None:
        nonlocal ended
        ended += 1

    async def kill() -> None:
        for number in range(1, kills + 1):
            while ended < number * rollouts // (kills + 1):
                await asyncio.sleep(0.05)
            await killed.kill()
            began = time.monotonic()
            await asyncio.sleep(away)
            await killed.start()
            down.append(round(time.monotonic() - began, 1))

    began = time.monotonic()
    async with env.serving(), asyncio.TaskGroup() as group:
        group.create_task(kill())
        played = [group.create_task(env.run_slot(slot, context, room, note)) for slot in slots]
    traces = [trace for task in played for trace in task.result().traces]
    ok = [trace for trace in traces if trace.ok]
    return {
        "rollouts": len(slots),
        "traces": len(traces),
        "seconds": round(time.monotonic() - began, 1),
        "gateway_down_s": down,
        "reward_1": sum(trace.reward == 1 for trace in ok),
        "reward_0": sum(trace.reward == 0 for trace in ok),
        "played_again_and_scored": sum(bool(trace.errors) for trace in ok),
        "left_out": sum(not trace.ok for trace in traces),
        "left_out_why": Counter(t.errors[-1].type for t in traces if not t.ok),
        "errors_on_the_way": Counter(error.type for t in traces for error in t.errors),
        "zeros": [(trace.task.key, trace.last_reply) for trace in ok if trace.reward == 0][:5],
        "example": next((t.errors[0].message[:300] for t in traces if t.errors), None),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rollouts", type=int, default=2000)
    parser.add_argument("--at-once", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--away", type=float, default=10.0, help="seconds until it starts again")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    found = asyncio.run(play(**vars(parser.parse_args())))
    print(json.dumps(found, ensure_ascii=False, indent=1))  # noqa: T201
    sys.exit(found["reward_0"] > 0 or found["traces"] != found["rollouts"])
