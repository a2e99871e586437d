"""The judge protocol, and what a judge says of itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from bench.models.client import ModelClient
from bench.record import EpisodeRecord, Judgement
from manifests import Catalog


class Judge(Protocol):
    """Judges ended episodes, many at once. `name` stands in every judgement."""

    @property
    def name(self) -> str: ...

    async def judge(self, record: EpisodeRecord) -> Judgement:
        """What it finds in an episode. Never raises: what could not be judged is counted as
        invalid in the judgement.
        """
        ...


@dataclass(frozen=True, slots=True)
class JudgeParts:
    """What a judge may be made of. There is a `model` for those that need one, to be asked
    `repeats` times about each answer.
    """

    catalog: Catalog
    model: ModelClient | None
    repeats: int


@dataclass(frozen=True, slots=True)
class JudgeType:
    """One kind of judge. A user's own is such an object, or a class whose constructor takes no
    arguments, named `module:Name`.
    """

    name: str
    text: str
    make: Callable[[JudgeParts], Judge]
    needs_model: bool = False
