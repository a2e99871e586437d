"""All metrics of a run, the content of `metrics.json`, as one object that can be merged."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.metrics import ToolUse, Traffic, Usage
from bench.own import words_of
from bench.record import EpisodeRecord
from bench.suites.suite import Suite, SuiteError
from gateway import CallRecord


class RunMetrics:
    """The suite's metrics and those that all suites share; it is fed with both streams of a run."""

    def __init__(self, suite: type[Suite]) -> None:
        self.suite = suite
        self.episodes = 0
        self.own = suite.new_metrics()
        self.usage = Usage()
        self.tool_use = ToolUse()
        self.traffic = Traffic()

    def add(self, record: EpisodeRecord | CallRecord) -> None:
        if not isinstance(record, EpisodeRecord):
            self.traffic.add(record)
            return
        last_round = record.last_round
        self.episodes += 1
        with self._blamed(f"episode {record.episode}"):
            self.own.add(record, last_round)
        self.usage.add(record, last_round)
        self.tool_use.add(record)

    def merge(self, other: "RunMetrics") -> None:
        self.episodes += other.episodes
        with self._blamed("merging them"):
            self.own.merge(other.own)
        self.usage.merge(other.usage)
        self.tool_use.merge(other.tool_use)
        self.traffic.merge(other.traffic)

    def rates(self) -> dict[str, Any]:
        """The suite's metrics with their intervals, without those that are costly to compute."""
        with self._blamed("its rates"):
            return {"episodes": self.episodes, **self.own.rates()}

    def result(self) -> dict[str, Any]:
        with self._blamed("its details"):
            details = self.own.details()
        return {
            **self.rates(),
            "usage": self.usage.result(),
            "tool_use": self.tool_use.result(),
            **details,
            "traffic": self.traffic.result(),
        }

    def whole(self) -> dict[str, Any]:
        """The result with what takes long to compute; the event loop must not call it."""
        with self._blamed("its costly results"):
            costly = self.suite.costly(self.own)
        return {**self.result(), **costly}

    @contextmanager
    def _blamed(self, what: str) -> Iterator[None]:
        """Raises `SuiteError` for whatever a suite's own metrics raise."""
        try:
            yield
        except Exception as error:
            why = str(error) if isinstance(error, SuiteError) else words_of(error)
            text = f"the metrics of {self.suite.__name__}: {what}: {why}"
            raise SuiteError(text) from error
