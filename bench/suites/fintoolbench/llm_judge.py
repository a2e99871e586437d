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
        (kind, given), (tools, of_tools) = await asyncio.gather(
            self._answer(record, asked), self._tools(record, asked)
        )
        scores = [score for score, _ in given if score is not None]
        judgement = Judgement(self.name, kind, scores, len(given) - len(scores), tools, asked)
        judgement.invalid_tools = of_tools - len(tools)
        judgement.rounded = sum(is_rounded for _, is_rounded in given)
        return judgement

    async def _answer(
        self, record: EpisodeRecord, asked: list[ModelCallRecord]
    ) -> tuple[str, list[tuple[float | None, bool]]]:
        """The kind of answer and one score for each request (`read_score`)."""
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
        return kind, [(None, False) if text is None else read_score(text, kind) for text in replies]

    async def _tools(
        self, record: EpisodeRecord, asked: list[ModelCallRecord]
    ) -> tuple[list[ToolVerdict], int]:
        """The verdicts on the called tools, and on how many tools the model was asked for one."""
        called = dict.fromkeys(call.tool_name for call in record.last_round)
        tools = [tool for name in called if (tool := self._catalog.get(name)) is not None]
        if not tools:
            return [], 0
        fields = ("name", "description", "timeliness", "intent_type", "regulatory_domains")
        described = [{field: getattr(tool, field) for field in fields} for tool in tools]
        about = {"question": record.question, "tools": described}
        text = await ask(self._model, TOOLS, about, asked)
        names = [tool.name for tool in tools]
        return ([] if text is None else read_verdicts(text, names)), len(names)
