"""What one episode and one call cost each part of a run, as measured by `finbench capacity
--measure`.
"""

from dataclasses import dataclass
from pathlib import Path

import orjson
from pydantic import TypeAdapter

ROUNDS = 100

MEASURED = Path(__file__).with_name("costs.json")
"""Costs that were measured on the project's machine; the file says when, and by which command."""


class CostsError(Exception):
    """A file holds no unit costs; the text says why."""


@dataclass(frozen=True, slots=True)
class Cost:
    """A cost for each episode, one for each call, and one for each second that a process runs."""

    episode: float
    call: float
    second: float = 0.0

    def of(self, episodes: float, calls: float, seconds: float = 0.0) -> float:
        return self.episode * episodes + self.call * calls + self.second * seconds

    @classmethod
    def fitted(cls, few: "Sample", many: "Sample", slow: "Sample") -> "Cost":
        """The cost from three measurements: with few calls in an episode, with many, and with few
        episodes a second. No part is negative. Each part is computed from the others in turn.
        """
        episode = call = second = 0.0
        for _ in range(ROUNDS):
            a, b = ((one.cost - second * one.seconds) / one.episodes for one in (few, many))
            x, y = (one.calls / one.episodes for one in (few, many))
            call = max((b - a) / (y - x), 0.0)
            episode = max(a - call * x, 0.0)
            rest = slow.cost - episode * slow.episodes - call * slow.calls
            second = max(rest / slow.seconds, 0.0)
        return cls(episode, call, second)


@dataclass(frozen=True, slots=True)
class Sample:
    """What a run cost in all, with its episodes, its calls, and the seconds of its processes."""

    episodes: float
    calls: float
    seconds: float
    cost: float


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """Processor seconds of players, gateway and head; bytes that the run leaves on disk; bytes of
    answers from the gateway; seconds for the digest at the end. `player_bytes` is the memory of one
    episode in flight. The seconds of the head are those of players that hand over batches.
    `redis_s` and `redis_bytes` are what a call costs the Redis that gateways share, if none of them
    has its answer.
    """

    player_s: Cost
    gateway_s: Cost
    head_s: Cost
    disk_bytes: Cost
    network_bytes: Cost
    digest_s: Cost
    player_bytes: float
    redis_s: Cost
    redis_bytes: Cost

    @classmethod
    def read(cls, file: Path = MEASURED) -> "UnitCosts":
        """Raises `CostsError`."""
        try:
            return TypeAdapter(cls).validate_python(orjson.loads(file.read_bytes())["costs"])
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise CostsError(f"{file.name} holds no unit costs: {error}") from error
