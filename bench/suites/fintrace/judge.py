"""The judge that asks a model about a whole trajectory, several times, by six rubrics."""

import asyncio
from typing import Any

import orjson

from bench.judges.reply import ask, object_with
from bench.models.client import ModelClient
from bench.record import EpisodeRecord, Judgement, ModelCallRecord, ToolCallRecord
from bench.suites.fintrace.rubrics import JUDGE_TRAJECTORY, RUBRICS

STEPS = 100
"""The most calls of a trajectory that the judge is shown: the first and the last ones."""

ARGUMENTS_CHARS = 2_000
"""The longest arguments of a call that the judge is shown, as JSON."""

TEXT_CHARS = 20_000
"""The longest query, reference or answer that the judge is shown."""

_SCALE = (1, 2, 3, 4, 5)


class TrajectoryJudge:
    """Asks one model, `repeats` times about each trajectory. Serves many episodes at once."""

    def __init__(self, model: ModelClient, *, repeats: int) -> None:
        self.name = f"llm:{model.model}"
        self._model = model
        self._repeats = repeats

    async def judge(self, record: EpisodeRecord) -> Judgement:
        """Valid scores by rubric; every other one that was asked for counts as invalid."""
        asked: list[ModelCallRecord] = []
        about = _about(record)
        replies = await asyncio.gather(
            *(ask(self._model, JUDGE_TRAJECTORY, about, asked) for _ in range(self._repeats))
        )
        scores: dict[str, list[float]] = {name: [] for name in RUBRICS}
        for reply in replies:
            for name, score in read_scores(reply or "").items():
                scores[name].append(score)
        invalid = len(RUBRICS) * self._repeats - sum(map(len, scores.values()))
        valid = {name: given for name, given in scores.items() if given}
        return Judgement(
            self.name, "trajectory", invalid=invalid, model_calls=asked, by_metric=valid
        )


def read_scores(reply: str) -> dict[str, float]:
    """The scores in a reply that are whole numbers from 1 to 5, by rubric."""
    for name in RUBRICS:
        if found := object_with(name, reply):
            scores = {rubric: _score(found.get(rubric)) for rubric in RUBRICS}
            return {rubric: score for rubric, score in scores.items() if score is not None}
    return {}


def _score(value: object) -> float | None:
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value) if len(value) < 3 else None
    if isinstance(value, bool) or not isinstance(value, int | float) or value not in _SCALE:
        return None
    return float(value)


def _about(record: EpisodeRecord) -> dict[str, Any]:
    arguments = record.labelled_arguments or [None] * len(record.labelled_tools)
    calls = record.tool_calls
    if len(calls) > STEPS:
        calls = [*calls[: STEPS // 2], *calls[-STEPS // 2 :]]
    return {
        "query": record.question[:TEXT_CHARS],
        "reference": record.ground_truth[:TEXT_CHARS],
        "gold": [
            {"tool": tool} | ({} if given is None else {"arguments": given})
            for tool, given in zip(record.labelled_tools, arguments, strict=False)
        ],
        "steps": [_step(call) for call in calls],
        "steps_left_out": len(record.tool_calls) - len(calls),
        "answer": record.execution_result[:TEXT_CHARS],
    }


def _step(call: ToolCallRecord) -> dict[str, Any]:
    """A call as the agent saw it."""
    output = call.output if call.observed is None else call.observed
    arguments = orjson.dumps(call.parameters).decode()
    return {
        "round": call.step,
        "tool": call.tool_name,
        "arguments": call.parameters
        if len(arguments) <= ARGUMENTS_CHARS
        else arguments[:ARGUMENTS_CHARS],
        "ok": call.ok,
        "output": output,
    }
