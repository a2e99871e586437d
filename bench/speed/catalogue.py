"""A gateway with 20,000 tools: how long it takes to start and to search, and the memory it needs.

The tools are the packaged ones 26 times, under other names and with other words, from a folder of
manifests. The vectors of the search are made beside it once and kept, so it starts twice.
"""

import time
from pathlib import Path
from typing import Final

import anyio

from bench.speed.harness import Figures, Harness, asked, latencies, log
from manifests import Catalog
from manifests.catalog import text_of

TOOLS, SEARCHES = 20_000, 400
MADE_S: Final = 600.0
"""The longest that the vectors may take."""

QUESTIONS: Final = (
    "daily price history of a share",
    "可转债实时行情",
    "treasury yields of two countries",
    "net asset value of a fund",
    "bitcoin price in euros",
    "央行利率决议",
)


async def measure(harness: Harness) -> Figures:
    """Seconds until the gateway serves and until its first search, while vectors are made and with
    kept ones; latencies of searches over HTTP; memory.
    """
    tools = harness.folder / "tools"
    await anyio.to_thread.run_sync(_write, tools, harness.number(TOOLS))
    figures: Figures = {"tools": harness.number(TOOLS)}
    vectors = harness.folder / "cache" / "vectors.npz"
    for turn in ("first", "again"):
        started = time.perf_counter()
        server = await harness.parts.enter_async_context(
            harness.process("--catalog", "none", "--manifests", str(tools), upstream="simulated")
        )
        figures[f"{turn}_start_s"] = time.perf_counter() - started
        client, at = await harness.client(), f"{server.url}/v1/tools?limit=5&q="
        begun = time.perf_counter()
        await asked(client, f"{at}{QUESTIONS[0]}")
        figures[f"{turn}_search_s"] = time.perf_counter() - begun
        if turn == "first":
            log.info("vectors are made")
            with anyio.fail_after(MADE_S):
                while not vectors.exists():  # noqa: ASYNC110 - nothing tells that it is there
                    await anyio.sleep(0.2)
            figures["vectors_s"] = time.perf_counter() - begun
        took = list[float]()
        for number in range(harness.number(SEARCHES)):
            asked_at = time.perf_counter()
            await asked(client, f"{at}{QUESTIONS[number % len(QUESTIONS)]} {number}")
            took.append(time.perf_counter() - asked_at)
        figures |= {f"{turn}_{name}": value for name, value in latencies(took).items()}
        figures[f"{turn}_mib"] = _resident_mib(server.process.pid)
        server.process.terminate()
        await server.process.wait()
    return figures


def _write(folder: Path, number: int) -> None:
    folder.mkdir()
    packaged, made = [*Catalog.load()], dict[str, str]()
    for turn in range(1, number // len(packaged) + 2):
        some = [
            tool.model_copy(
                update={
                    "name": f"v{turn}_{tool.name}"[:64],
                    "description": f"{tool.description} Of provider {turn}.",
                    "stand_ins": (),
                }
            )
            for tool in packaged
            if tool.source != "akshare" or tool.unavailable is None
        ]
        new = [tool for tool in some if tool.name not in made][: number - len(made)]
        made |= dict.fromkeys((tool.name for tool in new), "")
        (folder / f"{turn}.json").write_text(text_of(new), encoding="utf-8")


def _resident_mib(pid: int) -> float:
    """Resident memory of a process (proc(5))."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) / 1024
