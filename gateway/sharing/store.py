"""Redis as several gateways share it: commands in pipelines, and what to do while it is away.

- Commands that wait at the same time are sent together. Reads and writes of answers have a
  connection each (`reads`, `writes`), so that large ones do not delay leases and beats (`short`).
- Redis that does not answer within `LIMIT_S` is away. Until a beat reaches it again, every command
  fails at once with `Away`, so its callers go on without it.
- Redis that takes longer than `SLOW_S` for a beat is slow. Until a beat is quick again, the `quick`
  commands, for which calls wait, fail so too. The others go on.
- Times are those of the Redis server. Keys of one script share a hash tag, so they also work in a
  cluster.
- Every gateway beats twice a second: it says that it is there, and learns how many there are.
"""

import asyncio
import contextlib
import logging
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any
from zlib import crc32

import anyio

from gateway.sharing.connection import (
    ANSWER_S,
    Command,
    Execute,
    address_of,
    connected,
    is_late,
)
from manifests.common.clock import Clock

log = logging.getLogger("finport")

LIMIT_S = 1.5
"""How long a batch of commands may take; a connection gives up a little sooner."""

LATE_S = 1.1 * ANSWER_S
"""A timeout that is noticed later than this says that this process was busy, not that Redis was."""

SLOW_S = 0.2
SLOW_BEATS = 2
"""How many slow beats, one after the other, tell a slow Redis from a busy moment."""

BEAT_S = 0.5
GONE_MS = 5_000
"""After how many milliseconds without a beat a gateway counts as gone."""

BATCH = 256
BATCH_BYTES = 8 * 2**20
MOST_WAITING = 20_000
"""Commands that may wait to be sent."""

MOST_COUNTS = 100

BUCKETS = 64

_SCRIPTS = {file.stem: file.read_text() for file in Path(__file__).parent.glob("scripts/*.lua")}


class StoreError(Exception):
    """Redis refused a command: it is read-only, full, or may not be used so."""


class Away(StoreError):
    """Redis does not answer."""


@dataclass(frozen=True, slots=True)
class Beat:
    """What a gateway learned with a beat. `epoch` tells an emptied Redis from the one before."""

    gateways: int = 1
    epoch: int = 0
    clients_version: str = "0"


class SharedStore:
    """Redis, for one event loop. Made by `SharedStore.open`.

    `name` is this process among all that share the Redis. `clock` has the server's time of day;
    until the server was asked, that of the own clock.
    """

    def __init__(self, address: str, prefix: str, own: Clock) -> None:
        self.address = address
        self.name = token_hex(8)
        self.prefix = prefix
        self.last = Beat()
        self.failures: Counter[str] = Counter()
        self.counts: Mapping[str, int] = {}
        """What this gateway has counted; beats add it to the counts of all."""
        self._told: Counter[str] = Counter()
        self._listeners: list[Callable[[Beat, Beat], None]] = []
        self._lanes: dict[str, _Lane] = {}
        self._own = own
        self._offset_s: float | None = None
        self.clock = Clock(self.wall, own.passed)
        self._away: str | None = "it was not asked yet"
        self._slow_beats = 0
        self._is_slow = False
        self._is_told = False
        self._refusal: str | None = None
        self._closing = asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def open(
        cls, url: str, prefix: str = "finport", *, beats: bool = True, clock: Clock | None = None
    ) -> AsyncIterator["SharedStore"]:
        """Ask Redis once, and go on even if it is away. Without `beats` it is not counted as a
        gateway. Raises `ValueError` for a URL that is none.
        """
        store = cls(address_of(url), prefix, clock or Clock())
        async with (
            connected(url) as short,
            connected(url) as reads,
            connected(url) as writes,
        ):
            ways = {"short": short, "reads": reads, "writes": writes}
            store._lanes = {name: _Lane(store, name, way) for name, way in ways.items()}
            tasks = [asyncio.create_task(lane.run()) for lane in store._lanes.values()]
            await store._beat(counted=beats)
            if store._slow_beats and not store.is_away:  # connecting takes longer
                await store._beat(counted=beats)
            tasks.append(asyncio.create_task(store._beat_often(counted=beats)))
            try:
                yield store
            finally:
                store._closing.set()
                with anyio.CancelScope(shield=True):
                    if beats:
                        with contextlib.suppress(StoreError):
                            await store.run("leave", [store.key("gateways")], [store.name])
                    for lane in store._lanes.values():
                        lane.close()
                    _, late = await asyncio.wait(tasks, timeout=3 * LIMIT_S)
                    for task in late:
                        task.cancel()
                    await asyncio.wait(tasks, timeout=LIMIT_S)

    @property
    def gateways(self) -> int:
        """How many gateways there are, as far as is known; at least this one."""
        return max(self.last.gateways, 1)

    @property
    def trouble(self) -> str | None:
        """Why Redis can't be used, or not be written to; None if it can."""
        if self._away is not None:
            return f"Redis at {self.address} is away: {self._away}"
        if self._refusal is not None:
            return f"Redis at {self.address} refuses writes: {self._refusal}"
        if self._is_slow:
            return f"Redis at {self.address} is slow: it takes over {SLOW_S:g} s to answer"
        return None

    @property
    def readiness(self) -> str:
        """`ok`, `away`, `slow` or `refuses writes`: for everybody, so without an address."""
        if self._away is not None:
            return "away"
        if self._refusal is not None:
            return "refuses writes"
        return "slow" if self._is_slow else "ok"

    @property
    def is_away(self) -> bool:
        return self._away is not None

    def wall(self) -> float:
        """The server's Unix time. While it is away, by the time that has passed since; before it
        was first asked, by the own clock.
        """
        return self._own.wall() if self._offset_s is None else self._own.passed() + self._offset_s

    def key(self, *names: str, tag: str = "") -> str:
        """A key; those of one `tag` are in one slot of a cluster."""
        tagged = f"{self.prefix}:{tag}" if tag else self.prefix
        return ":".join((f"{{{tagged}}}", *names))

    def on_change(self, listener: Callable[[Beat, Beat], None]) -> None:
        """Call `listener` with the beat before and the beat now whenever they differ."""
        self._listeners.append(listener)

    async def ask(
        self, *command: Any, lane: str = "short", quick: bool = False, forced: bool = False
    ) -> Any:
        """Send a command and return its answer. Raises `Away`, if it is `quick` also where Redis is
        slow, and `StoreError`. A `forced` one is sent even while Redis is away.
        """
        if self._away is not None and not forced:
            self.failures["away"] += 1
            raise Away(self._away)
        if quick and self._is_slow:
            self.failures["slow"] += 1
            raise Away("it is slow")
        answer = await self._lanes[lane].put(command)
        if isinstance(answer, Exception):
            self.failures["refused"] += 1
            raise StoreError(str(answer)) from None
        return answer

    async def counts_of_all(self) -> dict[str, int]:
        """What all gateways have counted since this Redis was empty. Raises `StoreError`."""
        said = await self.ask("HGETALL", self.key("counts"), quick=True)
        pairs = said.items() if isinstance(said, dict) else zip(said[::2], said[1::2], strict=True)
        return {name.decode(): int(number) for name, number in pairs}

    async def run(
        self,
        name: str,
        keys: Sequence[str],
        arguments: Iterable[Any] = (),
        lane: str = "short",
        *,
        quick: bool = False,
        forced: bool = False,
    ) -> Any:
        """Run a script, as `ask`."""
        command = ("EVAL", _SCRIPTS[name], len(keys), *keys, *arguments)
        return await self.ask(*command, lane=lane, quick=quick, forced=forced)

    def tell(self, name: str, keys: Sequence[str], arguments: Iterable[Any] = ()) -> None:
        """Run a script after all that was sent before it, where nobody can wait for that. It is
        lost if Redis is away or slow.
        """
        if self._away is None and not self._is_slow:
            command = ("EVAL", _SCRIPTS[name], len(keys), *keys, *arguments)
            with contextlib.suppress(Away):
                self._lanes["short"].put(command).add_done_callback(_unread)

    def gone(self, error: BaseException) -> None:
        """Take Redis for away from now on."""
        text = str(error) or type(error).__name__
        if not self._is_told:
            log.warning("Redis at %s is away: %s", self.address, text)
        self._is_told = True
        self.failures["lost"] += 1
        self._away = text

    async def _beat_often(self, *, counted: bool) -> None:
        while not self._closing.is_set():
            with anyio.move_on_after(BEAT_S):
                await self._closing.wait()
            if not self._closing.is_set():
                await self._beat(counted=counted)

    async def _beat(self, *, counted: bool) -> None:
        counts = {name: n - self._told[name] for name, n in [*self.counts.items()][:MOST_COUNTS]}
        names = ("gateways", "epoch", "clients_version", "counts")
        keys = [self.key(name) for name in names]
        pairs = [part for pair in counts.items() if pair[1] for part in pair]
        loop, began = asyncio.get_running_loop(), self._own.passed()
        due = loop.time() + SLOW_S
        timer = loop.call_at(due, self._note_slow, due)
        try:
            if counted:
                said = await self.run("beat", keys, [self.name, GONE_MS, *pairs], forced=True)
            else:
                seconds, micros = await self.ask("TIME", forced=True)
                said = [int(seconds) * 10**6 + int(micros), 1, b"0", b"0"]
            now = Beat(max(int(said[1]), 1), int(said[2]), said[3].decode(errors="replace"))
            offset_s = int(said[0]) / 1e6 - (began + self._own.passed()) / 2
        except Away:
            return
        except Exception as error:  # noqa: BLE001 - an answer may be anything, and beats go on
            self._present(due)
            if self._refusal is None:
                log.warning("Redis at %s refuses writes: %s", self.address, error)
            self._refusal = str(error)[:200]
            return
        finally:
            timer.cancel()
        self._told.update(counts)
        self._offset_s = offset_s
        self.clock.follow()
        self._present(due)
        if self._refusal is not None and counted:
            log.warning("Redis at %s takes writes again", self.address)
            self._refusal = None
        before, self.last = self.last, now
        if before != now:
            for listener in self._listeners:
                listener(before, now)

    def _note_slow(self, due: float) -> None:
        """A beat has no answer by the loop's time `due`."""
        if asyncio.get_running_loop().time() - due > SLOW_S / 2:
            return  # this process was too busy to read it
        self._slow_beats += 1
        if not self._is_slow and self._slow_beats >= SLOW_BEATS:
            self._is_slow = True
            if not self._is_told:
                log.warning("Redis at %s is slow; calls don't wait for it", self.address)

    def _present(self, due: float) -> None:
        """A beat was answered, which was slow after the loop's time `due`."""
        if self._away is not None and self._is_told:
            log.warning("Redis at %s is back", self.address)
        self._away, self._is_told = None, False
        if asyncio.get_running_loop().time() < due:
            self._slow_beats = 0
            if self._is_slow:
                log.warning("Redis at %s is quick again", self.address)
            self._is_slow = False


class Places:
    """The keys in Redis of the calls of one cache. Each is in one of `BUCKETS` buckets, by a hash.

    The keys of a bucket share a hash tag, so a cluster spreads buckets over its servers and a
    script finds all that it needs on one of them.
    """

    def __init__(self, store: SharedStore, cache_name: str) -> None:
        self._store = store
        self._cache_name = cache_name

    def of(self, kind: str, key: str = "") -> str:
        """The key of what `kind` names, of the call with that key."""
        return self.of_bucket(kind, self.bucket_of(key), key)

    def of_bucket(self, kind: str, bucket: int, key: str = "") -> str:
        """As `of`, of a bucket."""
        return self._store.key(kind, key, tag=f"{self._cache_name}:{bucket}")

    def bucket_of(self, key: str) -> int:
        """The bucket of a call."""
        return crc32(key.encode()) % BUCKETS


def _unread(answer: asyncio.Future[Any]) -> None:
    """Take note of an answer that nobody waits for."""
    if not answer.cancelled():
        answer.exception()


def _is_once(command: Command) -> bool:
    return command[:2] == ("EVAL", _SCRIPTS["post"])


class _Lane:
    """Commands that are sent over one connection, as many at a time as wait."""

    def __init__(self, store: SharedStore, name: str, execute: Execute) -> None:
        self._store = store
        self._has_answers = name != "short"
        self._execute = execute
        self._waiting: deque[tuple[Command, asyncio.Future[Any]]] = deque()
        self._asked = asyncio.Event()
        self._closing = False

    def put(self, command: Command) -> asyncio.Future[Any]:
        """Raises `Away`."""
        if self._closing or len(self._waiting) >= MOST_WAITING:
            raise Away("the gateway is closing" if self._closing else "too many commands wait")
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((command, answer))
        self._asked.set()
        return answer

    def close(self) -> None:
        self._closing = True
        self._asked.set()

    async def run(self) -> None:
        """Send what waits until the lane closes. Nobody cancels this task, as redis-py may lose a
        cancellation.
        """
        while self._waiting or not self._closing:
            await self._asked.wait()
            self._asked.clear()
            batch = self._batch()
            if self._waiting:
                self._asked.set()
            if not batch:
                continue
            began = time.monotonic()
            try:
                answers = await self._send([command for command, _ in batch])
            except Exception as error:  # noqa: BLE001 - whatever the library raises, Redis is away
                if isinstance(error, TimeoutError) and time.monotonic() - began > LATE_S:
                    self._store.failures["late"] += 1  # this process was too busy to read
                else:
                    if self._has_answers and isinstance(error, TimeoutError):
                        self._store.failures["late"] += 1  # they may be too large; beats know more
                    else:
                        self._store.gone(error)
                    while self._waiting:  # these would wait as long again
                        batch.append(self._waiting.popleft())
                for _, answer in batch:
                    if not answer.done():
                        answer.set_exception(Away(str(error) or type(error).__name__))
                continue
            for (_, answer), said in zip(batch, answers, strict=True):
                if not answer.done():
                    answer.set_result(said)

    async def _send(self, commands: list[Command]) -> list[Any]:
        """The answers. Commands on a connection that was closed are sent once more, over a new one,
        except those that may not be done twice.
        """
        try:
            async with asyncio.timeout(LIMIT_S):
                return await self._execute(commands)
        except TimeoutError:
            raise
        except Exception as error:  # noqa: BLE001 - the library raises errors of its own
            if is_late(error):
                raise TimeoutError(str(error)) from None
            async with asyncio.timeout(LIMIT_S):
                again = [command for command in commands if not _is_once(command)]
                answers = iter(await self._execute(again) if again else [])
                lost = StoreError("the connection was closed before the answer came")
                return [lost if _is_once(command) else next(answers) for command in commands]

    def _batch(self) -> list[tuple[Command, asyncio.Future[Any]]]:
        batch: list[tuple[Command, asyncio.Future[Any]]] = []
        size = 0
        while self._waiting and len(batch) < BATCH and size < BATCH_BYTES:
            command, answer = self._waiting.popleft()
            if answer.done():  # its caller has left
                continue
            size += sum(len(part) for part in command if isinstance(part, bytes | str))
            batch.append((command, answer))
        return batch
