"""Speed of the driver, each measurement in its own process, so that its memory is its own.

There are four measurements. Scripted episodes of three cached calls, traces on disk and metrics
live, without a judge and with the judge `rules`; beside them, in turns, the same in Inspect AI with
its mock model, if `FINBENCH_INSPECT_PYTHON` names a Python that has it. Ten thousand episodes at
once, in process and over HTTP. The cost of a call after 10,000 calls and after a million.
Model-driven episodes beside a hand-written loop around the official client. Writes 2 GB to the
temporary folder.
"""

import asyncio
import contextlib
import logging
import os
import statistics
import sys
import tempfile
from asyncio.subprocess import Process
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import orjson

from bench.environment import INSPECT_PYTHON
from bench.speed.driver_stage import ARGUMENTS, QUESTION, TOOL
from bench.speed.measurement import MeasurementError
from bench.speed.servers import served_gateway, server
from gateway import Gateway, GatewaySettings

log = logging.getLogger("finbench.speed")

_PYTHON = (sys.executable, "-P", "-m")
SCRIPTED = (*_PYTHON, "bench.speed.driver_scripted")
_MODEL = (*_PYTHON, "bench.speed.driver_model")

Figures = dict[str, float | str]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured.

    Each side of a pair runs `rounds` times, in turns. `many` episodes are in flight at once. They
    wait `think_s` before each turn, over HTTP `http_think_s`, since gateway and driver share two
    cores, make fewer calls a second, and episodes would wait for them. The last `windows` times
    `window` of `calls` are compared with windows in processes that have made one window before.
    """

    rounds: int = 3
    concurrency: int = 1_000
    episodes: int = 15_000
    inspect_episodes: int = 1_500
    many: int = 10_000
    many_episodes: int = 40_000
    think_s: float = 1.0
    http_episodes: int = 20_000
    http_think_s: float = 2.0
    calls: int = 1_000_000
    window: int = 10_000
    windows: int = 10
    model_episodes: int = 1_500
    model_concurrency: int = 256


async def driver(sizes: Sizes | None = None) -> Figures:
    """Episodes and calls a second, CPU, memory and bytes of log an episode, and the ratios."""
    sizes = sizes or Sizes()
    figures: Figures = {"concurrency": sizes.concurrency}
    figures |= await scripted(sizes)
    figures |= await many(sizes)
    figures |= await flat(sizes)
    return figures | await model_driven(sizes)


class _Rounds:
    """Figures of several rounds by side: their medians, and medians of the ratios in each round."""

    def __init__(self) -> None:
        self._found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)

    def add(self, side: str, figures: dict[str, Any]) -> None:
        self._found[side].append(figures)

    def medians(self) -> Figures:
        return {
            f"{side}_{name}": statistics.median(round_[name] for round_ in rounds)
            for side, rounds in self._found.items()
            for name in rounds[0]
        }

    def ratio(self, figure: str, side: str, other: str) -> float:
        pairs = zip(self._found[side], self._found[other], strict=True)
        return float(statistics.median(ours[figure] / theirs[figure] for ours, theirs in pairs))


async def scripted(sizes: Sizes) -> Figures:
    """1,000 episodes at once, without pauses, beside Inspect AI."""
    python = os.environ.get(INSPECT_PYTHON)
    rounds, settings = _Rounds(), {"episodes": sizes.episodes, "concurrency": sizes.concurrency}
    figures: Figures = {}
    with tempfile.TemporaryDirectory(prefix="finport-speed-") as folder:
        script = Path(__file__).parent / "baselines" / "inspect_ai.py"
        if python is not None:
            sheet = Path(folder) / "settings.json"
            sheet.write_bytes(orjson.dumps(await _inspect_settings(sizes)))
        for number in range(1, sizes.rounds + 1):
            log.info("scripted episodes, round %d of %d", number, sizes.rounds)
            for side, judge in (("scripted", "none"), ("judged", "rules")):
                found = await measured(*SCRIPTED, "flat-out", settings | {"judge": judge})
                rounds.add(side, found)
            if python is not None:
                log.info("the same in Inspect AI, round %d of %d", number, sizes.rounds)
                theirs = await measured(python, "-P", str(script), str(sheet))
                figures["inspect_version"] = theirs.pop("version")
                rounds.add("inspect", theirs)
    figures |= rounds.medians()
    if python is None:
        return figures | {"inspect": f"not measured: set {INSPECT_PYTHON}"}
    ratios = {
        "scripted_to_inspect": rounds.ratio("episodes_per_s", "scripted", "inspect"),
        "judged_to_inspect": rounds.ratio("episodes_per_s", "judged", "inspect"),
        "scripted_to_inspect_memory": rounds.ratio(
            "kb_per_concurrent_episode", "scripted", "inspect"
        ),
    }
    return figures | ratios


async def _inspect_settings(sizes: Sizes) -> dict[str, Any]:
    """The input of Inspect AI's tool and model: our calls, and our answers as text."""
    outputs = {}
    with tempfile.TemporaryDirectory(prefix="finport-speed-") as folder:
        settings = GatewaySettings(upstream="simulated", cache_dir=Path(folder), akshare_workers=1)
        async with Gateway.open(settings) as gateway:
            for given in ARGUMENTS:
                result = await gateway.call(TOOL, given)
                if not result.ok:
                    raise MeasurementError(f"{TOOL}: {result.error}")
                outputs[given["start_date"]] = result.data.decode()
    return {
        "episodes": sizes.inspect_episodes,
        "concurrency": sizes.concurrency,
        "question": QUESTION,
        "arguments": ARGUMENTS,
        "outputs": outputs,
    }


async def many(sizes: Sizes) -> Figures:
    """Ten thousand episodes at once with thinking time, in process and over HTTP."""
    settings: dict[str, Any] = {"concurrency": sizes.many}
    embedded = settings | {"episodes": sizes.many_episodes, "think_s": sizes.think_s}
    http = settings | {"episodes": sizes.http_episodes, "think_s": sizes.http_think_s}
    log.info("%d episodes at once that think, in process", sizes.many)
    figures = _named("many", await measured(*SCRIPTED, "thinking", embedded))
    with tempfile.TemporaryDirectory(prefix="finport-speed-") as folder:
        async with served_gateway(Path(folder), latency_s=0, failure_rate=0) as url:
            log.info("%d episodes at once that think, over HTTP", sizes.many)
            found = await measured(*SCRIPTED, "thinking", http | {"url": url})
    return figures | _named("many_http", found)


async def flat(sizes: Sizes) -> Figures:
    """CPU us and memory of a call in a process that has made many, and in one that has not."""
    late, early, ratios = [], [], []
    async with _on_request(sizes) as old:
        log.info("%d calls in one process", sizes.calls)
        await _calls(old, sizes.calls - sizes.window * sizes.windows)
        for number in range(1, sizes.windows + 1):
            log.info("its last calls beside a fresh process, pair %d of %d", number, sizes.windows)
            async with _on_request(sizes) as fresh:
                await _calls(fresh, sizes.window)
                early.append(await _calls(fresh, sizes.window))
            late.append(await _calls(old, sizes.window))
            ratios.append(late[-1]["us"] / early[-1]["us"])
    return {
        "first_cpu_us_per_call": statistics.median(seen["us"] for seen in early),
        "last_cpu_us_per_call": statistics.median(seen["us"] for seen in late),
        "last_to_first": statistics.median(ratios),
        "last_to_first_min": min(ratios),
        "last_to_first_max": max(ratios),
        "first_rss_mb": statistics.median(seen["rss"] for seen in early) / 1e6,
        "last_rss_mb": late[-1]["rss"] / 1e6,
    }


async def model_driven(sizes: Sizes) -> Figures:
    """Our agent beside a loop around the official client, with either of its transports."""
    settings: dict[str, Any] = {
        "concurrency": sizes.model_concurrency,
        "episodes": sizes.model_episodes,
    }
    rounds = _Rounds()
    with tempfile.TemporaryDirectory(prefix="finport-speed-") as folder:
        async with server(Path(folder), *_MODEL, "endpoint") as url:
            await measured(*_MODEL, "ours", settings | {"url": url, "episodes": 1})
            asked = (await _seen(url))["last"]
            sides: dict[str, tuple[str, Mapping[str, Any]]] = {
                "model": ("ours", settings | {"url": url})
            }
            if find_spec("openai") is not None:
                for transport in ("aiohttp", "default"):
                    extra = {"url": url, "transport": transport, "asked": asked}
                    sides[f"official_{transport}"] = ("official", settings | extra)
            for number in range(1, sizes.rounds + 1):
                for side, (part, given) in sides.items():
                    log.info("model-driven: %s, round %d of %d", side, number, sizes.rounds)
                    before = await _seen(url)
                    found = await measured(*_MODEL, part, given)
                    after = await _seen(url)
                    requests = after["requests"] - before["requests"]
                    if requests != (len(ARGUMENTS) + 1) * sizes.model_episodes:
                        raise MeasurementError(f"{side} sent {requests} requests")
                    sent = (after["bytes"] - before["bytes"]) / sizes.model_episodes
                    rounds.add(side, found | {"sent_bytes_per_episode": sent})
    figures = rounds.medians()
    if len(sides) == 1:
        return figures | {"official": "not measured: openai is not installed"}
    for other in ("aiohttp", "default"):
        ratio = rounds.ratio("episodes_per_s", "model", f"official_{other}")
        figures[f"model_to_official_{other}"] = ratio
    return figures


async def _seen(url: str) -> dict[str, Any]:
    """The endpoint's own count of what it received."""
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        seen: dict[str, Any] = orjson.loads(await response.read())
        return seen


def _named(prefix: str, figures: dict[str, Any]) -> Figures:
    return {f"{prefix}_{name}": value for name, value in figures.items()}


async def measured(*command: str | Mapping[str, Any]) -> dict[str, Any]:
    """The figures on the last line of a process's output. Raises `MeasurementError` if it fails."""
    async with _process(*command) as process:
        said, _ = await process.communicate()
        if await process.wait():
            raise MeasurementError(f"a part of the measurement failed: {command[:5]}")
    figures: dict[str, Any] = orjson.loads(said.splitlines()[-1])
    return figures


@asynccontextmanager
async def _on_request(sizes: Sizes) -> AsyncIterator[Process]:
    """A process that repeatedly makes the number of calls that it is given."""
    settings = {"concurrency": sizes.concurrency}
    async with _process(*SCRIPTED, "on-request", settings) as process:
        yield process
        assert process.stdin is not None  # noqa: S101 - a pipe was asked for
        process.stdin.close()
        await process.communicate()
        if process.returncode:
            raise MeasurementError("a process that made calls failed at its end")


async def _calls(process: Process, calls: int) -> dict[str, float]:
    assert process.stdin is not None  # noqa: S101 - pipes were asked for
    assert process.stdout is not None  # noqa: S101
    process.stdin.write(b"%d\n" % calls)
    line = await process.stdout.readline()
    if not line:
        raise MeasurementError("a process that was to make calls has ended")
    seen: dict[str, float] = orjson.loads(line)
    return seen


@asynccontextmanager
async def _process(*command: str | Mapping[str, Any]) -> AsyncIterator[Process]:
    """A process without this one's Finport settings, keys and proxies; it ends with the context.
    Mappings among its arguments become JSON.
    """
    texts = [part if isinstance(part, str) else orjson.dumps(part).decode() for part in command]
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("FINPORT_") and not name.lower().endswith(("_key", "_proxy"))
    }
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*texts, env=kept, stdin=pipe, stdout=pipe)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        with anyio.CancelScope(shield=True):
            await process.wait()
