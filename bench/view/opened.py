"""A run that was read: what its page shows, and an index of its episodes."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import IntFlag
from statistics import fmean
from sys import intern
from typing import Any

from bench.metrics.means import Measured
from bench.record import Ending, EpisodeRecord
from bench.report.facts import Facts
from bench.report.report import parts
from bench.runs.about import COMPLETE
from bench.runs.digest import run_digest
from bench.runs.reader import Run
from bench.suites.suite import Suite, measure
from bench.view.listing import TEXT_CHARS, Listed, Listing

MOST_LISTED = 200_000
"""The most episodes of a run that can be listed."""

RIGHT = 0.5
"""A share of a right answer from which on it counts as right."""


class Mark(IntFlag):
    """What an episode can be chosen by."""

    PASSED = 1
    WRONG = 2
    FAILED_CALL = 4
    ERROR = 8


@dataclass(frozen=True, slots=True)
class Entry:
    """An episode in the index. `offset` is where its line begins in the file."""

    offset: int
    episode: str
    category: str
    question: str
    ending: str
    marks: Mark

    @classmethod
    def of(cls, suite: type[Suite], record: EpisodeRecord, offset: int) -> "Entry":
        texts = (record.category, " ".join(record.question[:1_000].split()), record.ending)
        category, question, ending = (text[:TEXT_CHARS] for text in texts)
        marks = marks_of(suite, record, measure(suite, record))
        return cls(offset, record.episode, intern(category), question, intern(ending), marks)


@dataclass(frozen=True, slots=True)
class Opened:
    """`shown` is what `bench.report` shows of the run. `entries` are the first `MOST_LISTED` of the
    episodes that were `played`, in their order.
    """

    run: Run
    suite: type[Suite]
    shown: dict[str, Any]
    entries: Sequence[Entry]
    played: int

    @classmethod
    def read(cls, listing: Listing, listed: Listed) -> "Opened":
        """Raises `RunDirectoryError` and `SuiteError`."""
        run = Run.open(listed.path)
        suite = listing.suite_of(run.about.suite)
        facts, entries = Facts(suite, trajectories=0), list[Entry]()
        with closing(run.episodes()) as episodes:
            for record, line in episodes:
                facts.add(record)
                if len(entries) < MOST_LISTED:
                    entries.append(Entry.of(suite, record, line.offset))
        for call, _ in run.calls():
            facts.add(call)
        # No digest is known of a run that has not ended.
        digest = run_digest(run.path) if run.about.ended == COMPLETE else ""
        return cls(run, suite, parts(run.about, facts, digest), entries, facts.metrics.episodes)

    def entry(self, episode: str) -> Entry | None:
        """The entry of an episode."""
        return next((entry for entry in self.entries if entry.episode == episode), None)

    def chosen(self, mark: str, text: str) -> Iterator[Entry]:
        """The entries with a mark of `MARKS` and with all words of `text`."""
        wanted, words = MARKS[mark][1], text.lower().split()
        for entry in self.entries:
            has = wanted is None or entry.marks & wanted[0] == wanted[1]
            if has and (not words or _has(entry, words)):
                yield entry


MARKS: dict[str, tuple[str, tuple[Mark, Mark] | None]] = {
    "all": ("all", None),
    "passed": ("passed", (Mark.PASSED, Mark.PASSED)),
    "not-passed": ("not passed", (Mark.PASSED, Mark(0))),
    "wrong": ("answered wrongly", (Mark.WRONG, Mark.WRONG)),
    "failed-call": ("a call failed", (Mark.FAILED_CALL, Mark.FAILED_CALL)),
    "error": ("ended by an error", (Mark.ERROR, Mark.ERROR)),
}
"""By what episodes are chosen: in words, and which mark they must have or lack."""


def marks_of(suite: type[Suite], record: EpisodeRecord, measured: Measured) -> Mark:
    failed = any(not call.ok for call in record.agent_calls)
    is_error = record.ending in _ERRORS or record.error is not None
    return (
        (Mark.PASSED if measured.passed else Mark(0))
        | (Mark.WRONG if is_wrong(suite, record, measured) else Mark(0))
        | (Mark.FAILED_CALL if failed else Mark(0))
        | (Mark.ERROR if is_error else Mark(0))
    )


_ERRORS = frozenset(ending.value for ending in Ending if ending.is_error)


def is_wrong(suite: type[Suite], record: EpisodeRecord, measured: Measured) -> bool:
    """Whether an episode gave an answer that is wrong: the mean of its judge's scores is below
    `RIGHT`, or in a suite that needs no judge its verdict is against it. An answer that nobody
    judged is not wrong.
    """
    if record.ending != Ending.ANSWER or not record.execution_result.strip():
        return False
    if record.judgement is not None and record.judgement.scores:
        return fmean(record.judgement.scores) < RIGHT
    if any(metric.is_judged for metric in suite.metrics) or not measured.is_judged:
        return False
    share = next((m for m in suite.metrics if m.name == suite.reward and m.is_share), None)
    return share is not None and (measured.figures.get(share.name) or 0.0) < RIGHT


def _has(entry: Entry, words: Sequence[str]) -> bool:
    text = f"{entry.episode}\n{entry.category}\n{entry.question}\n{entry.ending}".lower()
    return all(word in text for word in words)


FILES = ("run.json", "episodes.jsonl", "calls.jsonl")
"""The files of which a change makes a page out of date."""
