"""All metrics of a run, the content of `metrics.json`, as one object that can be merged."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from bench.judges.judging import why_invalid
from bench.metrics import ToolUse, Traffic, Usage
from bench.own import words_of
from bench.record import EpisodeRecord
from bench.suites.suite import Suite, SuiteError, SuiteMetrics
from gateway import CallRecord

JUDGE = "judge"
"""A key of `first_errors`, beside the endings."""


@dataclass(slots=True)
class Tally:
    """What `run.json` says of episodes: how many were judged, how many of these judgements failed,
    and the first error text of each ending that is an error; under `judge` that of the judge or of
    a request to its model.
    """

    judged: int = 0
    failed_judgements: int = 0
    first_errors: dict[str, str] = field(default_factory=dict)

    def add(self, record: EpisodeRecord) -> None:
        if record.error is not None:
            self.first_errors.setdefault(record.ending, record.error)
        if (judgement := record.judgement) is None:
            return
        self.judged += not judgement.is_empty
        if not judgement.is_valid:
            self.failed_judgements += 1
            self.first_errors.setdefault(JUDGE, why_invalid(judgement))
        for asked in judgement.model_calls:
            if asked.error is not None:
                self.first_errors.setdefault(JUDGE, asked.error)

    def merge(self, later: "Tally") -> None:
        self.judged += later.judged
        self.failed_judgements += later.failed_judgements
        self.first_errors = later.first_errors | self.first_errors


class Breakdown:
    """All metrics of a suite by groups, with their intervals. A run saves less of its groups
    (`SuiteMetrics.details`), since it counts them as it goes.
    """

    def __init__(self, suite: type[Suite], groups: Iterable[str]) -> None:
        self._suite = suite
        self._rows: dict[str, dict[str, SuiteMetrics]] = {name: {} for name in groups}

    def add(self, record: EpisodeRecord) -> None:
        for name, rows in self._rows.items():
            row = self._suite.row_of(record, name)
            if row not in rows:
                rows[row] = self._suite.new_metrics()
            rows[row].add(record, record.last_round)

    def result(self) -> dict[str, dict[str, Any]]:
        return said(
            {
                name: {row: of.rates() for row, of in sorted(rows.items())}
                for name, rows in self._rows.items()
            }
        )


def said(breakdown: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A breakdown without the groups of which no episode says a row."""
    return {name: rows for name, rows in breakdown.items() if [*rows] != [""]}


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
        try:
            self.own.add(record, last_round)
        except Exception as error:
            raise self._error(f"episode {record.episode}", error) from error
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
        if "breakdown" in details:
            details = {**details, "breakdown": said(details["breakdown"])}
        return {
            **self.rates(),
            "usage": self.usage.result(),
            "models": self.usage.models,
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
            raise self._error(what, error) from error

    def _error(self, what: str, error: Exception) -> SuiteError:
        why = str(error) if isinstance(error, SuiteError) else words_of(error)
        return SuiteError(f"the metrics of {self.suite.__name__}: {what}: {why}")
