"""The judge that asks a model, as FinToolBench does (arXiv 2603.08262), with prompts of our own.

It judges the answer in several requests at once, each of which gives a score, and the called tools
in one request. It makes no request where nothing can be judged. It checks each reply and counts
one that is not a verdict as invalid. It raises nothing, whatever a model or its endpoint does.
"""

import asyncio

from bench.judges.reply import ask
from bench.models.client import ModelClient
from bench.record import EpisodeRecord, Judgement, ModelCallRecord, ToolVerdict
from bench.suites.fintoolbench.answer import answer_kind
from bench.suites.fintoolbench.prompts import TOOLS, answer_prompt
from bench.suites.fintoolbench.verdicts import read_score, read_verdicts
from manifests import Catalog


class LlmJudge:
    """Asks one model, `repeats` times about each answer. Serves many episodes at once."""

    def __init__(self, model: ModelClient, catalog: Catalog, *, repeats: int) -> None:
        self.name = f"llm:{model.model}"
        self._model = model
        self._catalog = catalog
        self._repeats = repeats

    async def judge(self, record: EpisodeRecord) -> Judgement:
        asked: list[ModelCallRecord] = []
        (kind, scores), tools = await asyncio.gather(
            self._answer(record, asked), self._tools(record, asked)
        )
        valid = [score for score in scores if score is not None]
        return Judgement(self.name, kind, valid, len(scores) - len(valid), tools, asked)

    async def _answer(
        self, record: EpisodeRecord, asked: list[ModelCallRecord]
    ) -> tuple[str, list[float | None]]:
        """The kind of answer and one score for each request, None for an invalid one."""
        kind = answer_kind(record.ground_truth)
        if kind == "none":
            return kind, []
        about = {
            "question": record.question,
            "gold": record.ground_truth,
            "answer": record.execution_result,
            "kind": kind,
        }
        prompt = answer_prompt(kind)
        replies = await asyncio.gather(
            *(ask(self._model, prompt, about, asked) for _ in range(self._repeats))
        )
        return kind, [None if text is None else read_score(text, kind) for text in replies]

    async def _tools(
        self, record: EpisodeRecord, asked: list[ModelCallRecord]
    ) -> list[ToolVerdict]:
        called = dict.fromkeys(call.tool_name for call in record.last_round)
        tools = [tool for name in called if (tool := self._catalog.get(name)) is not None]
        if not tools:
            return []
        fields = ("name", "description", "timeliness", "intent_type", "regulatory_domains")
        described = [{field: getattr(tool, field) for field in fields} for tool in tools]
        about = {"question": record.question, "tools": described}
        text = await ask(self._model, TOOLS, about, asked)
        return [] if text is None else read_verdicts(text, [tool.name for tool in tools])
