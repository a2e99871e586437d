"""Judges by name: those of a suite, and a user's own as `module:Name`."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from bench.environment import JUDGE_KEY, MODEL_KEY
from bench.judges.judge import Judge, JudgeParts, JudgeProtocol, JudgeType
from bench.judges.judging import JUDGE_S
from bench.models.client import ErrorStreak
from bench.models.settings import EndpointKey, ModelSettings, check_body, check_headers, key_for
from bench.own import OwnError, is_own, lacking, load, words_of
from bench.record import EpisodeRecord, Judgement
from gateway.pipeline.bind import masked
from manifests import Catalog

NONE = "none"
REPEATS = 3
"""How often a model is asked about an answer, as in FinToolBench."""


class JudgeSettingsError(Exception):
    """No judge has this name, or it can't be made with these settings; the text says why."""


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """Which judge, or None for no judge. A judge that needs a model asks `model` at `base_url`.
    With `is_agents` that endpoint is also the agent's; its key is used if the judge has none. A
    judgement takes at most `wall_s` seconds. `body` and `headers` are as in `ModelSettings`.
    """

    type: JudgeType | None = None
    model: str | None = None
    base_url: str | None = None
    repeats: int = REPEATS
    is_agents: bool = False
    wall_s: float = JUDGE_S
    body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    protocol: JudgeProtocol = "joint"

    def __post_init__(self) -> None:
        if self.needs_model and not (self.model and self.base_url):
            name = self.type.name if self.type else ""
            text = f"--judge {name} wants --judge-model and --judge-base-url"
            raise JudgeSettingsError(text)
        try:
            check_body("--judge-body", self.body)
            check_headers("--judge-header", self.headers)
        except ValueError as error:
            raise JudgeSettingsError(str(error)) from error

    @property
    def needs_model(self) -> bool:
        return self.type is not None and self.type.needs_model

    @property
    def key(self) -> EndpointKey:
        return key_for(self.base_url or "", JUDGE_KEY, *((MODEL_KEY,) if self.is_agents else ()))

    def about(self) -> dict[str, Any]:
        """The settings of the judge, for `run.json`."""
        if self.type is None:
            return {"judge": NONE}
        if not self.needs_model:
            return {"judge": self.type.name, "judge_s": self.wall_s}
        return {
            "judge": name_of(self.type.name, self.model or "", self.protocol),
            "judge_base_url": (self.base_url or "").rstrip("/"),
            "judge_s": self.wall_s,
            "judge_repeats": self.repeats,
            "judge_body": masked(dict(self.body)),
            "judge_headers": dict(self.headers),
            "judge_key": self.key.source,
        }


def name_of(judge: str, model: str, protocol: JudgeProtocol = "joint") -> str:
    """The name of a judge that asks a model, in its judgements and in `run.json`."""
    return f"{judge}{'' if protocol == 'joint' else f'-{protocol}'}:{model}"


def judge_named(name: str | None, judges: Sequence[JudgeType]) -> JudgeType | None:
    """The judge of that name, from `judges` or a user's own. Without a name it is the first of
    `judges` that needs no model; for `none` it is None. Raises `JudgeSettingsError`.
    """
    if name is None:
        return next((judge for judge in judges if not judge.needs_model), None)
    if is_own(name):
        return _own(name)
    by_name = {judge.name: judge for judge in judges}
    if name != NONE and name not in by_name:
        allowed = ", ".join([*by_name, NONE])
        text = f"no judge of this suite is named {name!r}; there are: {allowed}, or `module:Name`"
        raise JudgeSettingsError(text)
    return by_name.get(name)


def _own(name: str) -> JudgeType:
    try:
        found = load(name)
    except OwnError as error:
        raise JudgeSettingsError(f"judge {error}") from error
    if isinstance(found, JudgeType):
        return replace(found, name=name)
    if not isinstance(found, type) or not callable(getattr(found, "judge", None)):
        raise JudgeSettingsError(f"judge {name}: it is no JudgeType, and has no method `judge`")
    make = found
    return JudgeType(name, "", lambda _: make())


class _Apart:
    """A user's own judge, which gets copies: it can't change the records that it judges."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    @property
    def name(self) -> str:
        return self._judge.name

    async def judge(self, record: EpisodeRecord) -> Judgement:
        return await self._judge.judge(deepcopy(record))


@asynccontextmanager
async def open_judge(
    settings: JudgeSettings, catalog: Catalog, *, streak: ErrorStreak | None = None
) -> AsyncIterator[Judge | None]:
    """The judge, if any, for as long as the context is open, and so is its own if it has one.
    Requests to its model are noted in `streak`. Raises `JudgeSettingsError`.
    """
    kind = settings.type
    if kind is None:
        yield None
        return
    async with AsyncExitStack() as stack:
        model = None
        if settings.model and settings.base_url and kind.needs_model:
            asked = ModelSettings(
                settings.model, settings.base_url, settings.body, settings.headers
            )
            model = await stack.enter_async_context(asked.open(settings.key, streak))
        try:
            judge = kind.make(JudgeParts(catalog, model, settings.repeats, settings.protocol))
            if isinstance(judge, AbstractAsyncContextManager):
                await stack.enter_async_context(judge)
            problem = lacking(judge, "judge")
        except (KeyboardInterrupt, asyncio.CancelledError):
            raise
        except BaseException as error:  # a user's constructor may raise anything
            raise JudgeSettingsError(f"judge {kind.name}: {words_of(error)}") from error
        if problem:
            raise JudgeSettingsError(f"judge {kind.name}: {problem}")
        yield _Apart(judge) if is_own(kind.name) else judge
