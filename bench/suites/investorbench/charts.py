"""Charts for reports: value, drawdown, positions and memory by day, for each task."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from statistics import fmean, median_low

import orjson

from bench.record import EpisodeRecord
from bench.suites.investorbench.returns import Played, played, trades
from bench.suites.suite import Chart

TASKS = 12
"""The most tasks that are drawn."""

REPEATS = 50
"""The repeats of a task from which the one with the median return is chosen."""

RECALL = "market_recall"
LAYERS = ("short", "mid", "long", "reflection")

_DATE = re.compile(r'"date":"([0-9-]{10})"')
_HELD = re.compile(r'"held":(\{[^{}]*\})')


class InvestorCharts:
    """Charts of the repeats with the median return."""

    def __init__(self) -> None:
        self._repeats: dict[str, list[tuple[float, Chart]]] = {}

    def add(self, record: EpisodeRecord) -> None:
        found = played(record)
        if found is None or len(found.days) < 2:
            return
        if record.id not in self._repeats and len(self._repeats) == TASKS:
            return
        repeats = self._repeats.setdefault(record.id, [])
        if len(repeats) < REPEATS:
            repeats.append((sum(found.returns), _chart(found, record)))

    def drawn(self) -> Sequence[Chart]:
        return [_middle(repeats) for repeats in self._repeats.values()]


def _middle(repeats: list[tuple[float, Chart]]) -> Chart:
    middle = median_low(earned for earned, _ in repeats)
    chart = next(chart for earned, chart in repeats if earned == middle)
    if len(repeats) == 1:
        return chart
    text = f"{chart.text} It has the median return of {len(repeats)} repeats."
    return replace(chart, text=text)


def _chart(found: Played, record: EpisodeRecord) -> Chart:
    agent, held = _values(found.returns), _values(found.held)
    below = [value / peak - 1 for value, peak in zip(agent, accumulate(agent, max), strict=True)]
    panels: dict[str, dict[str, Sequence[float]]] = {
        "value": {record.setting or "agent": agent, "Buy & Hold": held},
        "drawdown": {"": below},
        "position": {"": _positions(record, found.days)},
    }
    if memory := _memory(record):
        panels["memories"] = {
            layer: [memory.get(day, {}).get(layer, 0) for day in found.days] for layer in LAYERS
        }
    return Chart(record.id, f"Episode {record.episode}.", found.days, panels)


def _values(returns: Sequence[float]) -> list[float]:
    """The value on each day of 1 on the first."""
    return list(accumulate(returns, lambda value, earned: value * (1 + earned), initial=1.0))


def _positions(record: EpisodeRecord, days: Sequence[str]) -> list[float]:
    """The mean position of the assets on each day."""
    by_day: dict[str, list[int]] = {}
    for trade in trades(record):
        by_day.setdefault(trade.date, []).append(trade.position)
    return [fmean(by_day.get(day, (0,))) for day in days]


def _memory(record: EpisodeRecord) -> dict[str, dict[str, int]]:
    """How many memories each layer held, by day, as answers of recalling begin with it."""
    found = {}
    for call in record.tool_calls:
        if call.tool_name == RECALL and call.ok and isinstance(call.output, str):
            day, held = _DATE.search(call.output), _HELD.search(call.output)
            if day and held:
                found[day[1]] = orjson.loads(held[1])
    return found
