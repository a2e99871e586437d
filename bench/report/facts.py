"""The facts of a report, gathered in one pass over the records of a run.

Memory grows only with the number of tools, hosts and models, not with the number of records. Names
in a record that the project does not know (a source, a fault, a code, an ending) are counted as
`other`, so no text of a trace gets into a figure.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from bench.metrics.means import Measured
from bench.record import Ending, EpisodeRecord, ModelCallRecord
from bench.report.timeline import Timeline
from bench.report.trajectories import Trajectories
from bench.runs.metrics import RunMetrics
from bench.runs.transcripts import Transcripts
from bench.suites.suite import Suite, measure, read_as
from gateway import CallRecord, ErrorCode
from gateway.telemetry.quantile import Quantiles

SOURCES: Final = ("live", "cached", "stale", "replayed", "simulated", "recorded", "finport")
FAULTS: Final = ("agent", "tool", "quota", "gateway")
OTHER: Final = "other"
FAILED: Final = "failed"
MOST_CALLS: Final = 12
"""Episodes with this many calls or more are counted together."""

_CODES = frozenset(code.value for code in ErrorCode)
_ENDINGS = frozenset(ending.value for ending in Ending)


@dataclass(slots=True)
class Use:
    """Calls of one kind. Requests to a model also have attempts and tokens."""

    calls: int = 0
    failed: int = 0
    attempts: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    latency_ms: Quantiles = field(default_factory=Quantiles)

    def add(self, elapsed_ms: float, *, ok: bool) -> None:
        self.calls += 1
        self.failed += not ok
        self.latency_ms.add(elapsed_ms)


Uses = defaultdict[tuple[str, str], Use]
"""Requests by model and purpose."""


class Facts:
    """Gathers facts from both streams of a run."""

    def __init__(
        self, suite: type[Suite], trajectories: int, transcripts: Transcripts | None = None
    ) -> None:
        self.suite = suite
        self.shown = read_as(suite.metrics, "program")
        self.metrics = RunMetrics(suite)
        self.timeline = Timeline()
        self.trajectories = Trajectories(trajectories, transcripts)
        self.by_source: defaultdict[str, Use] = defaultdict(Use)
        self.by_host: defaultdict[str, Use] = defaultdict(Use)
        self.by_model: Uses = defaultdict(Use)
        self.by_judge: Uses = defaultdict(Use)
        self.errors: Counter[tuple[str, str]] = Counter()
        self.endings: Counter[str] = Counter()
        self.calls_an_episode: Counter[tuple[int, bool]] = Counter()
        self.charts = suite.new_charts()
        self.simulated_calls = 0
        self.first_s: float | None = None

    def add(self, record: EpisodeRecord | CallRecord) -> Measured | None:
        """Count a record. Returns the figures of an episode."""
        self.metrics.add(record)
        if isinstance(record, EpisodeRecord):
            return self._add_episode(record)
        self._add_call(record)
        return None

    def _add_call(self, call: CallRecord) -> None:
        self.timeline.add_call(call.at, ok=call.ok)
        source = known(call.source, SOURCES) if call.ok else FAILED
        self.by_source[source].add(call.elapsed_ms, ok=call.ok)
        if call.host is not None:
            self.by_host[call.host].add(call.elapsed_ms, ok=call.ok)
        self.simulated_calls += "simulated" in (call.upstream or "")
        if not call.ok:
            self.errors[known(call.fault, FAULTS), known(call.code, _CODES)] += 1

    def _add_episode(self, episode: EpisodeRecord) -> Measured:
        self.timeline.add_episode(episode.started_at, episode.elapsed_ms)
        self.first_s = min(self.first_s or episode.started_at, episode.started_at)
        measured = measure(self.suite, episode)
        passed = measured.passed
        self.calls_an_episode[min(len(episode.tool_calls), MOST_CALLS), passed] += 1
        self.endings[known(episode.ending, _ENDINGS)] += 1
        self._add_requests(self.by_model, episode.model_calls)
        if episode.judgement is not None:
            self._add_requests(self.by_judge, episode.judgement.model_calls)
        if self.charts is not None:
            self.charts.add(episode)
        self.trajectories.add(
            episode,
            passed=passed,
            wrong=self.suite.is_wrong(episode, measured),
            infrastructure=measured.infrastructure,
        )
        return measured

    @staticmethod
    def _add_requests(to: Uses, requests: Iterable[ModelCallRecord]) -> None:
        for request in requests:
            use = to[request.model, request.purpose]
            use.add(request.elapsed_ms, ok=request.error is None)
            use.attempts += request.attempts
            use.input_tokens += request.input_tokens
            use.cached_tokens += request.cached_tokens
            use.output_tokens += request.output_tokens


def known(name: str | None, names: Iterable[str]) -> str:
    return name if name is not None and name in names else OTHER
