"""The judge protocol, and the declaration of a judge."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from bench.models.client import ModelClient
from bench.models.need import ModelNeed, Within
from bench.record import EpisodeRecord, Judgement
from manifests import Catalog

JudgeProtocol = Literal["joint", "authors"]
"""How a model is asked: about all that belongs together in one request, or as the suite's authors
ask, a decision in each request.
"""


class Judge(Protocol):
    """Judges ended episodes, many at once. Every judgement has its `name`. A judge that is an
    asynchronous context manager is entered before the first episode and left after the last.
    """

    @property
    def name(self) -> str: ...

    async def judge(self, record: EpisodeRecord) -> Judgement:
        """The judgement of an episode. Never raises: what could not be judged is counted as invalid
        in the judgement.
        """
        ...


@dataclass(frozen=True, slots=True)
class JudgeParts:
    """What a judge may be made of. `model` is set for judges that need one; they ask it `repeats`
    times about each answer, by this `protocol`.
    """

    catalog: Catalog
    model: ModelClient | None
    repeats: int
    protocol: JudgeProtocol = "joint"

    @property
    def needed_model(self) -> ModelClient:
        """The model, for a judge that needs one."""
        assert self.model is not None  # noqa: S101 - its type requires a model
        return self.model


@dataclass(frozen=True, slots=True)
class JudgeType:
    """One kind of judge. A user's own is such an object, or a class whose constructor takes no
    arguments, named `module:Name`. `need` says the most that it requests of its model for an
    episode, if that is known; it gets parts without a model.
    """

    name: str
    text: str
    make: Callable[[JudgeParts], Judge]
    needs_model: bool = False
    need: Callable[[JudgeParts, Within], ModelNeed] | None = None
