"""The rows of a table of metrics."""

from collections.abc import Iterable, Mapping
from typing import Any

from rich.table import Table

from bench.suites.suite import Metric


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
