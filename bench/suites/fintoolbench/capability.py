"""FinToolBench's capability metrics (arXiv 2603.08262, section 4, as its public evaluator counts).

TIR = invoked / N, TESR = passed / N, CER = passed / invoked (undefined where none invoked).
`Outcome` defines `invoked` and `passed`; the `_text` variants use `passed_text`. An episode that
failed only because of the infrastructure says nothing about its agent: the paper's rates count it
as failed, the `_net` variants leave it out of N. Each rate has its 95 % interval.
"""

from typing import Any

from bench.metrics.interval import rounded, share, wilson
from bench.record import EpisodeRecord
from bench.suites.fintoolbench.outcome import Outcome


class Capability:
    """TIR, TESR and CER over episodes."""

    def __init__(self) -> None:
        self.episodes = 0
        self.invoked = 0
        self.passed = 0
        self.passed_text = 0
        self.infrastructure = 0
        self.infrastructure_invoked = 0
        self.errors = 0

    def add(self, record: EpisodeRecord) -> None:
        self.count(Outcome.of(record))

    def count(self, outcome: Outcome) -> None:
        self.episodes += 1
        self.errors += outcome.error
        self.infrastructure += outcome.infrastructure
        if outcome.invoked:
            self.invoked += 1
            self.passed += outcome.passed
            self.passed_text += outcome.passed_text
            self.infrastructure_invoked += outcome.infrastructure

    def merge(self, other: "Capability") -> None:
        self.episodes += other.episodes
        self.invoked += other.invoked
        self.passed += other.passed
        self.passed_text += other.passed_text
        self.infrastructure += other.infrastructure
        self.infrastructure_invoked += other.infrastructure_invoked
        self.errors += other.errors

    def rates(self) -> dict[str, tuple[int, int]]:
        """Each rate as a part and a whole."""
        whole, net = self.episodes, self.infrastructure
        return {
            "TIR": (self.invoked, whole),
            "TESR": (self.passed, whole),
            "CER": (self.passed, self.invoked),
            "TESR_net": (self.passed, whole - net),
            "CER_net": (self.passed, self.invoked - self.infrastructure_invoked),
            "TESR_text": (self.passed_text, whole),
            "CER_text": (self.passed_text, self.invoked),
        }

    def result(self) -> dict[str, Any]:
        rates = self.rates()
        return {
            "episodes": self.episodes,
            "episode_errors": self.errors,
            "invoked": self.invoked,
            "passed": self.passed,
            "failed_by_infrastructure": self.infrastructure,
            **{name: share(part, whole) for name, (part, whole) in rates.items()},
            "intervals": {name: rounded(wilson(*rate)) for name, rate in rates.items()},
            "denominators": {name: whole for name, (_, whole) in rates.items()},
        }
