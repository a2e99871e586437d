"""The suite Finova (github.com/antgroup/Finova): single-turn work with six kinds of answers.

A prompt is the whole message, as published: no tools and no system message.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from bench.judges.judge import JudgeType
from bench.metrics.means import Measured
from bench.record import Ending, EpisodeRecord, ToolCallRecord
from bench.suites.finova.extraction import KINDS
from bench.suites.finova.judge import FinovaJudge
from bench.suites.finova.metrics import READINGS, FinovaMetrics, right
from bench.suites.finova.paper import PAPER, PUBLISHED
from bench.suites.finova.tasks import AUTHORS, read_answers, read_folder
from bench.suites.suite import Measure, Metric, Suite, Traced, given
from bench.task import Task

_SCORER = "the authors' scorer, with our extraction of answers and mathematics"
_TEXTS = {
    "intent_recognition": "the same intents",
    "slot_filling": "every slot is one of the gold ones",
    "tool_planning": "all gold tools are chosen",
    "expression": "the right one of yes and no",
    "compliance": "the right one of yes and no",
    "reasoning": "the right choice or figure",
}
_ours = partial(Metric, source="ours, beside the authors'")


class Finova(Suite):
    """The authors' tasks, from a folder that the user names, and our own sample of their kinds."""

    title = "Finova"
    metrics = (
        Metric(
            "accuracy", "mean of the kinds of tasks, unweighted", _SCORER, "Accuracy", in_line=True
        ),
        Metric(
            "accuracy_published",
            "the same, by the authors' extraction and rules",
            "the authors' scorer",
            "Accuracy, published rule",
        ),
        *(
            Metric(kind, text, _SCORER, kind.replace("_", " ").capitalize())
            for kind, text in _TEXTS.items()
        ),
        _ours("entity_f1", "slots of equal type and content, micro-averaged", label="Entity F1"),
        _ours("tools_exact", "the gold tools are chosen and no others", label="Exact tools"),
        _ours(
            "over_calling",
            "chosen tools that are no gold ones",
            label="Over-calling",
            better="less",
        ),
    )
    paper = PAPER
    published = PUBLISHED
    published_note = (
        "table 3 of Finova's paper (arXiv 2507.16802), by the authors' scorer over 1,350 prompts; "
        "the public data are masked further, so its authors expect small differences."
    )
    measures = tuple(Measure(reading, test=True, net=True) for reading in READINGS)
    scores = (0, 1)
    reward = rightness = "accuracy"
    judges = (
        JudgeType("rules", "the rules of the suite, which need no model", lambda _: FinovaJudge()),
    )
    groups: ClassVar[Mapping[str, str]] = {"category": "Kind of task", "source": "Source"}

    @classmethod
    def read(cls, name: str, dataset: Path | None) -> Iterable[Task]:
        return read_folder(given(name, dataset, "folder", cls.paper))

    @property
    def notes(self) -> Sequence[str]:
        lacking = sorted(set(KINDS) - {task.category for task in self.tasks}, key=KINDS.index)
        if not lacking:
            return ()
        files = ", ".join(f"{kind} ({AUTHORS[kind]})" for kind in lacking)
        text = f"there are no tasks of {files}: the mean is over {len(KINDS) - len(lacking)} kinds"
        return (f"{text}, the paper's is over {len(KINDS)}",)

    @classmethod
    def offered(cls, task: Task) -> Sequence[str]:  # noqa: ARG003
        return ()

    @classmethod
    def new_metrics(cls) -> FinovaMetrics:
        return FinovaMetrics()

    @classmethod
    def measured(cls, record: EpisodeRecord, last_round: list[ToolCallRecord]) -> Measured:  # noqa: ARG003
        verdicts = {reading: right(record.judgement, reading) for reading in READINGS}
        figures = {
            name: None if is_right is None else float(is_right)
            for name, is_right in verdicts.items()
        }
        failed = record.ending == Ending.MODEL_ERROR
        is_right = verdicts["accuracy"]
        return Measured(bool(is_right), figures, failed, is_judged=is_right is not None)

    @classmethod
    def kind_of(cls, record: EpisodeRecord) -> str:
        return record.category

    @classmethod
    def item(cls, record: EpisodeRecord) -> dict[str, Any]:
        kind, _, index = record.id.rpartition("_")
        return {
            "task": kind,
            "index": int(index) if index.isdecimal() else None,
            "right": right(record.judgement, "accuracy"),
            "right_published": right(record.judgement, "accuracy_published"),
            "extracted": record.judgement.extracted if record.judgement is not None else "",
        }

    @classmethod
    def summary(cls, metrics: Mapping[str, Any]) -> str:
        unjudged = f", {metrics['unjudged']} not judged" if metrics["unjudged"] else ""
        differ = sum(metrics["readings_differ"].values())
        return (
            f"{metrics['episodes']} answers: {metrics['passed']} right{unjudged}. "
            f"The published rule judges {differ} of them differently."
        )

    @classmethod
    def read_traces(cls, file: Path) -> Iterator[Traced]:
        return read_answers(file)

    def traces(self, file: Path) -> Iterator[Traced]:
        return read_answers(file, Counter(task.category for task in self.tasks))


assert set(_TEXTS) == set(KINDS)  # noqa: S101
