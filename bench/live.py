"""A run as it goes: a table that fills in on a terminal, plain lines elsewhere."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from rich.box import SIMPLE
from rich.console import Console
from rich.live import Live as RichLive
from rich.table import Table

from bench.metrics import RunMetrics
from bench.plan import HostNeed

TERMINAL_EVERY_S = 0.25
LINES_EVERY_S = 2.0


class Progress(Protocol):
    """What the driver tells of itself."""

    in_flight: int
    done: int


class Live:
    """Shows metrics and progress until it is left, and once more at the end."""

    def __init__(self, metrics: RunMetrics, driver: Progress, episodes: int) -> None:
        self._metrics = metrics
        self._driver = driver
        self._episodes = episodes
        self._started = time.perf_counter()
        console = Console()
        self._rich = RichLive(console=console, auto_refresh=False) if console.is_terminal else None
        self._every_s = TERMINAL_EVERY_S if self._rich else LINES_EVERY_S

    def __enter__(self) -> Self:
        if self._rich:
            self._rich.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._show()
        if self._rich:
            self._rich.stop()

    async def refresh_repeatedly(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            self._show()

    def _show(self) -> None:
        figures = self._figures()
        if self._rich is None:
            print("  ".join(f"{name} {value}" for name, value in figures.items()), flush=True)  # noqa: T201
            return
        table = Table(*figures, box=SIMPLE)
        table.add_row(*figures.values())
        self._rich.update(table, refresh=True)

    def _figures(self) -> dict[str, str]:
        """Counts and rates so far; the costly parts of the metrics are left for the end."""
        capability, traffic = self._metrics.capability.result(), self._metrics.traffic
        calls = traffic.latency_ms.count
        elapsed_s = time.perf_counter() - self._started
        return {
            "episodes": f"{self._driver.done}/{self._episodes}",
            "in flight": str(self._driver.in_flight),
            "calls/s": f"{calls / elapsed_s:.0f}",
            "hits": percent(traffic.hit_rate),
            **{name: percent(capability[name]) for name in ("TIR", "TESR", "CER")},
            "failed": str(traffic.codes.total()),
            "time": f"{elapsed_s:.1f}s",
        }


def percent(share: float | None) -> str:
    return "undefined" if share is None else f"{share:.1%}"


def _range(interval: list[float] | None) -> str:
    return "" if interval is None else f"{interval[0]:.1%} to {interval[1]:.1%}"


def plan_table(needs: Sequence[HostNeed]) -> None:
    """What a run would ask of each host, on standard output."""
    table = Table("host", "calls", "distinct", "at most", "quota left", "runs out", box=SIMPLE)
    for need in needs:
        out = "" if need.left is None else "no"
        if need.runs_out_at_most is not None:
            out = f"at worst at episode {need.runs_out_at_most}"
        if need.runs_out is not None:
            out = f"at episode {need.runs_out}"
        left = "" if need.left is None else str(need.left)
        counts = (str(n) for n in (need.calls, need.distinct, need.most))
        table.add_row(need.host, *counts, left, out)
    console = Console(highlight=False, width=max(Console().width, 120))
    console.print(table)
    console.print(
        "distinct: upstream requests when every answer is kept and no attempt fails; "
        "at most: when none is kept and every attempt is used"
    )


def report(metrics: dict[str, Any], about: dict[str, Any]) -> None:
    """The metrics of a finished run as tables on standard output."""
    console = Console(highlight=False)
    traffic = metrics["traffic"]
    capability = Table(
        *("metric", "value", "95 % interval", "of"),
        title=f"{about['suite']}: FinToolBench capability",
        box=SIMPLE,
    )
    net = metrics["episodes"] - metrics["failed_by_infrastructure"]
    for name, of in (
        ("TIR", f"{metrics['invoked']} / {metrics['episodes']}"),
        ("TESR", f"{metrics['passed']} / {metrics['episodes']}"),
        ("CER", f"{metrics['passed']} / {metrics['invoked']}"),
        ("TESR_net", f"{metrics['passed']} / {net}, without faults of quota and gateway"),
        ("TESR_text", "by words in the output"),
        ("CER_text", "by words in the output"),
    ):
        capability.add_row(name, percent(metrics[name]), _range(metrics["intervals"][name]), of)
    console.print(capability)
    console.print(
        f"calls {traffic['calls']}, answered {traffic['answered']}: "
        + ", ".join(f"{source} {n}" for source, n in traffic["sources"].items())
        + f"; cache hit rate {percent(traffic['cache_hit_rate'])}"
    )
    console.print("failed: " + (", ".join(f"{c} {n}" for c, n in traffic["errors"].items()) or "0"))
    for title, rows in (("slowest", "slowest"), ("most failing", "most_failing")):
        tools = Table(f"{title} tools", "calls", "failed", "p50 ms", "p99 ms", box=SIMPLE)
        for row in traffic[rows]:
            latency = row["latency_ms"]
            figures = (row["calls"], row["failed"], latency["p50"], latency["p99"])
            tools.add_row(row["tool"], *map(str, figures))
        console.print(tools)


def closing(about: dict[str, Any], folder: Path, **vitals: dict[str, Any]) -> None:
    """How long the run took, how the processes fared, and where its files are."""
    lines = [
        f"{about['episodes']} episodes, at most {about['most_in_flight']} in flight, in "
        f"{about['took_s']:.1f} s: {about['calls_per_s']:.0f} calls/s"
    ]
    for name, figures in vitals.items():
        lag, peak = figures["loop_lag_ms"]["p99"], figures["peak_rss_bytes"] / 2**20
        workers = (figures["children_peak_rss_bytes"] or 0) / 2**20
        beside = f", its workers {workers:.0f} MiB" if workers and name == "gateway" else ""
        lines.append(f"{name}: event loop lag p99 {lag} ms, peak memory {peak:.0f} MiB{beside}")
    if about.get("snapshot"):
        lines.append(f"snapshot: {about['snapshot']} ({about['mode']})")
    if about.get("digest"):
        lines.append(f"run digest: {about['digest']}")
    print(*lines, f"run directory: {folder}", sep="\n")  # noqa: T201
