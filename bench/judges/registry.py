"""Judges by name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bench.environment import JUDGE_KEY, MODEL_KEY
from bench.judges.judge import Judge
from bench.models.endpoint_key import EndpointKey, key_for
from manifests import Catalog

JUDGES = ("rules", "llm", "none")
REPEATS = 3
"""How often a model is asked, as in FinToolBench."""


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """`rules` needs no model; `llm` asks `model` at `base_url`. With `is_agents` that endpoint is
    the agent's too, and takes its key where the judge has none.
    """

    name: str = "rules"
    model: str | None = None
    base_url: str | None = None
    repeats: int = REPEATS
    is_agents: bool = False

    @property
    def key(self) -> EndpointKey:
        return key_for(self.base_url or "", JUDGE_KEY, *((MODEL_KEY,) if self.is_agents else ()))

    def about(self) -> dict[str, Any]:
        """What of it another run must equal to be comparable, for `run.json`."""
        if self.name != "llm":
            return {"judge": self.name}
        return {
            "judge": f"llm:{self.model}",
            "judge_repeats": self.repeats,
            "judge_key": self.key.source,
        }


@asynccontextmanager
async def open_judge(settings: JudgeSettings, catalog: Catalog) -> AsyncIterator[Judge | None]:
    """The judge, for as long as the context is open; None for `none`."""
    if settings.name == "none":
        yield None
    elif settings.name == "rules":
        from bench.suites.fintoolbench.rules import RulesJudge

        yield RulesJudge(catalog)
    else:
        from bench.judges.llm import LlmJudge
        from bench.models.client import ModelClient

        assert settings.model is not None  # noqa: S101 - the command checks it
        assert settings.base_url is not None  # noqa: S101
        key = settings.key
        async with ModelClient.open(
            settings.base_url,
            settings.model,
            key.secret,
            temperature=0.0,
            key_variable=key.variable,
        ) as model:
            yield LlmJudge(model, catalog, repeats=settings.repeats)
