"""The head: leases the episodes of a run to players and takes in what they give.

It is the only process that writes to the run directory. It keeps as many players as the cluster has
CPUs. What a player gave is taken in as a whole, between two steps of the event loop, and only while
the player holds its leases. So each episode is recorded once.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from math import ceil, inf
from typing import Any

import anyio

from bench.engines.cluster import Cluster, EngineError
from bench.engines.leases import MOST_LOSSES, Holder, Leases
from bench.engines.player import Handover, Leased, Opened, Player, software
from bench.engines.work import Work
from bench.record import Ending
from bench.runs.directory import RunDirectory
from bench.runs.driver import CLOSING_S, Owed, owed
from bench.runs.episode import begun, end, name_of
from bench.runs.live import HostStates
from bench.runs.metrics import Tally

log = logging.getLogger("finport")

LOOK_S = 1.0
"""How often the head looks how many CPUs the cluster has."""

OPEN_S = 300.0
"""How long the head waits for the first player."""

LINGER_S = 0.1
"""How long a player collects episodes after the first one that ended."""

LINGER_EACH_S = 0.01
"""The same for each player: the head takes in at most 100 batches a second that are not full."""

SILENCE_S = 60.0
"""A player is lost that says nothing for so long and the time of an episode."""

AHEAD_S = 0.5
"""A player is leased what it plays in this time beyond what it can play at once: it takes some time
until it gets more. What waits with one player can't be played by another.
"""

MOST_AHEAD = 10_000

END_S = 15.0
"""How long players have to end in order."""

HOSTS_S = 2.0

IDLE_S = 0.05
"""How long a player without episodes waits after a change before it asks for some again."""

MOST_FAILED_STARTS = 3

_IDLE = {"breaker": "closed", "in_flight": 0, "waiting": 0}


class LeaseError(Exception):
    """A player still held an episode when its lease expired."""


class Head:
    """Plays the episodes of a run on a cluster. `players` is how many there should be; None stands
    for one for each CPU.
    """

    def __init__(
        self,
        cluster: Cluster,
        work: Work,
        reference: Any,
        directory: RunDirectory,
        *,
        players: int | None,
    ) -> None:
        self.done = len(directory.finished)
        self.most_in_flight = self.most_players = self.lost_players = self.given_up = 0
        self.tally = Tally()
        self.gone_on: dict[str, int] = {}
        self.goes_on = False
        self.began: float | None = None
        self.figures: dict[str, Any] = {}
        plan, errors = work.plan, cluster.ray.exceptions
        self._wall_s = plan.limits.wall_s
        judging_s = plan.judge.wall_s if plan.judge.type else 0.0
        starting_s = plan.concurrency / plan.starts_per_s
        self._episode_s = self._wall_s + judging_s + starting_s + 2 * CLOSING_S
        self.leases: Leases
        self._cluster = cluster
        self._work = work
        self._reference = reference
        self._directory = directory
        self._players = players
        self._lost_with: tuple[type[BaseException], ...]
        self._lost_with = (errors.RayError, LeaseError, TimeoutError)
        self._fatal: type[BaseException] = errors.RayTaskError
        self._first: Opened | None = None
        self._beginning = asyncio.Lock()
        self._actors: dict[str, Any] = {}
        self._holders: dict[str, Holder] = {}
        self._clients: dict[str, dict[str, Any]] = {}
        self._cpu_s: dict[str, float] = {}
        self._cpu_before_s = 0.0
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._cpus, self._looked_at = 0, -inf
        self._started = self._refused = self._failed_starts = 0
        self._changed = asyncio.Event()
        self._is_ending = False

    @property
    def in_flight(self) -> int:
        return sum(min(len(one.held), one.at_once) for one in self._holders.values())

    async def run(self, episodes: int) -> None:
        """Play so many episodes, as `Driver.run`. Once its task is cancelled, no agent gets a
        further turn, and what has ended is recorded.

        Raises `TraceError` when records can't be written, `EngineError`, and whatever the first
        player refuses to begin with.
        """
        plan, loop = self._work.plan, asyncio.get_running_loop()
        left = owed(plan.suite, episodes, self._directory.finished)
        self.leases = Leases(left, self._episode_s)
        until = loop.time() + OPEN_S
        try:
            while not self.leases.is_done:
                self._changed.clear()
                await self._fill()
                await self._until_something_ended()
                if self._first is None and loop.time() > until:
                    text = f"no player could start within {OPEN_S:g} s"
                    raise EngineError(f"{text}: the cluster has no free CPU, or its nodes hang")
        finally:
            with anyio.CancelScope(shield=True):
                await self._end()

    async def hosts(self) -> HostStates:
        """The states of the upstream hosts, of all gateways together; empty if some do not say."""
        actors = [*self._actors.values()]
        if self._work.plan.gateway != "embedded":
            actors = actors[:1]
        states: Sequence[HostStates] = ()
        with suppress(*self._lost_with):
            async with asyncio.timeout(HOSTS_S):
                states = await asyncio.gather(*(actor.hosts.remote() for actor in actors))
        found: HostStates = {}
        for name, state in (pair for given in states for pair in given.items()):
            known = found.setdefault(name, {**_IDLE})
            for count in ("in_flight", "waiting"):
                known[count] += state[count]
            if state["breaker"] != "closed":
                known["breaker"] = state["breaker"]
        return found

    async def complete_figures(self, since: float) -> None:
        """Note what the cluster and its players did, for `run.json`; `since` is when its opening
        began, by the performance counter.
        """
        began = self.began or time.perf_counter()
        head_cpu_s = time.process_time() - self._cpu_before_s if self.began else 0.0
        self.figures["engine"] = {
            "name": "ray",
            "version": self._cluster.ray.__version__,
            "start_s": round(began - since, 3),
            "nodes": await self._cluster.nodes(),
            "most_players": self.most_players,
            "lost_players": self.lost_players,
            "lost_episodes": self.leases.lost,
            "given_up": self.given_up,
            "head_cpu_s": round(head_cpu_s, 3),
            "players_cpu_s": round(sum(self._cpu_s.values()), 3),
        }
        if clients := [client for client in self._clients.values() if client]:
            self.figures["gateway_calls"] = {
                **{name: sum(one[name] for one in clients) for name in ("made", "unanswered")},
                **{
                    name: next((one[name] for one in clients if one[name]), None)
                    for name in ("first_silence", "no_streams")
                },
            }

    async def _fill(self) -> None:
        """Ask for the players that are missing."""
        now = asyncio.get_running_loop().time()
        if self._players is None and now > self._looked_at + LOOK_S:
            self._looked_at = now
            with suppress(EngineError, *self._lost_with):
                self._cpus = await self._cluster.cpus()
        players = self._cpus if self._players is None else self._players
        while not self.leases.is_empty and len(self._tasks) < max(players - self._refused, 1):
            name = f"finbench-{self._started + 1}"
            self._tasks[name] = asyncio.create_task(self._serve(name, self._started))
            self._started += 1

    async def _until_something_ended(self) -> None:
        """Wait for a player that ended, or a change, or for `LOOK_S`. Raises what a player's task
        raised.
        """
        changed = asyncio.create_task(self._changed.wait())
        try:
            await asyncio.wait(
                {*self._tasks.values(), changed},
                timeout=LOOK_S,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            changed.cancel()
        for name in [name for name, task in self._tasks.items() if task.done()]:
            self._tasks.pop(name).result()

    async def _serve(self, name: str, number: int) -> None:
        """Have one player, from its start to its end."""
        holder = Holder(self._work.plan.concurrency)
        try:
            actor = await self._cluster.start(Player, name, self._reference, number, name)
        except EngineError as error:
            if self._first is None:
                raise
            log.warning("%s could not be started: %s", name, error)
            return
        try:
            if await self._opened(actor, name):
                self._actors[name], self._holders[name] = actor, holder
                self._failed_starts = 0
                self.most_players = max(self.most_players, len(self._actors))
                await self._feed(actor, name, holder)
        except self._fatal as error:
            raise EngineError(f"{name}: {_first_line(error)}") from error
        except self._lost_with as error:
            self._lose(name, holder, error)
        finally:
            self._actors.pop(name, None)
            self._holders.pop(name, None)
            self._changed.set()
            with anyio.CancelScope(shield=True):
                await self._cluster.kill(actor)

    async def _opened(self, actor: Any, name: str) -> bool:
        """Whether a player can begin. Raises what the first one refuses to begin with."""
        found = await actor.open.remote()
        async with self._beginning:
            if not isinstance(found, Opened):
                if self._first is None:
                    raise found
                return self._refuse(name, str(found))
            mine = software(self._work)
            if found.software != mine:
                text = f"{name} on {found.node} has {found.software}, the head has {mine}"
                if self._first is None:
                    raise EngineError(text)
                return self._refuse(name, text)
            if self._first is None:
                self.began, self._cpu_before_s = time.perf_counter(), time.process_time()
                await self._directory.begin(found.about)
                self._first, self.goes_on = found, found.goes_on
            elif found.about != self._first.about:
                return self._refuse(name, f"on {found.node} answers come from {found.about}")
        return True

    def _refuse(self, name: str, why: str) -> bool:
        self._refused += 1
        log.warning("%s is not used: %s", name, why)
        return False

    async def _feed(self, actor: Any, name: str, holder: Holder) -> None:
        """Lease episodes to a player and take in what it gives, until nothing more comes."""
        loop, per_s = asyncio.get_running_loop(), 0.0
        while True:
            leased: Sequence[Owed] = ()
            began = loop.time()
            if not self._is_ending:
                ahead = min(ceil(per_s * AHEAD_S), MOST_AHEAD)
                leased = self.leases.take(holder, holder.at_once + ahead, began)
                self.most_in_flight = max(self.most_in_flight, self.in_flight)
            if not holder.held and not self._is_ending:
                await self._changed.wait()
                await asyncio.sleep(IDLE_S)
                continue
            linger_s = max(LINGER_S, len(self._actors) * LINGER_EACH_S)
            async with asyncio.timeout(self._wall_s + SILENCE_S):
                given = await actor.exchange.remote(
                    [await self._leased(owed) for owed in leased], linger_s
                )
            self._take_in(name, holder, given)
            if given.is_over and given.failure is not None and not self._is_ending:
                raise given.failure  # once all is taken in that had ended
            if given.is_over:
                return
            if self.leases.has_expired(holder, loop.time()):
                raise LeaseError("a lease expired")
            for stream in (self._directory.calls, self._directory.episodes):
                if stream.full:
                    await stream.room()
            took_s = max(loop.time() - began, 0.001)
            per_s += (len(given.batch.names) / took_s - per_s) * min(took_s, 1.0)

    async def _leased(self, owed: Owed) -> Leased:
        task, repeat = owed
        name, directory = name_of(task, repeat), self._directory
        record = await directory.recorded(name) if name in directory.unjudged else None
        return Leased(task.id, repeat, directory.begun.get(name, ()), record)

    def _take_in(self, name: str, holder: Holder, given: Handover) -> None:
        """Record what a player gave. Raises `TraceError`."""
        batch = given.batch
        self.leases.ended(holder, batch.names)
        if batch.metrics is not None:
            calls, episodes = bytes(batch.calls), bytes(batch.episodes)
            transcripts = bytes(batch.transcripts)
            self._directory.take_in(calls, episodes, batch.metrics, transcripts)
        self.done += len(batch.names)
        self.tally.merge(batch.tally)
        self.gone_on |= given.gone_on
        self._clients[name] = given.client
        self._cpu_s[name] = given.cpu_s
        self._changed.set()

    def _lose(self, name: str, holder: Holder, error: BaseException) -> None:
        """Lease the episodes of a lost player again, and record those that are given up."""
        if self._is_ending:
            return
        why, names = type(error).__name__, [*holder.held]
        if name not in self._actors:
            self._failed_starts += 1
            if self._failed_starts >= MOST_FAILED_STARTS:
                text = f"{MOST_FAILED_STARTS} players ended as they began"
                text = f"{text}, the last with {_first_line(error)}"
                if self._first is None:
                    raise EngineError(text)
                self._refuse(name, text)
        self.lost_players += 1
        now = asyncio.get_running_loop().time() if isinstance(error, LeaseError) else None
        given_up = self.leases.release(holder, now)
        text = f"{names[0]} to {names[-1]}" if names else "none"
        log.warning("%s was lost (%s) with %d episodes: %s", name, why, len(names), text)
        for task, repeat in given_up:
            assert self._first is not None  # noqa: S101 - it held an episode
            record = begun(self._work.plan.suite, task, repeat, self._first.setting)
            text = f"engine: the process that played it ended {MOST_LOSSES} times, last by {why}"
            end(record, Ending.LOST, text)
            self._directory.episodes.put(record)
            self.tally.add(record)
            self.done += 1
            self.given_up += 1

    async def _end(self) -> None:
        """End all players, those that have begun in order."""
        self._is_ending = True
        self._changed.set()
        for actor in self._actors.values():
            with suppress(*self._lost_with):
                actor.end.remote()
        tasks = [*self._tasks.values()]
        for name, task in self._tasks.items():
            if name not in self._actors:
                task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=END_S)
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                log.debug("a player ended with %s", type(ended).__name__)
        self._tasks.clear()


def _first_line(error: BaseException) -> str:
    """The type of an error of Ray, and the last line of its text, which names the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1][:300]}" if lines else type(error).__name__
