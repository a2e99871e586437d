"""Which episodes a player holds, until when, and what becomes of those that a lost player held.

Only the head accepts records, and only of episodes that their player still holds. A lost player
holds none. So each episode is recorded once, however often it was played.

An episode may be what ends its player. So the episodes of a lost player are suspects: they are
leased again in two halves, each to a player that holds nothing else, and so on down to single ones.
An episode that was alone when its player was lost, and was lost `MOST_LOSSES` times in all, is
given up.
"""

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import islice
from math import ceil

from bench.runs.driver import Owed
from bench.runs.episode import name_of

MOST_LOSSES = 3

GRACE_S = 60.0
"""Seconds that a lease lasts beyond what its episodes may take."""


@dataclass(slots=True, eq=False)
class Holder:
    """What one player holds: episodes by name, and when the lease of each expires. It plays
    `at_once` of them at once. `is_suspect`: it was leased suspects, and gets nothing beside them.
    """

    at_once: int
    held: dict[str, Owed] = field(default_factory=dict)
    until: dict[str, float] = field(default_factory=dict)
    is_suspect: bool = False


class Leases:
    """The episodes of a run that no record was accepted of yet. An episode takes at most
    `episode_s`. `lost` counts losses of episodes.
    """

    def __init__(self, owed: Iterator[Owed], episode_s: float) -> None:
        self.lost = 0
        self._owed = owed
        self._next = next(owed, None)
        self._episode_s = episode_s
        self._returned: deque[Owed] = deque()
        self._suspects: deque[list[Owed]] = deque()
        self._losses: dict[str, int] = {}
        self._holders: dict[Holder, None] = {}
        self._drained: Holder | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits to be leased."""
        return self._next is None and not self._returned and not self._suspects

    @property
    def is_done(self) -> bool:
        return self.is_empty and not any(holder.held for holder in self._holders)

    def take(self, holder: Holder, most: int, now: float) -> list[Owed]:
        """Lease episodes to a player, so that it holds at most `most`, or one group of suspects."""
        self._holders[holder] = None
        holder.is_suspect = holder.is_suspect and bool(holder.held)
        if holder.is_suspect:
            return []
        if self._suspects:
            if not holder.held:
                return self._suspected(holder, now)
            if self._is_to_drain(holder):
                return []
        taken = list(islice(self._waiting(), max(most - len(holder.held), 0)))
        self._lease(holder, taken, now)
        return taken

    def ended(self, holder: Holder, names: Collection[str]) -> None:
        """Episodes of a player were recorded. Raises `KeyError` for one that it does not hold."""
        for name in names:
            del holder.held[name], holder.until[name]
            self._losses.pop(name, None)

    def has_expired(self, holder: Holder, now: float) -> bool:
        return any(until < now for until in holder.until.values())

    def release(self, holder: Holder, now: float | None = None) -> list[Owed]:
        """Take from a lost player all that it holds, and return the episodes that are given up. If
        a lease expired, `now` is given: then only the episodes whose leases expired are suspects.
        """
        self._holders.pop(holder, None)
        if self._drained is holder:
            self._drained = None
        late = [n for n, until in holder.until.items() if now is None or until < now]
        suspects = [holder.held.pop(name) for name in late]
        self._returned.extend(holder.held.values())
        was_alone = len(late) == 1 and not holder.held
        holder.held, holder.until = {}, {}
        self.lost += len(late)
        for name in late:
            self._losses[name] = self._losses.get(name, 0) + 1
        if was_alone and self._losses[late[0]] >= MOST_LOSSES:
            del self._losses[late[0]]
            return suspects
        half = ceil(len(suspects) / 2)
        self._suspects.extend(group for group in (suspects[:half], suspects[half:]) if group)
        return []

    def _suspected(self, holder: Holder, now: float) -> list[Owed]:
        holder.is_suspect = True
        if self._drained is holder:
            self._drained = None
        group = self._suspects.popleft()
        self._lease(holder, group, now)
        return group

    def _is_to_drain(self, holder: Holder) -> bool:
        """Whether a player gets nothing more, so that it can take suspects."""
        if any(other.is_suspect and other.held for other in self._holders):
            return False
        self._drained = self._drained or holder
        return self._drained is holder

    def _waiting(self) -> Iterator[Owed]:
        while self._returned:
            yield self._returned.popleft()
        while self._next is not None:
            given, self._next = self._next, next(self._owed, None)
            yield given

    def _lease(self, holder: Holder, episodes: list[Owed], now: float) -> None:
        waves = ceil((len(holder.held) + len(episodes)) / holder.at_once)
        until = now + waves * self._episode_s + GRACE_S
        for task, repeat in episodes:
            name = name_of(task, repeat)
            holder.held[name], holder.until[name] = (task, repeat), until
