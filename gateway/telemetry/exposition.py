"""The metrics that Prometheus reads: figures of all workers added up, as families of samples.

Figures are rows of labels and numbers, so any order and any split of the calls adds up to the same.
The quota ledger and the disk tier, which workers share, are read at each scrape, and left out if
they can't be read. No label comes from a caller, and a key is shown by its fingerprint only.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from adapters.providers import keyed_hosts
from gateway.call import Gateway
from gateway.errors import ErrorCode
from gateway.telemetry.quantile import Quantiles
from gateway.upstreams.accounts import read_accounts
from gateway.upstreams.hosts import plans_of
from gateway.upstreams.quota import standings

log = logging.getLogger("finport")

LEARNED = 8
"""How many of the quotas that an upstream reported are shown for a key at a host."""

MAX_CLIENTS = 200
"""Clients that are shown by name; the calls of the others are added up."""

OTHER = "(other)"
"""The label of the other clients; no client has this name."""

BOUNDS_S = (0.0005, 0.002, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 180.0)

BUCKETS = len(BOUNDS_S) + 1
TIME, BYTES = BUCKETS, BUCKETS + 1  # after the buckets of a tally

Series = tuple[list[str], list[float]]
Figures = dict[str, list[Series]]
"""Rows of label values and numbers, by family."""

# Families with one number a row: their labels and help texts. Counters end in _total.
_FAMILIES: dict[str, tuple[str, str]] = {
    "finport_calls_total": (
        "tool host provenance code fault",
        "Calls that have ended; code is ok or the error's, and fault says whose fault that is: the "
        "agent's, the tool's, the quota's or the gateway's. Calls that were not made have no tool.",
    ),
    "finport_client_calls_total": (
        "client code",
        "Calls that have ended, by the name of the caller's key. Calls without a key have no "
        "client; (other) adds up the clients beyond the first 200.",
    ),
    "finport_stand_ins_total": (
        "tool answered_by",
        "Calls of a tool whose source failed that another tool answered.",
    ),
    "finport_answer_bytes_total": ("", "Bytes of answers given to callers."),
    "finport_cache_lookups_total": (
        "",
        "Valid and allowed calls that were looked up in the cache; calls that a snapshot answered "
        "do not count.",
    ),
    "finport_cache_hits_total": ("", "Lookups that the cache answered, stale answers included."),
    "finport_cache_faults_total": ("tier kind", "Damaged rows, failed reads and dropped writes."),
    "finport_shape_changes_total": (
        "tool kind",
        "Differences between the shape of a live answer and that of earlier ones.",
    ),
    "finport_shape_answers_total": (
        "outcome",
        "Live answers that were chosen for a comparison of their shape: compared, first of their "
        "kind, or not compared (too_large, busy, failed).",
    ),
    "finport_redis_failures_total": (
        "kind",
        "Times that Redis was lost, commands not sent while it was away or slow, commands whose "
        "answer was late, and commands refused.",
    ),
    "finport_host_breaker_opened_total": ("host", "Times that the host's breaker has opened."),
    "finport_akshare_workers_started_total": ("", "Processes started to run AkShare."),
    "finport_loop_late_seconds_total": (
        "",
        "Time by which timers of the event loops have fired late, where that was 10 ms or more. "
        "Its rate is the number of loops that stand still, on average.",
    ),
    "finport_akshare_workers": ("state", "Processes that run AkShare."),
    "finport_pending_calls": ("", "Calls under way whose answer was not in memory."),
    "finport_flights": ("", "Executions under way; identical calls share one."),
    "finport_host_in_flight": ("host", "Attempts under way."),
    "finport_host_waiting": ("host", "Calls that wait for a slot at the host."),
    "finport_host_breaker_state": (
        "host state",
        "Gateway processes whose breaker for the host is in this state.",
    ),
    "finport_host_retry_tokens": ("host", "Retries left in the host's retry budget."),
    "finport_quota_used": (
        "host key span source",
        "Requests counted in the current span; key is a fingerprint, source says whose limit it "
        "is: the plan's or the upstream's.",
    ),
    "finport_quota_limit": ("host key span source", "Requests allowed in a span."),
    "finport_client_quota_left": (
        "client",
        "Calls left of a client's quota of the day, once it has called in it; at most 200 clients.",
    ),
    "finport_cache_entries": ("tier", "Cached answers; unknown for the disk tier."),
    "finport_cache_bytes": ("tier", "Estimated size of cached answers; on disk, size of files."),
    "finport_cache_queued": ("tier", "Answers that wait to be written."),
    "finport_resident_bytes": ("", "Memory of the gateway's processes, without AkShare's."),
    "finport_workers": ("", "Gateway processes alive."),
    "finport_halted": (
        "",
        "Gateway processes that refuse calls, because their trace or snapshot can't be written.",
    ),
    "finport_redis_trouble": ("", "Gateway processes that can't use Redis, or not write to it."),
    "finport_gateways": ("", "Gateway processes that share the Redis, as this one knows it."),
}


@dataclass(frozen=True, slots=True)
class Format:
    """A format for writing figures, with its media type."""

    content_type: str
    write: Callable[[CollectorRegistry], bytes]


TEXT = Format(CONTENT_TYPE_PLAIN_0_0_4, generate_latest)
"""Prometheus's own format, in the version that every Prometheus reads."""

OPENMETRICS = Format(openmetrics.CONTENT_TYPE_LATEST, openmetrics.generate_latest)
"""OpenMetrics 1.0.0."""


def exposed(
    gateway: Gateway, counters: Iterable[Figures], gauges: Iterable[Figures], format_: Format
) -> bytes:
    """The figures of every worker as one text."""
    registry = CollectorRegistry()
    registry.register(_Families(gateway, merge(counters), merge(gauges)))
    return format_.write(registry)


def merge(every: Iterable[Figures]) -> Figures:
    """All figures added up."""
    sums: dict[str, dict[tuple[str, ...], list[float]]] = {}
    for figures in every:
        for family, rows in figures.items():
            known = sums.setdefault(family, {})
            for labels, numbers in rows:
                before = known.setdefault(tuple(labels), [0] * len(numbers))
                before[:] = [a + b for a, b in zip(before, numbers, strict=True)]
    return {
        family: [([*labels], numbers) for labels, numbers in sorted(rows.items())]
        for family, rows in sums.items()
    }


@dataclass(frozen=True, slots=True, eq=False)
class _Families(Collector):
    gateway: Gateway
    counters: Figures
    gauges: Figures

    def collect(self) -> Iterator[Metric]:
        gateway, calls = self.gateway, self.counters["calls"]
        about = {
            "version": version("finport"),
            "upstream": gateway.answers.upstream,
            "mode": gateway.settings.mode,
        }
        yield InfoMetricFamily("finport", "The gateway that serves.", about)
        yield _times(calls)
        lag = Quantiles({int(bucket): int(n) for (bucket,), (n,) in self.gauges["lag"]})
        # No sum and no count: these may not fall, and a worker's lag is dropped when it ends.
        text = "How late timers of the event loop have fired since its start."
        lags = SummaryMetricFamily("finport_loop_lag_seconds", text)
        for q in (0.5, 0.9, 0.99):
            late_ms = lag.at(q)
            if late_ms is not None:
                lags.add_sample(lags.name, {"quantile": str(q)}, late_ms / 1e3)
        yield lags
        rows = {**self.counters, **self.gauges, **_sums(gateway, calls), **_quotas(gateway)}
        store = gateway.answers.store
        rows["finport_gateways"] = [] if store is None else [([], [store.gateways])]
        rows["finport_client_quota_left"] = _client_quotas(gateway)
        rows["finport_client_calls_total"] = _by_client(self.counters)
        rows["finport_cache_bytes"] = rows["finport_cache_bytes"] + _disk(gateway)
        for name, (labels, help_text) in _FAMILIES.items():
            make = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            family = make(name, help_text, labels=labels.split())
            for values, (number,) in rows.get(name, ()):
                family.add_metric(values, number)
            yield family


def _times(calls: list[Series]) -> Metric:
    text = "Time from a call to its result, by where the answer or the error came from."
    times = HistogramMetricFamily(
        "finport_call_duration_seconds", text, labels=["host", "provenance"]
    )
    places = merge({"": [(labels[1:3], tally)]} for labels, tally in calls).get("", [])
    for place, tally in places:
        bounds = [*map(str, BOUNDS_S), "+Inf"]
        buckets = list(zip(bounds, accumulate(tally[:BUCKETS]), strict=True))
        times.add_metric(place, buckets, tally[TIME] / 1e6)
    return times


def _by_client(counters: Figures) -> list[Series]:
    """The calls of each client; processes that ran at different times may know other clients."""
    rows = counters.get("finport_client_calls_total", [])
    names = sorted({name for (name, _), _ in rows} - {"", OTHER})
    surplus = {*names[MAX_CLIENTS:]}
    folded: list[Series] = [
        ([OTHER if name in surplus else name, code], count) for (name, code), count in rows
    ]
    return merge([{"": folded}]).get("", [])


def _sums(gateway: Gateway, calls: list[Series]) -> Figures:
    """The sums over all calls. When recording, or offline, no call looks among cached answers."""
    sums: Figures = {
        "finport_calls_total": [(labels, [sum(tally[:BUCKETS])]) for labels, tally in calls],
        "finport_answer_bytes_total": [([], [sum(tally[BYTES] for _, tally in calls)])],
    }
    if gateway.settings.mode in ("live", "replay"):
        looked = [
            (provenance, sum(tally[:BUCKETS]))
            for (tool, _, provenance, code, _), tally in calls
            if tool and code != ErrorCode.FORBIDDEN and provenance != "replayed"
        ]
        hits = sum(count for provenance, count in looked if provenance in ("cached", "stale"))
        sums["finport_cache_lookups_total"] = [([], [sum(count for _, count in looked)])]
        sums["finport_cache_hits_total"] = [([], [hits])]
    return sums


def _quotas(gateway: Gateway) -> Figures:
    """The accounts of the ledger, which all workers share."""
    settings, reported = gateway.settings, Counter[tuple[str, str]]()
    used: list[Series] = []
    limits: list[Series] = []
    if settings.mode == "offline":
        return {}
    asked = keyed_hosts(gateway.catalog)
    plans = {h: p for h, p in plans_of(settings, gateway.catalog).items() if h in asked}
    try:
        now = gateway.answers.clock.wall()
        every = standings(settings.ledger_path, settings.secrets, plans, now)
    except OSError as error:
        log.warning("quotas are left out of the metrics: %s", error)
        return {}
    for s in every:
        reported[s.host, s.key] += s.learned
        if not s.learned or reported[s.host, s.key] <= LEARNED:
            labels = [s.host, s.key, s.span, "upstream" if s.learned else "plan"]
            used.append((labels, [s.used]))
            if s.quota is not None:
                limits.append((labels, [s.quota]))
    return {"finport_quota_used": used, "finport_quota_limit": limits}


def _client_quotas(gateway: Gateway) -> list[Series]:
    """What is left of the clients' quotas, which all workers count together."""
    try:
        now = gateway.answers.clock.wall()
        shared = gateway.settings.redis_url is not None
        every = read_accounts(gateway.settings.client_quotas_path, now, shared=shared)
    except OSError as error:
        log.warning("quotas of clients are left out of the metrics: %s", error)
        return []
    left = {s.host: max(s.left, 0) for s in every if s.span == "day" and s.quota is not None}
    return [([client], [left[client]]) for client in sorted(left)[:MAX_CLIENTS]]


def _disk(gateway: Gateway) -> list[Series]:
    """Size of the disk tier's files, which all workers share."""
    settings = gateway.settings
    files = (settings.cache_dir / settings.cache_name).glob("cache.db*")
    if settings.mode == "offline":
        return []
    with suppress(OSError):  # the database's log comes and goes
        return [(["disk"], [sum(file.stat().st_size for file in files)])]
    return []
