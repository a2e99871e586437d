"""Measures the unit costs of runs on Ray, and checks what the model says of other runs.

A run has two players, a gateway of one process at a URL, and the head, all on this machine. Its
tasks have a given number of calls, which the scripted agent makes one after another, and which the
gateway answers from memory.
"""

import asyncio
import os
import pickle
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import orjson

from bench import processes
from bench.capacity.costs import Cost, Sample, UnitCosts
from bench.capacity.model import Parts, Workload, simulated
from manifests.common.memory import rss_bytes

PLAYERS = 2
_PROCESSES = {"player_s": PLAYERS, "gateway_s": 1, "head_s": PLAYERS}
"""Whose seconds count for a cost: those of the head are those of its players."""

_TOTALS = ("disk_bytes", "network_bytes")

TASKS = 50

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Size:
    """A run to measure: episodes, calls of each, seconds of waiting before a turn, and how many
    episodes are in flight.
    """

    episodes: int
    calls: int
    model_s: float
    in_flight: int


FITTED = (Size(4_000, 2, 0.5, 800), Size(1_500, 14, 0.7, 600), Size(300, 6, 1.0, 80))
"""The runs from which unit costs are made: few calls, many calls, few calls a second. In a busy
process more calls share a step of its event loop, and each costs less; so the first two are busy,
as the processes of a large run are, and the third is not.
"""

CHECKED = (Size(600, 4, 1.0, 100), Size(2_000, 8, 1.0, 400), Size(6_000, 5, 1.0, 1_200))
"""The runs with which the model is checked."""


async def measured_costs(sizes: tuple[Size, Size, Size] = FITTED) -> UnitCosts:
    """Unit costs of this machine; those of Redis are taken from `MEASURED`. Raises
    `RunFailedError`, `ServerNotReadyError` and `CostsError`.
    """
    known = UnitCosts.read()
    found = [(await measured(size), size) for size in sizes]
    costs: dict[str, Any] = {}
    for name in (*_PROCESSES, *_TOTALS, "digest_s"):
        cost = Cost.fitted(*(_sample(size, one, name) for one, size in found))
        costs[name] = cost if name in _PROCESSES else replace(cost, second=0.0)
    # In runs of this size the head's work for calls is lost in the rest, so it is measured alone.
    head_call_s = await asyncio.to_thread(asyncio.run, _head_call_s())
    costs["head_s"] = replace(costs["head_s"], call=head_call_s)
    player_bytes = await asyncio.to_thread(asyncio.run, _episode_bytes())
    return replace(known, **costs, player_bytes=player_bytes)


def _sample(size: Size, found: Mapping[str, float], name: str) -> Sample:
    seconds = found["took_s"] * _PROCESSES.get(name, 0) or 1.0
    return Sample(size.episodes, size.episodes * size.calls, seconds, found[name])


def predicted(size: Size, costs: UnitCosts) -> dict[str, float]:
    """What the model says of a run on one machine."""
    parts = Parts(PLAYERS, 1, size.in_flight)
    calls = size.episodes * size.calls
    workload = Workload(size.episodes, calls, size.model_s, 1, 1.0)
    seconds = simulated(workload, costs, parts, cores=os.cpu_count() or 1).took_s
    whole = {
        name: getattr(costs, name).of(size.episodes, calls, seconds * _PROCESSES.get(name, 0))
        for name in (*_PROCESSES, *_TOTALS)
    }
    return {"took_s": seconds, **whole}


async def check(
    costs: UnitCosts, sizes: tuple[Size, ...] = CHECKED
) -> list[dict[str, dict[str, float]]]:
    """For each size, by figure, what was measured, what the model says, and the ratio of these.
    Raises `RunFailedError` and `ServerNotReadyError`.
    """
    rows = []
    for size in sizes:
        found, row = await measured(size), {}
        for name, value in predicted(size, costs).items():
            real = found[name]
            row[name] = {"measured": real, "model": value, "ratio": value / real}
        rows.append(row)
    return rows


async def measured(size: Size) -> dict[str, float]:
    """What a run took, by name. Raises `RunFailedError` and `ServerNotReadyError`."""
    calls = size.calls + 1
    options = (
        *("capacity", "--dataset", "tasks.jsonl", "--judge", "none"),
        *("--engine", "ray", "--players", str(PLAYERS)),
        *("--no-call-rate", "0", "--wrong-tool-rate", "0", "--bad-arguments-rate", "0"),
        *("--episodes", str(size.episodes), "--concurrency", str(size.in_flight)),
        *("--think-s", str(size.model_s), "--max-rounds", str(calls), "--max-calls", str(calls)),
    )
    with tempfile.TemporaryDirectory(prefix="finport-capacity-") as name:
        folder = Path(name)
        await asyncio.to_thread(_write_tasks, folder / "tasks.jsonl", size.calls)
        gateway = processes.gateway(folder, quiet=True, upstream="simulated", shape_share=0)
        async with gateway as (url, process):
            before_s = _processor_s(process.pid)
            about = await processes.run(folder, "out", *options, "--gateway", url)
            gateway_s = _processor_s(process.pid) - before_s
        return await asyncio.to_thread(_found, folder / "out", about, gateway_s)


def _found(out: Path, about: Mapping[str, Any], gateway_s: float) -> dict[str, float]:
    from bench.runs.digest import run_digest

    began = time.process_time()
    run_digest(out)
    digest_s = time.process_time() - began
    engine = about["engine"]
    with (out / "calls.jsonl").open("rb") as lines:
        answers = sum(orjson.loads(line)["bytes"] for line in lines)
    return {
        "took_s": about["took_s"],
        "player_s": engine["players_cpu_s"],
        "gateway_s": gateway_s,
        "head_s": engine["head_cpu_s"],
        "disk_bytes": sum((out / f"{n}.jsonl").stat().st_size for n in ("calls", "episodes")),
        "network_bytes": answers,
        "digest_s": digest_s,
    }


def _write_tasks(file: Path, calls: int) -> None:
    """Tasks whose labelled calls are alike; the scripted agent makes them."""
    call = {"name": "get_coin", "arguments": {"uuid": "Qwsogvtv82FCd"}}
    tasks = (
        {"id": f"t{n}", "category": "c", "question": f"Price {n}?", "tools": [call] * calls}
        for n in range(TASKS)
    )
    file.write_bytes(b"".join(orjson.dumps(t, option=orjson.OPT_APPEND_NEWLINE) for t in tasks))


def _processor_s(pid: int) -> float:
    """Processor seconds of a process so far."""
    of = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(of[11]) + int(of[12])) / _TICKS


async def _episode_bytes(episodes: int = 10_000) -> float:
    """Memory of an episode in flight: many that wait, in this process."""
    from bench.agents import Episode, Turn
    from bench.client import ToolClient
    from bench.engines.batch import Collector
    from bench.runs.driver import Driver, Owed, owed
    from bench.suites import load_suite
    from bench.suites.fintoolbench.suite import LabelledTasks

    suite, collector = load_suite("starter"), Collector(LabelledTasks)
    left, no_client = owed(suite, episodes), cast(ToolClient, None)

    class Waiting:
        name = "waiting"

        async def act(self, _: Episode) -> Turn:
            await asyncio.Event().wait()
            return Turn()

    async def take() -> Owed | None:
        return next(left, None)

    before = rss_bytes()
    driver = Driver(suite, Waiting(), no_client, collector, concurrency=episodes)
    playing = asyncio.create_task(driver.play(take, most=episodes))
    while driver.in_flight < episodes:  # noqa: ASYNC110 - nothing tells that all wait
        await asyncio.sleep(0.1)
    taken = rss_bytes() - before
    playing.cancel()
    await asyncio.wait({playing})
    return taken / episodes


async def _head_call_s(batches: int = 200) -> float:
    """Processor seconds of the head for a call: full batches are read and taken in."""
    from bench.engines.batch import BATCH_BYTES, Batch
    from bench.runs.directory import RunDirectory
    from bench.runs.episode import begun
    from bench.suites import load_suite
    from gateway import CallRecord

    suite, batch = load_suite("starter"), Batch()
    made_by: tuple[Any, ...] = ("0" * 32, time.time(), "get_coin", "host.test", {"uuid": "x" * 12})
    outcome = (True, None, None, None, "cached", "simulated", 1.0, 0, 1.0, None, "0" * 32, 128)
    call = CallRecord(*(*made_by, *outcome, "starter_0.0", 1))
    calls = 0
    while batch.size < BATCH_BYTES:
        record = begun(suite, suite.tasks[0], 0, "scripted")
        batch.add(record, [call] * 100, type(suite))
        calls += 100
    given = pickle.dumps(batch)
    with tempfile.TemporaryDirectory(prefix="finport-capacity-") as name:
        async with RunDirectory.open(Path(name) / "run", {}, suite=type(suite)) as directory:
            began = time.process_time()
            for _ in range(batches):
                one: Batch = pickle.loads(given)  # noqa: S301 - as Ray does with our own batch
                assert one.metrics is not None  # noqa: S101 - it has episodes
                directory.take_in(bytes(one.calls), bytes(one.episodes), one.metrics)
                for stream in (directory.calls, directory.episodes):
                    await stream.written()
            took_s = time.process_time() - began
    return took_s / (batches * calls)
