"""Scores recorded episodes: a run directory, or a trace from any source.

Records are streamed: at most `IN_FLIGHT` episodes are held, whatever the size of the file, and the
output keeps the order of the input.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from anyio import to_thread

from bench.json_lines import IncompleteLineError
from bench.judges.judging import Judging
from bench.judges.registry import JudgeSettings
from bench.models.transcript import TRANSCRIPT, Transcript
from bench.own import words_of
from bench.record import EpisodeRecord
from bench.runs.about import COMPLETE
from bench.runs.digest import run_digest
from bench.runs.directory import RunDirectory
from bench.runs.metrics import JUDGE, Breakdown, RunMetrics
from bench.runs.output import check_outside, made_from
from bench.runs.reader import Run
from bench.runs.resume import ENDPOINT, TRANSCRIPTS
from bench.runs.transcripts import agents_lines
from bench.suites.suite import Suite, Traced
from gateway import CallRecord
from gateway.trace import JsonLines, TraceError

IN_FLIGHT = 64
"""The most episodes that are judged at once."""

CALLS_AT_ONCE = 256  # this many take 1 ms; then the event loop runs other tasks


class Gold:
    """A suite's labels and gold answers, for traces that lack them.

    A task of `suite` is found by its id if the question is the same, else by its question, since
    ids in other files may count differently. `filled` counts the episodes whose task was found.
    """

    def __init__(self, suite: Suite) -> None:
        self.filled = 0
        self.suite = suite
        self._by_id = {task.id: task for task in suite.tasks}
        self._by_question = {task.question.strip(): task for task in suite.tasks}

    def fill(self, record: EpisodeRecord) -> None:
        """Set what the record lacks: question, gold answer, category, difficulty, labels."""
        question = record.question.strip()
        task = self._by_id.get(record.id)
        if question and (task is None or task.question.strip() != question):
            task = self._by_question.get(question)
        if task is None:
            return
        self.filled += 1
        record.question = record.question or task.question
        record.ground_truth = record.ground_truth or task.answer
        record.category = record.category or task.category
        record.source_dataset = record.source_dataset or task.source_dataset or self.suite.name
        record.difficulty = record.difficulty or task.difficulty
        if not record.labelled_tools:
            record.labelled_tools = [call.name for call in task.tools]
        if record.labelled_tools == [call.name for call in task.tools]:
            record.labelled_arguments = record.labelled_arguments or self.suite.arguments_of(task)


class Episodes:
    """The episodes of a trace file. Once they are read, `typed` says whether every outcome was
    recorded rather than guessed, and `incomplete` whether the last line was left out.
    """

    def __init__(self, traces: Iterator[Traced]) -> None:
        """`traces` are from `Suite.traces`; where no tasks are known, from `read_traces`."""
        self.typed = True
        self.incomplete: IncompleteLineError | None = None
        self._traces = traces

    def __iter__(self) -> Iterator[EpisodeRecord]:
        """Raises `TraceFormatError`."""
        try:
            for traced in self._traces:
                self.typed &= traced.typed
                yield traced.record
        except IncompleteLineError as error:
            self.incomplete = error


async def score_records(
    suite: type[Suite],
    records: Iterable[EpisodeRecord | CallRecord],
    judging: Judging | None = None,
    *,
    keep: bool = True,
    gold: Gold | None = None,
    out: JsonLines | None = None,
    items: JsonLines | None = None,
    run: RunDirectory | None = None,
    groups: Breakdown | None = None,
) -> RunMetrics:
    """The metrics of `records`, which also go into the new `run`; its episodes also go to `out`,
    the suite's verdict on each to `items`, and its metrics by group to `groups`.

    With `keep`, existing judgements stay and `judging` judges the other episodes. Without it, every
    episode is judged anew; if there is no judge, none has a judgement. Raises what reading
    `records` raises, and `TraceError` where `out` can't be written.
    """
    metrics = RunMetrics(suite) if run is None else run.metrics
    in_work: deque[asyncio.Task[EpisodeRecord]] = deque()

    async def settle() -> None:
        record = await in_work[0]
        in_work.popleft()
        if run is None:
            metrics.add(record)
        if groups is not None:
            groups.add(record)
        await _put(record, record.episode, None if run is None else run.episodes)
        await _put(record, record.episode, out)
        if items is not None:
            await _put(suite.item(record), record.episode, items)

    try:
        for number, record in enumerate(records):
            if isinstance(record, CallRecord):
                if run is None:
                    metrics.add(record)
                await _put(record, record.call_id, None if run is None else run.calls)
                if number % CALLS_AT_ONCE == 0:
                    await asyncio.sleep(0)
                continue
            if gold is not None:
                gold.fill(record)
            if len(in_work) == IN_FLIGHT:
                await settle()
            transcripts = None if run is None else run.transcripts
            in_work.append(asyncio.create_task(_judged(record, judging, keep, transcripts)))
        while in_work:
            await settle()
    finally:
        for task in in_work:
            task.cancel()
        await asyncio.gather(*in_work, return_exceptions=True)
    return metrics


async def _put(line: Any, name: str, out: JsonLines | None) -> None:
    if out is None:
        return
    try:
        out.put(line)
    except TypeError as error:  # a record from elsewhere may hold what can't be written here
        raise TraceError(f"{out.path}: {name}: {error}") from error
    if out.full:
        await out.room()


async def _judged(
    record: EpisodeRecord, judging: Judging | None, keep: bool, transcripts: JsonLines | None
) -> EpisodeRecord:
    if not keep or record.judgement is None:
        record.judgement = None
        transcript = Transcript()
        TRANSCRIPT.set(transcript if transcripts is not None else None)
        if judging is not None:
            try:
                record.judgement = await judging.judged(record)
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # noqa: BLE001 - a user's judge may raise anything
                record.judgement = judging.failure(record, words_of(error))
        if transcript:
            line = transcript.line(record.episode, record.started_at, "judge")
            await _put(line, record.episode, transcripts)
    return record


@asynccontextmanager
async def judged_again(
    run: Run, judge: JudgeSettings, judging: Judging | None, suite: type[Suite], out: Path
) -> AsyncIterator[RunDirectory]:
    """A new run directory for the records of a run with the judgements of `judging`. `run.json` has
    the digest of that run as `judged_again`. Raises `RunDirectoryError` and `TraceError`.
    """
    check_outside(run.path, out)
    of_judge = ("judge", ENDPOINT, "judge_s", "judge_repeats", "judge_key", "answered_by")
    about = {name: value for name, value in run.about.content.items() if name not in of_judge}
    digest = await to_thread.run_sync(run_digest, run.path)
    about |= {**judge.about(), "judged_again": digest}
    if changed := await to_thread.run_sync(run.changed, digest):
        about["accepted"] = [*run.about.accepted, changed]
    is_transcribed = judge.needs_model or (run.path / TRANSCRIPTS).exists()
    opened = RunDirectory.open(out, about, suite=suite, is_transcribed=is_transcribed)
    async with opened as made:
        if made.transcripts is not None:
            for line in agents_lines(run.path):
                made.transcripts.put(line)
                if made.transcripts.full:
                    await made.transcripts.room()
        yield made
        errors = {name: text for name, text in run.about.first_errors.items() if name != JUDGE}
        if judging is not None and judging.first_error:
            errors[JUDGE] = judging.first_error
        figures = {
            "judged": judging.asked if judging else 0,
            "failed_judgements": judging.failed if judging else 0,
            "first_errors": errors,
        }
        if run.about.ended == COMPLETE:
            await made.complete(figures)
        else:
            made.about = made.about.updated(figures)


@asynccontextmanager
async def written(file: Path, source: Path, *, force: bool) -> AsyncIterator[JsonLines]:
    """A file of records made from the run or trace `source`. It gets its name once it is complete,
    with `force` in place of a file of that name. Raises `RunDirectoryError`, `TraceError` and
    `OSError`.
    """
    with made_from(source, file, force=force) as part:
        async with JsonLines.open(Path(part.name)) as lines:
            yield lines
