"""A run directory: everything that a run leaves behind.

`calls.jsonl` and `episodes.jsonl` are append-only; `run.json` says what was run and, at the end,
how long it took; `metrics.json` holds the metrics so far and is replaced as a whole, never seen
half-written. A directory belongs to one run, and while that goes on to one process; one that
already holds something is refused, unless its run is to go on (`bench/resume.py`).
"""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
import orjson
from anyio import to_thread
from pydantic import TypeAdapter, ValidationError

from bench.metrics import RunMetrics
from bench.record import EpisodeRecord
from bench.resume import COMPARABLE, differences, settle
from gateway import CallRecord
from gateway.trace import JsonLines, TraceError
from manifests.problem import first_problem

METRICS_EVERY_S = 1.0

_CALL: TypeAdapter[CallRecord] = TypeAdapter(CallRecord)
_EPISODE: TypeAdapter[EpisodeRecord] = TypeAdapter(EpisodeRecord)
_Record = TypeVar("_Record")


class RunDirectoryError(Exception):
    """The directory can't be used, or a file in it can't be read; the text says which and why."""


class Stream:
    """A file of records that also feeds the metrics. A `Trace` for the gateway."""

    def __init__(self, lines: JsonLines, metrics: RunMetrics) -> None:
        self._lines = lines
        self._metrics = metrics
        self.room = lines.room
        self.written = lines.written

    @property
    def failure(self) -> str | None:
        return self._lines.failure

    @property
    def full(self) -> bool:
        return self._lines.full

    def put(self, record: EpisodeRecord | CallRecord) -> None:
        self._lines.put(record)
        self._metrics.add(record)


class RunDirectory:
    """Streams of one run. Made by `RunDirectory.open`."""

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self.path = path
        self.about = about
        self.metrics = RunMetrics()
        self._before: dict[str, Any] = {}
        self.finished: set[str] = set()
        self._streams: list[Stream] = []
        self._saving = asyncio.Lock()
        self.calls: Stream
        self.episodes: Stream

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        path: Path,
        about: dict[str, Any],
        *,
        resume: bool = False,
        failed_too: bool = False,
    ) -> AsyncIterator["RunDirectory"]:
        """Create `path`, or with `resume` go on with the run in it, until the context ends.

        `finished` names the episodes that are not owed any more; `failed_too` owes again those that
        failed through nobody but a quota or the gateway. Raises `RunDirectoryError` where `path`
        holds something else already or another process writes to it, `TraceError` where it can't be
        written.
        """
        run = cls(path, {**about, "ended": "interrupted"})
        with contextlib.ExitStack() as held:
            if resume:
                held.callback(os.close, await to_thread.run_sync(_locked, path))
                await to_thread.run_sync(run._take_up, failed_too)
            else:
                await to_thread.run_sync(run._create)
                held.callback(os.close, await to_thread.run_sync(_locked, path))
            async with run._open():
                yield run

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[None]:
        try:
            async with self._streaming():
                yield
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.save()
                await to_thread.run_sync(self._discard_if_empty)
            raise
        await self.save()

    @asynccontextmanager
    async def _streaming(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as parts:
            for name in ("calls", "episodes"):
                lines = await parts.enter_async_context(JsonLines.open(self.path / f"{name}.jsonl"))
                self._streams.append(Stream(lines, self.metrics))
            self.calls, self.episodes = self._streams
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
            if any(self.path.iterdir()):
                raise RunDirectoryError(f"{self.path} already holds something; name a new folder")
        except OSError as error:
            raise RunDirectoryError(f"{self.path}: {error.strerror}") from error

    def _take_up(self, failed_too: bool) -> None:
        """Go on with what is there."""
        try:
            self._before = orjson.loads((self.path / "run.json").read_bytes())
            if not isinstance(self._before, dict):
                raise ValueError("run.json is no JSON object")
            self.check_comparable()  # before anything is moved
            for name in ("calls.jsonl", "episodes.jsonl"):
                (self.path / name).touch()
            self.finished = settle(self.path, failed_too=failed_too).finished
        except (OSError, ValueError, KeyError, TypeError) as error:
            text = f"{self.path} holds no run that could go on: {error}"
            raise RunDirectoryError(text) from error
        # What is not known yet is as it was: a part that ends before it knows must not forget it.
        known = {name: self._before[name] for name in COMPARABLE if name in self._before}
        self.about = {**known, **self.about, "parts": self._before.get("parts", 1) + 1}
        for record in read_records(self.path):
            self.metrics.add(record)

    def check_comparable(self) -> None:
        """Raises `RunDirectoryError` where the run went on with other settings than it began."""
        if self._before and (differ := differences(self._before, self.about)):
            text = f"the run in {self.path} can't go on, its parts would not compare"
            self.about = self._before
            raise RunDirectoryError(f"{text}: {'; '.join(differ)}")

    def _discard_if_empty(self) -> None:
        """Give the name back when nothing was ever recorded under it."""
        if self._before or any(
            (self.path / f"{name}.jsonl").stat().st_size for name in ("calls", "episodes")
        ):
            return
        for name in ("calls.jsonl", "episodes.jsonl", "run.json", "metrics.json"):
            (self.path / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # it was there before, or something else is in it
            self.path.rmdir()

    async def save(self) -> None:
        """Replace `run.json` and `metrics.json`, which never tells of more than is on disk."""
        async with self._saving:
            texts = {"run.json": self.about, "metrics.json": self.metrics.result()}
            for stream in self._streams:
                await stream.written()
            for name, value in texts.items():
                text = orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
                try:
                    await to_thread.run_sync(_replace, self.path / name, text)
                except OSError as error:
                    raise TraceError(f"{self.path / name}: {error.strerror}") from None

    async def _save_repeatedly(self) -> None:
        while True:
            await asyncio.sleep(METRICS_EVERY_S)
            await self.save()


def _locked(path: Path) -> int:
    """The folder itself, locked while it is open. Raises `RunDirectoryError`."""
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


def _replace(path: Path, text: bytes) -> None:
    part = path.with_suffix(".part")
    part.write_bytes(text)
    os.replace(part, path)


def read_records(path: Path) -> Iterator[EpisodeRecord | CallRecord]:
    """Every record in a run directory, as it was streamed. A torn last line is left out.

    Raises `RunDirectoryError`.
    """
    yield from (call for call, _ in read_calls(path))
    yield from (episode for episode, _ in read_episodes(path))


def read_calls(path: Path) -> Iterator[tuple[CallRecord, int]]:
    """The calls in a run directory, each with its length there in bytes, as `read_records`."""
    return _read(path / "calls.jsonl", _CALL)


def read_episodes(path: Path) -> Iterator[tuple[EpisodeRecord, int]]:
    """The episodes in a run directory, as `read_calls`."""
    return _read(path / "episodes.jsonl", _EPISODE)


def _read(file: Path, kind: TypeAdapter[_Record]) -> Iterator[tuple[_Record, int]]:
    try:
        lines = file.open("rb")
    except OSError as error:
        raise RunDirectoryError(f"{file}: {error.strerror}") from error
    with lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                return
            try:
                yield kind.validate_json(line), len(line)
            except ValidationError as error:
                text = f"{file}:{number}: not a record: {first_problem(error)}"
                raise RunDirectoryError(text) from error
