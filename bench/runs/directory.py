"""A run directory: all files that a run writes.

`calls.jsonl` and `episodes.jsonl` are append-only. So are `checkpoints.jsonl` of a suite whose
sessions have a state, and `transcripts.jsonl`, which has what went to models and came from them.
`run.json` says what was run and, at the end, how long it took; `metrics.json` holds the metrics so
far. These two are replaced as a whole, so no reader sees them half-written. If a replacement fails,
the old file remains and the next save tries again. `run.json` says `complete` only once everything
else is on disk.

A directory belongs to one run, and to one process while the run goes on. A directory that already
holds something is refused, unless its run is to be resumed (`bench/runs/resume.py`). It may come
from someone else, so nothing is written through a link in it.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import orjson
from anyio import to_thread

from bench.json_lines import JsonLinesError
from bench.record import EpisodeRecord
from bench.runs.about import COMPLETE, INTERRUPTED, RunDirectoryError, RunInfo
from bench.runs.digest import digest_of
from bench.runs.metrics import RunMetrics
from bench.runs.reader import Run, episode_at
from bench.runs.resume import (
    ABANDONED,
    CHECKPOINTS,
    COMPARABLE,
    TRANSCRIPTS,
    UNJUDGED,
    Begun,
    Resuming,
    changed_around,
    changes,
    differences,
    outside_digests,
    settle,
)
from bench.suites.fintoolbench.suite import LabelledTasks
from bench.suites.suite import Suite, SuiteError
from gateway.trace import JsonLines, TraceError
from manifests.common.files import own_file, replaced_file, taken

__all__ = ["RunDirectory", "RunDirectoryError"]

METRICS_EVERY_S = 1.0
WRITTEN_S = 10.0
"""How long records may take to reach their file; at most half a megabyte of them waits."""

_STREAMS = ("calls", "episodes")
_OF_AN_EMPTY_RUN = ("calls.jsonl", "episodes.jsonl", CHECKPOINTS, TRANSCRIPTS, "metrics.json")

log = logging.getLogger("finport")


class RunDirectory:
    """Streams of one run. Made by `RunDirectory.open`.

    `unsaved` says why `run.json` and `metrics.json` are out of date; None while they are not.
    """

    def __init__(self, path: Path, about: RunInfo, suite: type[Suite]) -> None:
        self.path = path
        self.about = about
        self.metrics = RunMetrics(suite)
        self._before: RunInfo | None = None
        self.finished: set[str] = set()
        self.unsaved: str | None = None
        self.failed_saves = 0
        self.begun: Begun = {}
        self.interrupted = 0
        self.unjudged: dict[str, int] = {}
        self._streams: list[JsonLines] = []
        self._saving = asyncio.Lock()
        self.calls: JsonLines
        self.episodes: JsonLines
        self.checkpoints: JsonLines | None = None
        self.transcripts: JsonLines | None = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        path: Path,
        about: Mapping[str, Any],
        *,
        suite: type[Suite] = LabelledTasks,
        resuming: Resuming | None = None,
        named: Callable[[int], Collection[str]] | None = None,
        is_transcribed: bool = False,
    ) -> AsyncIterator["RunDirectory"]:
        """Create `path`, or go on with the run in it, until the context ends. The metrics are those
        of `suite`. `named` gives the names of the run's episodes if it was once to have so many;
        without it they may have any name. If the run `is_transcribed`, it has transcripts.

        `finished` names the episodes that need not be run any more, and `begun` has the checkpoints
        of those that were `interrupted`. Raises `RunDirectoryError` where `path` already holds
        something else, another process writes to it, or something was changed that is not to be
        accepted, and `TraceError` where it can't be written.
        """
        run = cls(path, RunInfo.of({**about, "ended": INTERRUPTED}), suite)
        with contextlib.ExitStack() as held:
            if resuming is None:
                await to_thread.run_sync(run._create)
            held.callback(_unlock, await to_thread.run_sync(_locked, path))
            if resuming is not None:
                await to_thread.run_sync(run._take_up, resuming, named)
            try:
                async with run._streaming(is_transcribed):
                    yield run
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await run._try_to_save()
                    await to_thread.run_sync(run._discard_if_empty)
                raise
            if run.about.ended != COMPLETE:
                await run.save()

    @asynccontextmanager
    async def _streaming(self, is_transcribed: bool) -> AsyncIterator[None]:
        async with AsyncExitStack() as parts:
            counts: tuple[Callable[[Any], None], ...] = (self.metrics.traffic.add, self._count)
            for name, count in zip(_STREAMS, counts, strict=True):
                opened = JsonLines.open(self.path / f"{name}.jsonl", is_hashed=True, count=count)
                self._streams.append(await parts.enter_async_context(opened))
            self.calls, self.episodes = self._streams
            if self.metrics.suite.moving_tools:
                opened = JsonLines.open(self.path / CHECKPOINTS, is_hashed=True)
                self.checkpoints = await parts.enter_async_context(opened)
                self._streams.append(self.checkpoints)
            if is_transcribed:
                opened = JsonLines.open(self.path / TRANSCRIPTS, is_hashed=True)
                self.transcripts = await parts.enter_async_context(opened)
                self._streams.append(self.transcripts)
            await self.save()
            saver = asyncio.create_task(self._save_repeatedly())
            try:
                yield
            finally:
                saver.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await saver

    def _create(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not _is_empty_run(self.path):
                raise taken(
                    self.path, "name a new folder; `finbench run --resume` goes on with a run"
                )
        except OSError as error:
            raise RunDirectoryError(f"{self.path}: {error.strerror}") from error

    def _take_up(self, resuming: Resuming, named: Callable[[int], Collection[str]] | None) -> None:
        """Go on with the run in the directory; begin one if nothing was recorded yet."""
        if _is_empty_run(self.path):
            return
        try:
            before = self._before = RunInfo.read(self.path)
            self.check_comparable()  # before anything is moved
            changed = [*changes(self.path, before), *changed_around(before, self.about)]
            if changed and not resuming.accept_changes:
                text = f"the run in {self.path} can't go on as it was: {'; '.join(changed)}"
                raise RunDirectoryError(f"{text}; --accept-changes goes on in spite of it")
            for name, count in outside_digests(self.path, before).items():
                text = "%s: %d lines are in no digest; whether they were altered can't be known"
                log.warning(text, self.path / name, count)
            moving = self.metrics.suite.moving_tools
            for name in (*_STREAMS, *(["checkpoints"] if moving else [])):
                open(self.path / f"{name}.jsonl", "ab", opener=own_file).close()
            # Without digests of files, which a kill from here on may leave as they will be.
            interrupted = before.updated({"ended": INTERRUPTED, "files": {}})
            _replace(self.path / "run.json", _json(interrupted.content))
            settled = settle(
                self.path,
                failed_too=resuming.failed_too,
                is_judged=before.judge not in ("", "none"),
                has_checkpoints=bool(moving),
                planned=named(before.episodes) if named is not None else None,
            )
        except (OSError, JsonLinesError) as error:
            why: object = error
            if isinstance(error, OSError):
                why = f"{error.filename or 'a file in it could not be written'}: {error.strerror}"
            raise RunDirectoryError(f"the run in {self.path} can't go on: {why}") from error
        self.finished, self.begun = settled.finished, settled.begun
        self.interrupted, self.unjudged = settled.interrupted, settled.unjudged
        if settled.strange:
            text = "%d records in %s that are not of this run or there twice were moved to %s"
            log.warning(text, settled.strange, self.path, ABANDONED)
        if named is not None and (beyond := len(self.finished - set(named(0)))):
            text = "%d episodes in %s are beyond the %d that are asked for; they stay and count"
            log.warning(text, beyond, self.path, self.about.episodes)
        # A part may end before it knows these values, so it starts with those of the part before.
        names = (*COMPARABLE, "prices")
        known = {name: before.content[name] for name in names if name in before.content}
        now = {**known, **self.about.content, "parts": before.parts + 1}
        if accepted := [*before.accepted, *changed]:
            now["accepted"] = accepted
        self.about = RunInfo.of(now)
        for record in Run(self.path, before).records():
            self.metrics.add(record)

    async def recorded(self, episode: str) -> EpisodeRecord:
        """The record of an `unjudged` episode. Raises `RunDirectoryError`."""
        place = self.unjudged[episode]
        return await to_thread.run_sync(episode_at, self.path / UNJUDGED, place)

    async def begin(self, about: Mapping[str, Any]) -> None:
        """Note where answers come from. Raises as `check_comparable` and `save`."""
        self.about = self.about.updated(about)
        self.check_comparable()
        await self.save()

    def check_comparable(self) -> None:
        """Raises `RunDirectoryError` if the resumed run has other settings than it began with."""
        if self._before and (differ := differences(self._before, self.about)):
            text = f"the run in {self.path} can't go on, its parts would not compare"
            self.about = self._before
            raise RunDirectoryError(f"{text}: {'; '.join(differ)}")

    def _discard_if_empty(self) -> None:
        """Delete the directory if nothing was ever recorded in it."""
        with contextlib.suppress(OSError):  # the folder existed before or holds other files
            if self._before or any(
                (self.path / f"{name}.jsonl").stat().st_size for name in _STREAMS
            ):
                return
            for name in (*_OF_AN_EMPTY_RUN, "run.json"):
                (self.path / name).unlink(missing_ok=True)
            for part in self.path.glob("*.part"):
                part.unlink()
            self.path.rmdir()

    def _count(self, record: EpisodeRecord) -> None:
        """Raises `TraceError`."""
        try:
            self.metrics.add(record)
        except SuiteError as error:
            raise TraceError(str(error)) from error

    def take_in(
        self, calls: bytes, episodes: bytes, metrics: RunMetrics, transcripts: bytes = b""
    ) -> None:
        """Add records that another process has encoded and counted. Raises `TraceError`."""
        if self.transcripts is not None and transcripts:
            self.transcripts.put_lines(transcripts)
        self.calls.put_lines(calls)
        self.episodes.put_lines(episodes)
        try:
            self.metrics.merge(metrics)
        except SuiteError as error:
            raise TraceError(str(error)) from error

    async def save(self) -> None:
        """Replace `run.json` and `metrics.json`, which covers only records that are on disk. Raises
        `TraceError`; then the old files remain whole.
        """
        async with self._saving:
            await self._save(self.about)

    async def complete(self, figures: Mapping[str, Any]) -> None:
        """End the run: write `figures`, the digest of what is on disk and that the run is complete
        into `run.json`. Raises `TraceError`; then the run is not complete.
        """
        async with self._saving:
            await self._written()
            digest = await to_thread.run_sync(self._checked)
            ended = {**figures, "ended": COMPLETE, "digest": digest}
            if self.failed_saves:
                ended["failed_saves"] = self.failed_saves
            about = self.about.updated(ended)
            await self._save(about)
            self.about = about
            with contextlib.suppress(OSError):  # all that waited there was judged
                await to_thread.run_sync((self.path / UNJUDGED).unlink)

    async def _save(self, about: RunInfo) -> None:
        """Write both files, `run.json` last, so that what it says is true of the other."""
        try:
            metrics = self.metrics.result()
        except SuiteError as error:
            raise TraceError(str(error)) from error
        await self._written()
        files = {}
        for stream in self._streams:
            size, digest = stream.content
            files[stream.path.name] = {"bytes": size, "digest": digest}
        answered_by = self.metrics.usage.answered_by
        said = {"answered_by": answered_by} if answered_by else {}
        run = {**about.content, **said, "files": files}
        for name, value in (("metrics.json", metrics), ("run.json", run)):
            try:
                await to_thread.run_sync(_replace, self.path / name, _json(value))
            except OSError as error:
                self.unsaved = f"{self.path / name}: {error.strerror}"
                raise TraceError(self.unsaved) from None
        self.unsaved = None

    async def _written(self) -> None:
        """Wait until all records put so far are in their files. Raises `TraceError`."""
        try:
            async with asyncio.timeout(WRITTEN_S):
                for stream in self._streams:
                    await stream.written()
        except TimeoutError:
            self.unsaved = f"{self.path}: records could not be written within {WRITTEN_S:g} s"
            raise TraceError(self.unsaved) from None

    def _checked(self) -> str:
        """The digest of what is on disk, after a check that all records are there. Raises
        `TraceError`.
        """
        put = {
            "calls": self.metrics.traffic.latency_ms.count,
            "episodes": self.metrics.episodes,
        }
        try:
            for name in _STREAMS:
                with (self.path / f"{name}.jsonl").open("rb") as file:
                    os.fsync(file.fileno())
            digest, written = digest_of(self.path)
        except (OSError, RunDirectoryError) as error:
            raise TraceError(f"{self.path}: {error}") from error
        for name in _STREAMS:
            if written[name] != put[name]:
                lost = f"holds {written[name]} of {put[name]} records"
                raise TraceError(f"{self.path / name}.jsonl {lost}")
        return digest

    async def _try_to_save(self) -> None:
        """Save, and leave a failure to the next save; only the first of several is logged."""
        was_saved = self.unsaved is None
        try:
            await self.save()
        except TraceError as error:
            self.failed_saves += 1
            if was_saved:
                log.warning("%s; it stays what it was, and is tried again", error)

    async def _save_repeatedly(self) -> None:
        while True:
            await asyncio.sleep(METRICS_EVERY_S)
            await self._try_to_save()


def _is_empty_run(path: Path) -> bool:
    """Whether a folder holds at most what a run leaves that ended before its first record."""
    return all(
        (file.name in _OF_AN_EMPTY_RUN or file.suffix == ".part")
        and file.is_file()
        and (file.suffix != ".jsonl" or not file.stat().st_size)
        for file in path.iterdir()
    )


def _locked(path: Path) -> int:
    """A descriptor of the folder, which is locked while it is open. Raises `RunDirectoryError`."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise RunDirectoryError(f"{path}: {error.strerror}") from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(folder)
        raise RunDirectoryError(f"another process writes to {path}") from None
    return folder


def _unlock(folder: int) -> None:
    with contextlib.suppress(OSError):  # an agent may have closed it
        os.close(folder)


def _json(value: Mapping[str, Any]) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _replace(path: Path, text: bytes) -> None:
    with replaced_file(path) as file:
        file.write(text)
