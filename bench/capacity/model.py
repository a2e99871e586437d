"""What a run needs, from unit costs, and a simulation of it that shows what waits for what.

The head is one process. Players and gateways are as many as keep their utilisation below a bound.
The simulation is of one player with its share of the gateways and of the head, turn by turn: each
turn waits for the model, then takes the player, the gateway for each call, and at the end of an
episode the head. A part that is too slow shows as waiting.
"""

import heapq
import random
from dataclasses import dataclass
from itertools import count
from math import ceil
from typing import Any

from bench.capacity.costs import UnitCosts
from bench.engines.head import LINGER_EACH_S, LINGER_S

SPARE = 1.1
"""More episodes are in flight than those that only wait for the model."""

SIMULATED_TURNS = 60_000
"""About so many turns are simulated; that takes a second."""

MOST_TURNS = 2_000_000
"""The most turns that are simulated; that takes half a minute."""


class WorkloadError(ValueError):
    """A run is too large to be simulated; the text says what is too large, and what helps."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A run: its episodes and calls in all, the mean seconds of a model's answer, the calls in a
    turn, and the seconds that the run may take.
    """

    episodes: float
    calls: float
    model_s: float
    calls_per_turn: int
    within_s: float

    @property
    def calls_per_episode(self) -> float:
        return self.calls / self.episodes

    @property
    def turns(self) -> int:
        """Turns of an episode: those with calls, and the answer."""
        return ceil(self.calls_per_episode / self.calls_per_turn) + 1


@dataclass(frozen=True, slots=True)
class Parts:
    """How many processes of each kind, each on a core; `in_flight` are episodes at once."""

    players: int
    gateways: int
    in_flight: int


@dataclass(frozen=True, slots=True)
class Simulated:
    """What the simulation found: seconds of the whole run, of an episode, and of it waiting for
    other things than the model; by part the share of time in which it was busy.
    """

    took_s: float
    episode_s: float
    waiting_s: float
    busy: dict[str, float]


def sized(workload: Workload, costs: UnitCosts, utilisation: float) -> Parts:
    """The parts with which a run takes the time that it may, by Little's law."""
    per_s = workload.episodes / workload.within_s
    calls = workload.calls_per_episode

    players, gateways = (
        max(1, ceil(per_s * cost.of(1, calls) / max(utilisation - cost.second, 0.01)))
        for cost in (costs.player_s, costs.gateway_s)
    )
    in_flight = ceil(per_s * workload.turns * workload.model_s * SPARE)
    return Parts(players, gateways, max(in_flight, players))


def head_busy(workload: Workload, costs: UnitCosts, players: int) -> float:
    """The share of its core that the head needs to follow; over 1 it can't."""
    work_s = costs.head_s.of(workload.episodes, workload.calls)
    return work_s / workload.within_s + _of_batches(costs, players)


def _of_batches(costs: UnitCosts, players: int) -> float:
    """The share of its core that the head needs to ask players for batches: of many players it
    takes longer ones.
    """
    return costs.head_s.second * min(players, LINGER_S / LINGER_EACH_S)


def simulated(
    workload: Workload, costs: UnitCosts, parts: Parts, *, cores: int | None = None
) -> Simulated:
    """Simulate a run. If all processes share one machine, it has so many `cores`. Raises
    `WorkloadError`.
    """
    slots = max(1, parts.in_flight // parts.players)
    turns = workload.turns
    if 2 * slots * turns > MOST_TURNS:
        raise WorkloadError(
            f"a player would have {slots:,} episodes of {turns:,} turns at once, more than can be "
            "simulated: expect fewer calls of an episode, more in a turn or shorter waits"
        )
    per_player = max(1, round(workload.episodes / parts.players))
    episodes = min(per_player, max(2 * slots, SIMULATED_TURNS // turns))
    calls = workload.calls_per_episode / max(turns - 1, 1)
    share = _Share(workload, costs, parts, cores)
    luck, numbers = random.Random(0), count()  # noqa: S311 - simulation
    heap: list[tuple[float, int, int, float]] = []

    def think(now: float, left: int, began: float) -> None:
        """Let a turn of an episode wait for the model; `left` turns are to come, with this one."""
        until = now + workload.model_s * luck.uniform(0.5, 1.5)
        heapq.heappush(heap, (until, next(numbers), left, began))

    begun = min(slots, episodes)
    for _ in range(begun):
        think(0.0, turns, 0.0)
    spent = waited = now = 0.0
    while heap:
        now, _, left, began = heapq.heappop(heap)
        done = share.turn(now, calls if left > 1 else 0.0)
        waited += done - now
        if left > 1:
            think(done, left - 1, began)
            continue
        share.end(done)
        spent += done - began
        now = done
        if begun < episodes:
            begun += 1
            think(done, turns, done)
    idle = {
        "players": costs.player_s.second,
        "gateways": costs.gateway_s.second,
        "head": _of_batches(costs, parts.players),
    }
    busy = {part: used / now + idle.get(part, 0.0) for part, used in share.used.items()}
    each_s = spent / episodes
    took_s = now + (per_player - episodes) * each_s / slots  # Little's law: all slots are busy
    return Simulated(took_s, each_s, waited / episodes, busy)


def needs(
    costs: UnitCosts,
    *,
    episodes: float,
    calls: float,
    model_latency: float,
    calls_per_turn: int,
    within: float,
    utilisation: float,
    miss_share: float,
    core_hour_price: float | None = None,
    gb_price: float | None = None,
) -> dict[str, Any]:
    """What a run needs whose parts are as busy as `utilisation` says, by name. Of its calls
    `miss_share` are answered by no gateway's cache. Raises `WorkloadError`.
    """
    workload = Workload(episodes, calls, model_latency, calls_per_turn, within)
    parts = sized(workload, costs, utilisation)
    found = simulated(workload, costs, parts)
    head = head_busy(workload, costs, parts.players)
    disk = costs.disk_bytes.of(episodes, calls)
    network = costs.network_bytes.of(episodes, calls)
    misses = calls * miss_share
    redis_busy = costs.redis_s.of(0, misses) / found.took_s
    shards = max(1, ceil(redis_busy / utilisation))
    busy = {**found.busy, "redis": redis_busy / shards}
    core_hours = (parts.players + parts.gateways + 1 + shards) * found.took_s / 3_600
    needed = {
        "turns_of_an_episode": workload.turns,
        "episode_s": found.episode_s,
        "waiting_of_an_episode_s": found.waiting_s,
        "took_s": found.took_s,
        "episodes_in_flight": parts.in_flight,
        "players": parts.players,
        "gateways": parts.gateways,
        "runs_side_by_side": max(1, ceil(head / utilisation)),
        "head_busy": head,
        "redis_shards": shards,
        "redis_bytes": costs.redis_bytes.of(0, misses),
        "players_memory_bytes": costs.player_bytes * parts.in_flight,
        "storage_bytes": disk,
        "storage_bytes_per_s": disk / found.took_s,
        "network_bytes": network,
        "network_bytes_per_s": network / found.took_s,
        "digest_s": costs.digest_s.of(episodes, calls),
        "core_hours": core_hours,
        "busy": busy,
        "breaks_first": max(busy, key=lambda part: busy[part]),
    }
    if core_hour_price is not None or gb_price is not None:
        needed["cost"] = (core_hour_price or 0.0) * core_hours + (gb_price or 0.0) * disk / 1e9
    return needed


class _Share:
    """One player with its share of everything else. `used` are seconds by part."""

    def __init__(
        self, workload: Workload, costs: UnitCosts, parts: Parts, cores: int | None
    ) -> None:
        self._player_s = costs.player_s.episode / workload.turns
        self._player_call_s = costs.player_s.call
        self._gateway_call_s = costs.gateway_s.call * parts.players / parts.gateways
        self._head_s = costs.head_s.of(1, workload.calls_per_episode) * parts.players
        self._free = {"players": 0.0, "gateways": 0.0, "head": 0.0}
        self.used = dict.fromkeys(self._free, 0.0)
        if cores is not None:  # processes of one machine: all work is done by its cores
            self._machine_s = parts.players / cores
            self._free["machine"] = self.used["machine"] = 0.0
        self._cores = cores
        self._parts = parts

    def turn(self, now: float, calls: float) -> float:
        done = self._take("players", now, self._player_s + calls * self._player_call_s, 1.0)
        if calls:
            each = self._parts.gateways / self._parts.players
            done = self._take("gateways", done, calls * self._gateway_call_s, each)
        return done

    def end(self, now: float) -> None:
        """The end of an episode; nothing waits for the head, so its work is only counted."""
        self._take("head", now, self._head_s, 1.0 / self._parts.players)

    def _take(self, part: str, now: float, cost_s: float, of_core: float) -> float:
        """When a part has done something that takes it so long. Its share is a part of a core."""
        done = max(now, self._free[part]) + cost_s
        self._free[part] = done
        self.used[part] += cost_s
        if self._cores is not None:
            work = cost_s * of_core * self._machine_s
            machine = max(now, self._free["machine"]) + work
            self._free["machine"] = machine
            self.used["machine"] += work
            done = max(done, machine)
        return done
