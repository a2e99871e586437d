"""The live view of a run: tables that are updated on a terminal, plain lines elsewhere.

It shows only what is cheap to compute, since it must neither slow nor end the run. It fails if its
terminal is closed (`finbench run ... | head`), has no size or can't write a character. Then it logs
that once and shows nothing more.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Protocol, Self

from rich.box import SIMPLE
from rich.console import Console, Group
from rich.live import Live as RichLive
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from bench.metrics.interval import percent
from bench.own import words_of
from bench.runs.directory import RunDirectory
from bench.suites.suite import Metric
from manifests.common.console import PlainConsole
from manifests.common.duration import duration
from manifests.common.terminal import plain

log = logging.getLogger("finport")

TERMINAL_EVERY_S = 0.25
LINES_EVERY_S = 2.0
HOSTS_EVERY_S = 2.0
RATE_OVER_S = 10.0
SHOWN = 6
"""Hosts and error codes on the terminal, the most important ones first."""

HostStates = dict[str, dict[str, Any]]


class Progress(Protocol):
    """The progress of what plays the episodes, and the states of its gateway's upstream hosts."""

    @property
    def in_flight(self) -> int: ...

    @property
    def done(self) -> int: ...

    async def hosts(self) -> HostStates: ...


class Pace:
    """Episodes and calls per second over the last `RATE_OVER_S` seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int, int]] = deque()

    def note(self, at: float, episodes: int, calls: int) -> None:
        self._seen.append((at, episodes, calls))
        while self._seen[0][0] < at - RATE_OVER_S:
            self._seen.popleft()

    def per_s(self) -> tuple[float, float]:
        (first, *before), (last, *now) = self._seen[0], self._seen[-1]
        if last <= first:
            return 0.0, 0.0
        episodes, calls = ((b - a) / (last - first) for a, b in zip(before, now, strict=True))
        return episodes, calls


class Live:
    """Shows metrics and progress of a run until its context ends, and once more at the end."""

    def __init__(
        self,
        directory: RunDirectory,
        driver: Progress,
        episodes: int,
        console: Console | None = None,
    ) -> None:
        self._directory = directory
        self._metrics = directory.metrics
        self._driver = driver
        self._episodes = episodes
        self._states: HostStates = {}
        self._asked_at = 0.0
        self._pace = Pace()
        self._started = time.perf_counter()
        self._is_dark = False
        console = console or PlainConsole()
        is_live = console.is_terminal and not console.is_dumb_terminal
        self._rich = RichLive(console=console, auto_refresh=False) if is_live else None
        self._every_s = TERMINAL_EVERY_S if self._rich else LINES_EVERY_S

    async def __aenter__(self) -> Self:
        self._pace.note(self._started, self._driver.done, self._metrics.traffic.latency_ms.count)
        if self._rich:
            with self._lit():
                self._rich.start()
        self._watcher = asyncio.create_task(self._refresh_repeatedly())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._watcher.cancel()
        with suppress(asyncio.CancelledError):
            await self._watcher
        self._show()
        if self._rich:
            with self._lit():
                self._rich.stop()

    async def _refresh_repeatedly(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            await self.refresh()

    async def refresh(self) -> None:
        if self._rich and time.perf_counter() > self._asked_at + HOSTS_EVERY_S:
            with self._lit():
                self._states = await self._driver.hosts()
            self._asked_at = time.perf_counter()
        self._show()

    def _show(self) -> None:
        if not self._is_dark:
            with self._lit():
                self._draw()

    @contextmanager
    def _lit(self) -> Iterator[None]:
        """An error in this context ends the view and nothing else."""
        try:
            yield
        except (Exception, SystemExit) as error:  # noqa: BLE001 - rich exits on a broken pipe
            if not self._is_dark:
                log.warning("the live view is off, the run goes on: %s", words_of(error))
            self._is_dark = True

    def _draw(self) -> None:
        now, driver = time.perf_counter(), self._driver
        self._pace.note(now, driver.done, self._metrics.traffic.latency_ms.count)
        rates = self._metrics.rates()
        if self._rich is None:
            figures = self._figures() | self._times(now)
            in_line = [metric for metric in self._metrics.suite.metrics if metric.in_line]
            figures |= {metric.name: metric.text_of(rates[metric.name]) for metric in in_line}
            if unsaved := self._directory.unsaved:
                figures["not saved"] = unsaved
            line = "  ".join(f"{name} {value}" for name, value in figures.items())
            print(plain(line), flush=True)  # noqa: T201
            return
        bar = Table.grid(padding=(0, 2))
        bar.add_row(
            ProgressBar(total=max(self._episodes, 1), completed=driver.done, width=40),
            "  ".join(f"{name} {text}" for name, text in self._times(now).items() if text),
        )
        beside = Table.grid(padding=(0, 1))
        metrics = _table("metric", "so far", "95 % interval")
        main = (one for one in self._metrics.suite.metrics if one.is_main)
        add_metrics(metrics, (one for one in main if rates.get(one.name) is not None), rates)
        beside.add_row(metrics, self._errors())
        unsaved = self._directory.unsaved
        warning = Text(f"  not saved: {unsaved}" if unsaved else "", style="bold red")
        figures = self._figures()
        counts = _table(*figures)
        counts.add_row(*figures.values())
        shown = Group(bar, counts, beside, self._host_table(), warning)
        self._rich.update(shown, refresh=True)

    def _figures(self) -> dict[str, str]:
        """Counts and rates so far."""
        traffic, driver = self._metrics.traffic, self._driver
        episodes_s, calls_s = self._pace.per_s()
        return {
            "episodes": f"{driver.done}/{self._episodes}",
            "in flight": str(driver.in_flight),
            "episodes/s": f"{episodes_s:.0f}",
            "calls/s": f"{calls_s:.0f}",
            "hits": percent(traffic.hit_rate()),
            "failed calls": str(traffic.codes().total()),
        }

    def _times(self, now: float) -> dict[str, str]:
        """The time that the run has taken and the time that it still needs."""
        episodes_s, _ = self._pace.per_s()
        left = (self._episodes - self._driver.done) / episodes_s if episodes_s else None
        return {
            "time": duration(round(now - self._started, 1)),
            "left": "" if left is None else duration(round(left, 1)),
        }

    def _errors(self) -> Table:
        traffic = self._metrics.traffic
        table = _table("failed calls", "")
        for code, n in traffic.codes().most_common(SHOWN):
            table.add_row(code, str(n))
        for fault, n in traffic.faults().most_common():
            table.add_row(f"fault of {fault}", str(n), style="dim")
        return table

    def _host_table(self) -> Table | str:
        """Hosts that are busy or failing, the failing ones first."""

        def rank(state: dict[str, Any]) -> tuple[bool, int]:
            return state["breaker"] == "closed", -state["waiting"] - state["in_flight"]

        notable = [(n, s) for n, s in self._states.items() if rank(s) != (True, 0)]
        if not notable:
            return f"  {len(self._states)} hosts asked so far, all idle and in order"
        table = _table(f"of {len(self._states)} hosts", "in flight", "waiting", "breaker")
        for name, state in sorted(notable, key=lambda item: rank(item[1]))[:SHOWN]:
            in_flight, waiting = str(state["in_flight"]), str(state["waiting"])
            style = None if state["breaker"] == "closed" else "bold red"
            table.add_row(name, in_flight, waiting, str(state["breaker"]), style=style)
        return table


def _table(*columns: str) -> Table:
    table = Table(box=SIMPLE, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table


def add_metrics(table: Table, metrics: Iterable[Metric], rates: Mapping[str, Any]) -> None:
    """Add a row for each metric, below a heading for each axis. The columns of `table` are name,
    value and interval, and if there is a fourth one what the metric is, with the number of episodes
    that it is over if these are not all.
    """
    axis = ""
    for metric in metrics:
        if metric.axis != axis:
            axis = metric.axis
            table.add_row(axis, style="bold")
        value, about = metric.text_of(rates[metric.name]), metric.text + _over(metric, rates)
        texts = value, metric.interval_of(rates), about
        table.add_row(metric.name, *texts[: len(table.columns) - 1])


def _over(metric: Metric, rates: Mapping[str, Any]) -> str:
    over = rates.get("denominators", {}).get(metric.name)
    if over is None or over == (episodes := rates["episodes"]):
        return ""
    return f"\n{over:,} of {episodes:,} episodes"
