"""A run that was read: what its page shows, and an index of its episodes."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import IntFlag
from sys import intern
from typing import Any

from bench.metrics.means import Measured
from bench.record import Ending, EpisodeRecord
from bench.report.facts import Facts
from bench.report.report import parts
from bench.runs.about import COMPLETE
from bench.runs.digest import run_digest
from bench.runs.reader import Run
from bench.runs.resume import TRANSCRIPTS
from bench.runs.transcripts import Transcripts
from bench.suites.suite import Suite
from bench.view.listing import TOLD, Listed, Listing, cut
from bench.view.work import Tell

MOST_LISTED = 200_000
"""The most episodes of a run that can be listed."""


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
    def of(cls, record: EpisodeRecord, marks: Mark, offset: int) -> "Entry":
        texts = (record.category, record.question, record.ending)
        category, question, ending = (cut(text) for text in texts)
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
    transcripts: Transcripts

    @classmethod
    def read(cls, listing: Listing, listed: Listed, tell: Tell) -> "Opened":
        """Raises `RunDirectoryError` and `SuiteError`."""
        run = Run.open(listed.path)
        suite = listing.suite_of(run.about.suite)
        facts, entries = Facts(suite, trajectories=0), list[Entry]()
        with closing(run.episodes()) as episodes:
            for record, line in episodes:
                measured = facts.add(record)
                if measured is not None and len(entries) < MOST_LISTED:
                    marks = marks_of(suite, record, measured)
                    entries.append(Entry.of(record, marks, line.offset))
                if not facts.metrics.episodes % TOLD:
                    tell(f"{facts.metrics.episodes:,} of {run.about.episodes:,} episodes are read.")
        tell("All episodes are read. The calls follow.")
        for call, _ in run.calls():
            facts.add(call)
        # No digest is known of a run that has not ended.
        is_known = run.about.ended == COMPLETE and run.about.digest
        digest = run_digest(run.path) if is_known else ""
        shown, played = parts(run.about, facts, digest), facts.metrics.episodes
        return cls(run, suite, shown, entries, played, Transcripts(run.path))

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
        | (Mark.WRONG if suite.is_wrong(record, measured) else Mark(0))
        | (Mark.FAILED_CALL if failed else Mark(0))
        | (Mark.ERROR if is_error else Mark(0))
    )


_ERRORS = frozenset(ending.value for ending in Ending if ending.is_error)


def _has(entry: Entry, words: Sequence[str]) -> bool:
    text = f"{entry.episode}\n{entry.category}\n{entry.question}\n{entry.ending}".lower()
    return all(word in text for word in words)


FILES = ("run.json", "episodes.jsonl", "calls.jsonl", TRANSCRIPTS)
"""The files of which a change makes a page out of date."""
