"""A run directory: everything that a run leaves behind.

`calls.jsonl` and `episodes.jsonl` are append-only; `run.json` says what was run and, at the end,
how long it took; `metrics.json` holds the metrics so far and is replaced as a whole, never seen
half-written. A directory belongs to one run: one that already holds something is refused.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import orjson
from anyio import to_thread
from pydantic import TypeAdapter, ValidationError

from bench.metrics import RunMetrics
from bench.record import EpisodeRecord
from gateway import CallRecord
from gateway.trace import JsonLines, TraceError

METRICS_EVERY_S = 1.0

_CALL: TypeAdapter[CallRecord] = TypeAdapter(CallRecord)
_EPISODE: TypeAdapter[EpisodeRecord] = TypeAdapter(EpisodeRecord)


class RunDirectoryError(Exception):
    """The directory can't be used, or a file in it can't be read; the text says which and why."""


class Stream:
    """A file of records that also feeds the metrics. A `Trace` for the gateway."""

    def __init__(self, lines: JsonLines, metrics: RunMetrics) -> None:
        self._lines = lines
        self._metrics = metrics
        self.room = lines.room

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
        self.calls: Stream
        self.episodes: Stream

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path, about: dict[str, Any]) -> AsyncIterator["RunDirectory"]:
        """Create `path` and write into it until the context ends.

        Raises `RunDirectoryError` where it holds something already, `TraceError` where it can't be
        written.
        """
        run = cls(path, {**about, "ended": "interrupted"})
        await to_thread.run_sync(run._create)
        try:
            async with run._streaming():
                yield run
        except BaseException:
            with anyio.CancelScope(shield=True):
                await run.save()
                await to_thread.run_sync(run._discard_if_empty)
            raise
        await run.save()

    @asynccontextmanager
    async def _streaming(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as parts:
            for name in ("calls", "episodes"):
                lines = await parts.enter_async_context(JsonLines.open(self.path / f"{name}.jsonl"))
                setattr(self, name, Stream(lines, self.metrics))
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

    def _discard_if_empty(self) -> None:
        """Give the name back when nothing was recorded under it."""
        if any((self.path / f"{name}.jsonl").stat().st_size for name in ("calls", "episodes")):
            return
        for name in ("calls.jsonl", "episodes.jsonl", "run.json", "metrics.json"):
            (self.path / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # it was there before, or something else is in it
            self.path.rmdir()

    async def save(self) -> None:
        """Replace `run.json` and `metrics.json`."""
        texts = {"run.json": self.about, "metrics.json": self.metrics.result()}
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


def _replace(path: Path, text: bytes) -> None:
    part = path.with_suffix(".part")
    part.write_bytes(text)
    os.replace(part, path)


def read_records(path: Path) -> Iterator[EpisodeRecord | CallRecord]:
    """Every record in a run directory, as it was streamed. A torn last line is left out.

    Raises `RunDirectoryError`.
    """
    for name, kind in (("calls", _CALL), ("episodes", _EPISODE)):
        file = path / f"{name}.jsonl"
        try:
            lines = file.open("rb")
        except OSError as error:
            raise RunDirectoryError(f"{file}: {error.strerror}") from error
        with lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith(b"\n"):
                    break
                try:
                    yield kind.validate_json(line)
                except ValidationError as error:
                    first = error.errors(include_url=False, include_input=False)[0]
                    text = f"{'.'.join(map(str, first['loc']))} {first['msg']}".strip()
                    raise RunDirectoryError(f"{file}:{number}: not a record: {text}") from error
