"""The suite FinTrace (arXiv 2604.10015), for a dataset of the user's and for our own sample."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

from pydantic import AliasChoices, Field

from bench.judges.judge import JudgeType
from bench.metrics.means import Measured
from bench.record import Ending, EpisodeRecord, ToolCallRecord, is_infrastructure
from bench.suites.files import read_tasks
from bench.suites.fintrace.judge import TrajectoryJudge, most_requested
from bench.suites.fintrace.paper import PAPER, PUBLISHED
from bench.suites.fintrace.trajectory import computed
from bench.suites.suite import Measure, Metric, Suite, Traced, given
from bench.suites.traces import read_trace, to_public
from bench.task import LabelledCall, Task, TaskModel


class _GoldCall(TaskModel):
    name: str = Field(alias="tool")
    arguments: dict[str, Any] = Field({})


class _Query(TaskModel):
    """A line of a dataset: a query with its gold trajectory, the calls in the order of use."""

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
        tools=tuple(
            LabelledCall(**call.model_dump(exclude_unset=True)) for call in query.gold_trajectory
        ),
        answer=query.reference_answer,
        difficulty=query.difficulty,
    )


_PAPER = "arXiv 2604.10015; the reading of empty trajectories and of arguments is ours"
_RUBRIC = "arXiv 2604.10015; the rubric is in our words"
_action = partial(Metric, source=_PAPER, axis="action correctness")
_part = partial(_action, is_main=False)
_efficiency = partial(Metric, source=_PAPER, axis="execution efficiency")
_judged = partial(Metric, source=_RUBRIC, is_judged=True, low=1, high=5)
_process = partial(_judged, axis="process quality")
_output = partial(_judged, axis="output quality")


class FinTrace(Suite):
    """Queries with gold trajectories; nine metrics over whole trajectories, on four axes."""

    title = "FinTrace"
    paper = PAPER
    metrics = (
        _action(
            "ToolCallingF1", "called and gold tools alike", label="Tool-calling F1", in_line=True
        ),
        _part("ToolCallingPrecision", "gold tools, of those called", label="F1, precision"),
        _part("ToolCallingRecall", "tools called, of the gold ones", label="F1, recall"),
        _action("ToolCallingF1_arguments", "tools and arguments alike", label="F1 with arguments"),
        _part(
            "ToolCallingPrecision_arguments",
            "gold calls, of those made",
            label="F1 with arguments, precision",
        ),
        _part(
            "ToolCallingRecall_arguments",
            "calls made, of the gold ones",
            label="F1 with arguments, recall",
        ),
        _part(
            "ToolCallingF1_ceiling",
            "the F1 of an agent that calls just the gold tools that it was offered",
            label="Tool-calling F1, ceiling",
        ),
        _judged(
            "TaskRelevance",
            "the calls serve the query",
            label="Task relevance",
            axis="action correctness",
        ),
        _efficiency(
            "StepEfficiency",
            "gold steps, of the steps taken; few steps look efficient, so read it beside F1",
            label="Step efficiency",
            in_line=True,
        ),
        _efficiency("Redundancy", "calls that are no repeats", label="Redundancy score"),
        _process("LogicalProgression", "steps follow each other", label="Logical progression"),
        _process("InformationUtilization", "outputs are used", label="Information utilization"),
        _process("ProgressScore", "how much was found", label="Progress score"),
        _output("TaskPassRate", "the task is done", label="Task pass rate"),
        _output("FinalAnswerQuality", "how good the answer is", label="Final answer quality"),
    )
    measures = (
        *(Measure(metric.name, is_share=metric.is_share) for metric in metrics),
        Measure("all_gold_called", test=True, is_share=False),
    )
    judges = (
        JudgeType(
            "llm",
            "a model is asked, by rubrics",
            TrajectoryJudge,
            needs_model=True,
            need=most_requested,
        ),
    )
    compares_arguments = True
    reward = "ToolCallingF1"
    limits: ClassVar[Mapping[str, float]] = {"rounds": 30, "calls": 200, "wall_s": 1_800.0}
    """For long horizons: a call a round must reach the end of the longest gold trajectories."""
    exports: ClassVar = {"fintoolbench": to_public}
    groups: ClassVar[Mapping[str, str]] = {"difficulty": "Difficulty", "category": "Category"}
    published = PUBLISHED
    published_note = (
        "from the text of FinTrace's paper, over its own 800 tasks and live tools; its other "
        "figures are not part of this project."
    )

    @classmethod
    def read(cls, name: str, dataset: Path | None) -> Iterable[Task]:
        return read_tasks(given(name, dataset), read_task)

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
        failed = [call for call in last_round if not call.ok]
        infrastructure = not passed and (
            record.ending == Ending.MODEL_ERROR
            or (record.error is None and is_infrastructure(failed))
        )
        return Measured(passed, figures, infrastructure, is_judged=recall is not None)

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
