"""The layered memory of a trading agent, as FinMem (arXiv 2311.13743) describes it, with the
constants that InvestorBench (arXiv 2412.18174) uses.

One memory is of one agent and one asset. It has four layers: news enters `short`, quarterly reports
`mid`, annual reports `long`, and the agent's own reasons `reflection`. A trading day is: `add` what
became known, `recall`, `feed_back` on what the position of three days ago rested, then `step`.

Where the papers leave room, this is our reading:
- A reason is compared with those before by the cosine of their words' counts; the authors compare
  embeddings.
- Age counts steps, that is trading days, as the authors' programs do. Recency follows from age and
  layer alone.
- A step decays first, then removes, then moves; a memory moved into a layer is judged by that
  layer's limits on the next step. It may cross two layers at once.
- Moving up sets the age to 0, since the memory has proved its worth. Moving down keeps it, so a
  memory that returns to `short` at an age of 8 or more is removed on the next step.
- The reward of a position is the sum of position * price difference over the three days from the
  day it was taken. The authors' program takes each day's difference with the position of the day
  after, which can't have earned it.

The same calls always give the same memory. Nothing here waits or reads a clock. With all layers
full, a step takes 3 ms and recalling with BM25 40 ms, and 0.4 s when all texts are new to it, so
the event loop must not call `recall`.
"""

import datetime
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, inf
from typing import Final, Literal, NamedTuple

from adapters.market.prices import Position, sign
from adapters.market.similarity import cosine, word_counts

LayerName = Literal["short", "mid", "long", "reflection"]

Similarity = Callable[[str, Sequence[str]], Sequence[float]]
"""How similar each text is to a query, from 0 to 1: BM25, or the cosine of embeddings."""


@dataclass(frozen=True, slots=True)
class Layer:
    """Recency is exp(-age / `recency_days`). Importance starts at `importance`, and a step
    multiplies it by `decay`.
    """

    recency_days: float
    importance: float
    decay: float


LAYERS: Final[Mapping[LayerName, Layer]] = {
    "short": Layer(recency_days=3, importance=50, decay=0.92),
    "mid": Layer(recency_days=90, importance=60, decay=0.96),
    "long": Layer(recency_days=365, importance=90, decay=0.96),
    "reflection": Layer(recency_days=365, importance=80, decay=0.98),
}

LEVELS: Final[Sequence[tuple[LayerName, float]]] = (("long", 85), ("mid", 55), ("short", -inf))
"""The least importance of each layer between which memories move, the highest layer first.
Reflections do not move.
"""

LEAST_RECENCY = 0.05
LEAST_IMPORTANCE = 5.0
"""A memory below one of these is removed."""

FULL_IMPORTANCE = 100.0
"""The importance from which on the score does not rise."""

ALIKE = 0.95
"""A reflection that is as similar as this to one that is held is not added."""

FEEDBACK = 18.0
"""What a reward adds to importance, or a loss takes from it."""

REWARD_DAYS = 3

TOP = 5
"""The memories of each layer that are recalled."""

MOST = 1_000
"""The memories that a layer holds; beyond, those that score least without a query are dropped."""

TEXT_CHARS = 100_000
"""The longest text of a memory."""


@dataclass(slots=True)
class Memory:
    """One text. `day` is when it was added; `age` counts steps since then, or since it moved up."""

    id: int
    layer: LayerName
    text: str
    day: datetime.date
    importance: float
    age: int = 0

    @property
    def recency(self) -> float:
        return exp(-self.age / LAYERS[self.layer].recency_days)

    @property
    def worth(self) -> float:
        """Its score without similarity, from 0 to 2; less if feedback made importance negative."""
        return min(self.importance, FULL_IMPORTANCE) / FULL_IMPORTANCE + self.recency


class Recalled(NamedTuple):
    """A memory that was found. `score` = similarity + importance (up to 100) / 100 + recency."""

    score: float
    memory: Memory


class LayeredMemory:
    def __init__(self) -> None:
        self._next_id = 1
        self._memories: dict[int, Memory] = {}

    def __len__(self) -> int:
        return len(self._memories)

    @property
    def memories(self) -> tuple[Memory, ...]:
        """All memories, the oldest first."""
        return tuple(self._memories.values())

    def reflect(self, text: str, day: datetime.date) -> int | None:
        """Add a reason of the agent's own, unless it holds one that is alike; returns its id."""
        counts = word_counts(text)
        alike = (cosine(counts, word_counts(one.text)) for one in self._of("reflection"))
        return None if any(near >= ALIKE for near in alike) else self.add("reflection", text, day)

    def add(self, layer: LayerName, text: str, day: datetime.date) -> int:
        """Add what became known on a day; returns its id. In a full layer the memory that scores
        least without a query is dropped.
        """
        added, self._next_id = self._next_id, self._next_id + 1
        self._memories[added] = Memory(added, layer, text, day, LAYERS[layer].importance)
        self._drop_from(layer)
        return added

    def recall(
        self, query: str, similarity: Similarity, *, top: int = TOP
    ) -> dict[LayerName, list[Recalled]]:
        """The memories of each layer with the highest scores, at most `top`; of equal ones the
        newest. Recalling changes nothing: what the agent says it used is fed back.

        `similarity` is called once for each layer that is not empty.
        """
        found: dict[LayerName, list[Recalled]] = {}
        for layer in LAYERS:
            held = self._of(layer)
            near = similarity(query, [memory.text for memory in held]) if held else []
            recalled = [
                Recalled(similarity + memory.worth, memory)
                for memory, similarity in zip(held, near, strict=True)
            ]
            recalled.sort(key=lambda found: (-found.score, -found.memory.id))
            found[layer] = recalled[:top]
        return found

    def feed_back(self, ids: Iterable[int], reward: float) -> None:
        """Reward the memories on which a position rested, each once: their importance rises by 18
        if it gained, falls by 18 if it lost, and stays if `reward` is 0. Others may be gone.
        """
        for one in self._memories.keys() & set(ids):
            self._memories[one].importance += FEEDBACK * sign(reward)

    def step(self) -> None:
        """End a trading day: all memories age and decay, faded ones are removed, and the others
        move to the layer of their importance.
        """
        for memory in self._memories.values():
            memory.age += 1
            memory.importance *= LAYERS[memory.layer].decay
        self._memories = {n: one for n, one in self._memories.items() if not _is_faded(one)}
        for memory in self._memories.values():
            self._move(memory)
        for layer in LAYERS:
            self._drop_from(layer)

    def _of(self, layer: LayerName) -> list[Memory]:
        return [memory for memory in self._memories.values() if memory.layer == layer]

    def _move(self, memory: Memory) -> None:
        if memory.layer == "reflection":
            return
        ranks = [layer for layer, _ in LEVELS]
        target = next(layer for layer, least in LEVELS if memory.importance >= least)
        if ranks.index(target) < ranks.index(memory.layer):
            memory.age = 0
        memory.layer = target

    def _drop_from(self, layer: LayerName) -> None:
        """Drop what is over the bound of a layer: the least worth, of equal ones the oldest."""
        held = self._of(layer)
        if len(held) <= MOST:
            return
        held.sort(key=lambda memory: (memory.worth, memory.id))
        for memory in held[: len(held) - MOST]:
            del self._memories[memory.id]


class Evidence:
    """The memories on which each position rested, until the position's reward is known."""

    def __init__(self) -> None:
        self._days: deque[tuple[float, Position, tuple[int, ...]]] = deque(maxlen=REWARD_DAYS + 1)

    def add(
        self, price: float, position: Position, ids: Iterable[int]
    ) -> tuple[tuple[int, ...], float] | None:
        """Add a trading day: its price, the position taken at it, and the memories it rested on.
        Returns those of three days ago with the reward since then, for `LayeredMemory.feed_back`;
        None on the first three days.
        """
        self._days.append((price, position, tuple(ids)))
        if len(self._days) <= REWARD_DAYS:
            return None
        reward = sum(
            held * (later - earlier) for (earlier, held, _), (later, *_) in pairwise(self._days)
        )
        return self._days[0][2], reward


def _is_faded(memory: Memory) -> bool:
    return memory.recency < LEAST_RECENCY or memory.importance < LEAST_IMPORTANCE
