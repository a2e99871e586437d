"""Records of ended episodes, as a player hands them to the head: encoded and counted.

The calls of an episode are kept until it ends and leave together with its record. So a call of an
episode that was lost with its player is in no file, and neither is a checkpoint.
"""

import asyncio
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import orjson

from bench.models.transcript import TranscriptLine
from bench.record import EpisodeRecord
from bench.runs.metrics import RunMetrics, Tally
from bench.runs.resume import Begun
from bench.suites.suite import Suite, SuiteError
from gateway import CallRecord
from gateway.trace import TraceError

BATCH_BYTES = 2**20
"""Bytes of lines from which a batch is full. One episode may exceed it."""

WAITING_BYTES = 4 * BATCH_BYTES
"""Bytes of ended episodes that may wait in a player before it plays no further ones."""


_T = TypeVar("_T", CallRecord, TranscriptLine)


@dataclass(slots=True)
class Batch:
    """Ended episodes: their records, those of their calls and their transcripts, as lines of JSON,
    and what the run counts of them. `metrics` is None if there are none.
    """

    calls: bytearray = field(default_factory=bytearray)
    episodes: bytearray = field(default_factory=bytearray)
    transcripts: bytearray = field(default_factory=bytearray)
    names: list[str] = field(default_factory=list)
    metrics: RunMetrics | None = None
    tally: Tally = field(default_factory=Tally)

    @property
    def size(self) -> int:
        return len(self.calls) + len(self.episodes) + len(self.transcripts)

    def add(
        self,
        record: EpisodeRecord,
        calls: Collection[CallRecord],
        suite: type[Suite],
        transcripts: Collection[TranscriptLine] = (),
    ) -> int:
        """Add an episode with its calls and transcripts; returns by how many bytes it grew. Raises
        `TraceError` where the suite's metrics can't count it.
        """
        before, metrics = self.size, self.metrics or RunMetrics(suite)
        for line in transcripts:
            self.transcripts += orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
        try:
            for call in calls:
                self.calls += orjson.dumps(call, option=orjson.OPT_APPEND_NEWLINE)
                metrics.add(call)
            self.episodes += orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
            metrics.add(record)
        except SuiteError as error:
            raise TraceError(str(error)) from error
        self.metrics = metrics
        self.names.append(record.episode)
        self.tally.add(record)
        return self.size - before


class Pending(Generic[_T]):
    """The calls, or the transcripts, of episodes that have not ended. The gateway uses it as its
    `Trace`; episodes in flight are bounded, and so is what each has, so it is never full.
    """

    def __init__(self) -> None:
        self.failure: str | None = None
        self.full = self.blocked = False
        self._of: dict[str | None, list[_T]] = {}

    def put(self, record: _T) -> None:
        self._of.setdefault(record.episode, []).append(record)

    def of(self, episode: str) -> list[_T]:
        """What an episode has, which is forgotten here."""
        return self._of.pop(episode, [])

    async def room(self) -> None:
        return


class Collector:
    """Collects batches in memory until they are taken, for a driver that plays `suite`, with
    transcripts if they are wanted.

    `awaited` is how many of the episodes that the driver was given have not ended.
    """

    checkpoints = None
    failure = None

    def __init__(self, suite: type[Suite], *, is_transcribed: bool = False) -> None:
        self.awaited = 0
        self.about: Mapping[str, Any] = {}
        self.finished: set[str] = set()
        self.begun: Begun = {}
        self.unjudged: dict[str, EpisodeRecord] = {}
        self.calls = Pending[CallRecord]()
        self.transcripts = Pending[TranscriptLine]() if is_transcribed else None
        self._suite = suite
        self._batches: deque[Batch] = deque()
        self._waiting = 0
        self._changed = asyncio.Event()
        self._has_room = asyncio.Event()
        self._is_over = False

    @property
    def episodes(self) -> "Collector":
        return self

    async def begin(self, about: Mapping[str, Any]) -> None:
        self.about = about

    async def recorded(self, episode: str) -> EpisodeRecord:
        return self.unjudged.pop(episode)

    @property
    def full(self) -> bool:
        return self._waiting >= WAITING_BYTES

    async def room(self) -> None:
        while self.full:
            self._has_room.clear()
            await self._has_room.wait()

    def put(self, record: EpisodeRecord) -> None:
        """Raises `TraceError`."""
        was_empty = not self._batches
        if was_empty or self._batches[-1].size >= BATCH_BYTES:
            self._batches.append(Batch())
        calls, said = self.calls.of(record.episode), self.transcripts
        transcripts = said.of(record.episode) if said is not None else ()
        self._waiting += self._batches[-1].add(record, calls, self._suite, transcripts)
        self.begun.pop(record.episode, None)
        self.awaited -= 1
        if was_empty or self._is_enough:
            self._changed.set()

    def over(self) -> None:
        """Nothing more will come, so nobody need wait."""
        self._is_over = True
        self._changed.set()

    async def until_enough(self, most_s: float, linger_s: float) -> None:
        """Wait until a batch is full or no episode is left to wait for; else for `linger_s` after
        there is something, and at most for `most_s`.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + most_s
        while not self._is_enough:
            if self._batches:
                until = min(until, loop.time() + linger_s)
            self._changed.clear()
            try:
                async with asyncio.timeout_at(until):
                    await self._changed.wait()
            except TimeoutError:
                return

    @property
    def _is_enough(self) -> bool:
        is_full = bool(self._batches) and self._batches[0].size >= BATCH_BYTES
        return is_full or self._is_over or (bool(self._batches) and not self.awaited)

    def take(self) -> Batch:
        """The oldest batch; an empty one if there is none."""
        if not self._batches:
            return Batch()
        batch = self._batches.popleft()
        self._waiting -= batch.size
        self._has_room.set()
        return batch

    @property
    def is_taken(self) -> bool:
        return not self._batches
