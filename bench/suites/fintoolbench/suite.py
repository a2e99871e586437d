"""The suite FinToolBench (arXiv 2603.08262), and labelled tasks of any source with its metrics."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel

from bench.judges.judge import JudgeType
from bench.metrics.means import Measured
from bench.record import EpisodeRecord, ToolCallRecord
from bench.suites.files import read_tasks
from bench.suites.fintoolbench.answer import answer_kind
from bench.suites.fintoolbench.llm_judge import LlmJudge, most_requested
from bench.suites.fintoolbench.metrics import (
    LABELLED,
    MARKS,
    MATCH,
    MISMATCH,
    NO_VERDICT,
    SCALE,
    EpisodeOutcome,
    FinToolBenchMetrics,
    row_of,
)
from bench.suites.fintoolbench.paper import PAPER, PUBLISHED
from bench.suites.fintoolbench.rules import RulesJudge
from bench.suites.suite import Measure, Metric, Suite, Traced, given
from bench.suites.traces import read_trace, to_public
from bench.task import LabelledCall, Task
from manifests import Catalog


class _PublishedQuestion(BaseModel):
    dataset_name: str
    category: str
    question: str
    answer: str | None = None
    select_tools: tuple[str, ...] = ()


def read_task(line: bytes, number: int) -> Task:
    """A question of FinToolBench's own file. Its id is that of the public traces,
    `{dataset}_{index}`, where the index is its place in the file: `original_idx` is not unique.
    Labels name tools without arguments. Gold answers are kept unchanged, also the eighteen that
    read "nan". Raises `ValidationError`.
    """
    question = _PublishedQuestion.model_validate_json(line)
    return Task(
        id=f"{question.dataset_name}_{number}",
        category=question.category,
        question=question.question,
        tools=tuple(LabelledCall(name=name) for name in question.select_tools),
        answer=question.answer or "",
        source_dataset=question.dataset_name,
    )


_PAPER = "arXiv 2603.08262, section 4, as its public evaluator counts"
_OURS = "ours: what the infrastructure failed says nothing about an agent"
_NET = "without what is nobody's choice"
_TEXT = "by words in the output"
_MISMATCHED = "mismatched, of judged episodes with a call"
_ANY = "mismatched in any call, of judged episodes with a call"


def _text(name: str, text: str, label: str = "", **more: Any) -> Metric:
    """A metric as the paper's text defines it, where its program computes another."""
    given: dict[str, Any] = {"is_main": False, "is_judged": True, **more}
    source = "arXiv 2603.08262, appendix on metrics"
    label = label or f"{name}, text"
    return Metric(f"{name}_paper", text, source, label, instead_of=name, **given)


class LabelledTasks(Suite):
    """Tasks labelled with tools and gold answers, from our own files, measured as FinToolBench."""

    title = "FinToolBench"
    metrics = (
        Metric("TIR", "invoked a tool, of all episodes", _PAPER, in_line=True),
        Metric("TESR", "passed, of all episodes", _PAPER, in_line=True),
        Metric("TESR_net", f"TESR {_NET}", _OURS, "TESR, net", is_main=False),
        Metric("TESR_text", f"TESR {_TEXT}", _PAPER, "TESR, text rule", is_main=False),
        Metric("CER", "passed, of those that invoked", _PAPER, in_line=True),
        Metric("CER_net", f"CER {_NET}", _OURS, "CER, net", is_main=False),
        Metric("CER_text", f"CER {_TEXT}", _PAPER, "CER, text rule", is_main=False),
        Metric("SoftScore", "mean score of judged answers", _PAPER, "Soft score", is_judged=True),
        Metric("CSS", "SoftScore of those that passed", _PAPER, is_judged=True),
        Metric("TMR", f"timeliness {_MISMATCHED}", _PAPER, better="less", is_judged=True),
        Metric("IMR", f"intent {_MISMATCHED}", _PAPER, better="less", is_judged=True),
        Metric("DMR", f"domain {_MISMATCHED}", _PAPER, better="less", is_judged=True),
        _text("TESR", "the last call succeeded, of all episodes", is_judged=False),
        _text("CER", "the same, of those that invoked; 0 if none did", is_judged=False),
        _text("SoftScore", "mean score over all episodes, unjudged ones 0", "Soft score, text"),
        _text("CSS", "SoftScore by TESR, both by the text", high=inf),
        _text("TMR", f"timeliness {_ANY}", better="less"),
        _text("IMR", f"intent {_ANY}", better="less"),
        _text("DMR", f"domain {_ANY}", better="less"),
    )
    metrics_note = (
        "TIR: invoked a tool, of all episodes. TESR: passed, of all: ended without an error of the "
        "episode and with no failed call in the last round. CER: passed, of those that invoked. "
        "Net: without episodes that failed only through a quota, the gateway, a missing "
        "subscription, an open breaker, an upstream that can't be reached, or the model's "
        "endpoint. Text rule: words in the output mark a call as failed. Soft score: mean score of "
        "the judged answers; CSS: the same over those that passed. TMR, IMR, DMR: episodes in "
        "which a tool of the last round mismatched in timeliness, intent or domain, of the judged "
        "ones with a call; lower is better."
    )
    measures = (
        Measure("TESR", test=True, net=True),
        Measure("TIR", test=True, net=True),
        Measure("SoftScore"),
        Measure("TMR", test=True),
        Measure("IMR", test=True),
        Measure("DMR", test=True),
    )
    scores = (0, 0.5, 1)
    reward = rightness = "SoftScore"
    untyped_note = "TESR and CER are by words in the output: typed outcomes are missing"
    judges = (
        JudgeType("rules", "rules, which need no model", lambda parts: RulesJudge(parts.catalog)),
        JudgeType(
            "llm",
            "a model is asked",
            LlmJudge,
            needs_model=True,
            need=most_requested,
        ),
    )
    groups: ClassVar[Mapping[str, str]] = {
        "category": "Category",
        "language": "Language",
        "source": "Source",
        LABELLED: "Labelled tools",
    }
    exports: ClassVar = {"fintoolbench": to_public}

    @classmethod
    def read(cls, name: str, dataset: Path | None) -> Iterable[Task]:
        return read_tasks(given(name, dataset))

    @property
    def notes(self) -> Sequence[str]:
        lacking = [task.id for task in self.tasks if unavailable(call.name for call in task.tools)]
        if not lacking:
            return ()
        of = f"{len(lacking)} of {len(self.tasks)} tasks"
        return (f"{of} are labelled with tools that can't be called now: {', '.join(lacking)}",)

    @classmethod
    def item(cls, record: EpisodeRecord) -> dict[str, Any]:
        gone = unavailable(record.labelled_tools)
        return {**super().item(record), **({"labels_unavailable": gone} if gone else {})}

    @classmethod
    def new_metrics(cls) -> FinToolBenchMetrics:
        return FinToolBenchMetrics()

    @classmethod
    def measured(cls, record: EpisodeRecord, last_round: list[ToolCallRecord]) -> Measured:
        outcome = EpisodeOutcome.of(record, last_round)
        part, scores = outcome.score
        timeliness, intent, domain = (
            float(mark == MISMATCH) if mark >= MATCH else None for mark in outcome.marks
        )
        figures = {
            "TESR": float(outcome.passed),
            "TIR": float(outcome.invoked),
            "SoftScore": part / SCALE / scores if scores else None,
            "TMR": timeliness,
            "IMR": intent,
            "DMR": domain,
        }
        unmarked = [
            name for name, mark in zip(MARKS, outcome.marks, strict=True) if mark == NO_VERDICT
        ]
        return Measured(outcome.passed, figures, outcome.infrastructure, unmarked)

    @classmethod
    def row_of(cls, record: EpisodeRecord, group: str) -> str:
        return row_of(record, group)

    @classmethod
    def scores_of(cls, judge: str) -> Sequence[float]:
        return () if judge.startswith("llm-authors:") else cls.scores

    @classmethod
    def kind_of(cls, record: EpisodeRecord) -> str:
        return answer_kind(record.ground_truth)

    @classmethod
    def summary(cls, metrics: Mapping[str, Any]) -> str:
        return (
            f"{metrics['episodes']} episodes: {metrics['invoked']} invoked, "
            f"{metrics['passed']} passed, {metrics['failed_by_infrastructure']} failed by quota, "
            "gateway or model alone"
        )

    @classmethod
    def read_traces(cls, file: Path) -> Iterator[Traced]:
        return read_trace(file, cls.scores_of)


def unavailable(names: Iterable[str]) -> list[str]:
    """The tools of these that can't be called, such as functions that AkShare lost."""
    catalog = Catalog.load()
    found = [catalog.get(name) for name in names]
    return [tool.name for tool in found if tool is not None and tool.unavailable]


class FinToolBench(LabelledTasks):
    """The published questions, read from the authors' own file, whose path is given."""

    paper = PAPER
    published = PUBLISHED
    published_note = (
        "FinToolBench's own table of four models, run on live tools. Its evaluator tells failed "
        "calls by words in the output, so its TESR and CER stand at the text rule."
    )

    @classmethod
    def read(cls, name: str, dataset: Path | None) -> Sequence[Task]:
        return read_tasks(given(name, dataset, paper=cls.paper), read_task)
