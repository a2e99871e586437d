"""The suite FinTrace (arXiv 2604.10015), for a dataset of the user's and for our own sample."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any, ClassVar, Final

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from bench.judges.judge import JudgeType
from bench.metrics.means import Measured
from bench.record import Ending, EpisodeRecord, ToolCallRecord, is_infrastructure
from bench.suites.files import read_tasks
from bench.suites.fintrace.judge import TrajectoryJudge
from bench.suites.fintrace.trajectory import computed
from bench.suites.suite import Measure, Metric, Suite, SuiteError, Traced
from bench.suites.traces import for_evaluator, read_trace
from bench.task import LabelledCall, Task

PUBLISHED: Final[Mapping[str, Mapping[str, float]]] = {
    "Claude-Opus-4.6": {
        "ToolCallingF1": 0.896,
        "InformationUtilization": 3.23,
        "TaskPassRate": 2.65,
        "FinalAnswerQuality": 3.34,
    },
    "Qwen-3.5-9B": {"StepEfficiency": 1.0, "Redundancy": 1.0},
}
"""By model, the metrics by our names."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _GoldCall(_Model):
    tool: str
    arguments: dict[str, Any] = {}


class _Query(_Model):
    id: str = Field(min_length=1)
    category: str = ""
    difficulty: str = ""
    query: str = Field(min_length=1)
    gold_trajectory: tuple[_GoldCall, ...] = Field(
        min_length=1, validation_alias=AliasChoices("gold_trajectory", "trajectory")
    )
    reference_answer: str = Field("", validation_alias=AliasChoices("reference_answer", "answer"))


def read_task(line: bytes, _number: int) -> Task:
    """Raises `ValidationError`."""
    query = _Query.model_validate_json(line)
    return Task(
        id=query.id,
        category=query.category,
        question=query.query,
        tools=tuple(_labelled(call) for call in query.gold_trajectory),
        answer=query.reference_answer,
        difficulty=query.difficulty,
    )


def _labelled(call: _GoldCall) -> LabelledCall:
    if "arguments" in call.model_fields_set:
        return LabelledCall(name=call.tool, arguments=call.arguments)
    return LabelledCall(name=call.tool)


_PAPER = "arXiv 2604.10015; the reading of empty trajectories and of arguments is ours"
_RUBRIC = "arXiv 2604.10015; the rubric is in our words"
_ACTION, _EFFICIENCY = "action correctness", "execution efficiency"
_PROCESS, _OUTPUT = "process quality", "output quality"


def _judged(name: str, text: str, label: str, axis: str) -> Metric:
    return Metric(name, text, _RUBRIC, label, is_judged=True, axis=axis, low=1, high=5)


def _computed(
    name: str,
    text: str,
    label: str,
    axis: str = _ACTION,
    *,
    is_main: bool = True,
    in_line: bool = False,
) -> Metric:
    return Metric(name, text, _PAPER, label, is_main=is_main, in_line=in_line, axis=axis)


class FinTrace(Suite):
    """Queries with gold trajectories; nine metrics over whole trajectories, on four axes."""

    title = "FinTrace"
    metrics = (
        _computed("ToolCallingF1", "called and gold tools alike", "Tool-calling F1", in_line=True),
        _computed(
            "ToolCallingPrecision", "gold tools, of those called", "F1, precision", is_main=False
        ),
        _computed(
            "ToolCallingRecall", "tools called, of the gold ones", "F1, recall", is_main=False
        ),
        _computed("ToolCallingF1_arguments", "tools and arguments alike", "F1 with arguments"),
        _computed(
            "ToolCallingPrecision_arguments",
            "gold calls, of those made",
            "F1 with arguments, precision",
            is_main=False,
        ),
        _computed(
            "ToolCallingRecall_arguments",
            "calls made, of the gold ones",
            "F1 with arguments, recall",
            is_main=False,
        ),
        _judged("TaskRelevance", "the calls serve the query", "Task relevance", _ACTION),
        _computed(
            "StepEfficiency",
            "gold steps, of the steps taken; few steps look efficient, so read it beside F1",
            "Step efficiency",
            _EFFICIENCY,
            in_line=True,
        ),
        _computed("Redundancy", "calls that are no repeats", "Redundancy score", _EFFICIENCY),
        _judged("LogicalProgression", "steps follow each other", "Logical progression", _PROCESS),
        _judged("InformationUtilization", "outputs are used", "Information utilization", _PROCESS),
        _judged("ProgressScore", "how much was found", "Progress score", _PROCESS),
        _judged("TaskPassRate", "the task is done", "Task pass rate", _OUTPUT),
        _judged("FinalAnswerQuality", "how good the answer is", "Final answer quality", _OUTPUT),
    )
    measures = (
        *(Measure(metric.name, is_share=metric.is_share) for metric in metrics),
        Measure("all_gold_called", test=True, is_share=False),
    )
    judges = (
        JudgeType(
            "llm",
            "a model is asked, by rubrics",
            lambda parts: TrajectoryJudge(parts.needed_model, repeats=parts.repeats),
            needs_model=True,
        ),
    )
    compares_arguments = True
    exports: ClassVar = {"fintoolbench": for_evaluator}
    groups: ClassVar[Mapping[str, str]] = {"difficulty": "Difficulty", "category": "Category"}
    published = PUBLISHED
    published_note = (
        "from the text of FinTrace's paper, over its own 800 tasks and live tools; its other "
        "figures are not part of this project."
    )

    @classmethod
    def read(cls, name: str, dataset: Path | None) -> Iterable[Task]:
        if dataset is None:
            raise SuiteError(f"{name} does not come with the project; name its file with --dataset")
        return read_tasks(dataset, read_task)

    @classmethod
    def measured(cls, record: EpisodeRecord, last_round: list[ToolCallRecord]) -> Measured:
        """An episode passes if it has an answer and called every gold tool; that is our reading,
        since the paper has no such verdict.
        """
        judged = record.judgement.by_metric if record.judgement is not None else {}
        known = computed(record)
        figures = {
            metric.name: _median(judged.get(metric.name))
            if metric.is_judged
            else known.get(metric.name)
            for metric in cls.metrics
        }
        recall = figures["ToolCallingRecall"]
        answered = record.error is None and bool(record.execution_result.strip())
        passed = answered and recall == 1
        figures["all_gold_called"] = None if recall is None else float(passed)
        failed = [call.fault for call in last_round if not call.ok]
        infrastructure = not passed and (
            record.ending == Ending.MODEL_ERROR
            or (record.error is None and is_infrastructure(failed))
        )
        return Measured(passed, figures, infrastructure)

    @classmethod
    def kind_of(cls, record: EpisodeRecord) -> str:  # noqa: ARG003
        return "trajectory"

    @classmethod
    def summary(cls, metrics: Mapping[str, Any]) -> str:
        return (
            f"{metrics['episodes']} episodes: {metrics['passed']} answered and called every gold "
            f"tool, {metrics['failed_by_infrastructure']} failed by quota, gateway or model alone"
        )

    @classmethod
    def read_traces(cls, file: Path) -> Iterator[Traced]:
        return read_trace(file)


def _median(scores: list[float] | None) -> float | None:
    """The median of repeated judgements. A trace of others may hold some off the scale."""
    valid = [score for score in scores or () if 1 <= score <= 5]
    return float(median(valid)) if valid else None
