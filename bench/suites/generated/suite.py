"""The suite of generated tasks: it needs no judge, since each answer is proved."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from adapters.simulator.world.world import VERSION
from bench.metrics.means import Measured
from bench.record import Ending, EpisodeRecord, ToolCallRecord, is_infrastructure
from bench.suites.files import read_tasks
from bench.suites.generated.answer import Answer
from bench.suites.generated.facts import subjects, views
from bench.suites.generated.program import leaves
from bench.suites.suite import Measure, Metric, Suite, SuiteError, given
from bench.suites.traces import to_public
from bench.task import LabelledCall, Task, TaskModel

TASKS = "tasks.jsonl"
"""The file of tasks in a folder that also holds their snapshot."""


MOST_CHARS, MOST_LEAVES = 20_000, 80
"""The longest program that is read, and the most facts in it."""


class _Call(TaskModel):
    tool: str
    arguments: dict[str, Any]


class WorldOf(TaskModel):
    """The world about which a task asks."""

    seed: int
    now: date
    version: int


class Line(TaskModel):
    """A line of a file of tasks, as `finbench tasks make` writes it. `calls` are those of the
    oracle, and `tools` are those that an agent is offered.
    """

    id: str = Field(min_length=1)
    question: str = Field(min_length=1)
    language: Literal["zh", "en"]
    difficulty: Literal[1, 2, 3, 4, 5]
    template: str
    answer: Answer
    program: str
    calls: tuple[_Call, ...]
    tools: tuple[str, ...]
    world: WorldOf


def read_line(text: bytes, _number: int) -> Task:
    """Raises `ValidationError`, and `ValueError` for a task about another version of the world."""
    line = Line.model_validate_json(text)
    if line.world.version != VERSION:
        told = f"version {line.world.version} of the simulated world, this is {VERSION}"
        raise ValueError(f"world: the task is about {told}; make the tasks anew")
    known = subjects().keys(), views()
    if len(line.program) > MOST_CHARS or len(leaves(line.program)) > MOST_LEAVES:
        raise ValueError(f"program: it is over {MOST_CHARS} characters or {MOST_LEAVES} facts")
    for leaf in leaves(line.program):
        if leaf.subject not in known[0] or leaf.fact not in getattr(
            known[1].get(leaf.tool), "facts", ()
        ):
            raise ValueError(f"program: no tool answers {leaf.text}")
    return Task(
        id=line.id,
        category=line.template,
        question=line.question,
        tools=tuple(LabelledCall(name=one.tool, arguments=one.arguments) for one in line.calls),
        answer=line.answer.model_dump_json(exclude_defaults=True),
        source_dataset=line.language,
        difficulty=str(line.difficulty),
        details={
            "program": line.program,
            "offered": list(line.tools),
            "world": line.world.model_dump(mode="json"),
        },
    )


def tasks_file(dataset: Path) -> Path:
    """The file of tasks that a path names: itself, or the one in a folder."""
    return dataset / TASKS if dataset.is_dir() else dataset


class Generated(Suite):
    """Questions about the simulated market, made by programs."""

    title = "Generated tasks"
    metrics = (
        Metric(
            "Accuracy",
            "the answer is the one that the world proves, within its tolerance",
            source="docs/suites.md",
            in_line=True,
        ),
        Metric(
            "StepCredit",
            "values on the way to the answer that stand in what the agent read",
            source="docs/suites.md",
            label="Step credit",
        ),
        Metric(
            "Efficiency",
            "calls of the oracle, of those made; at most 1",
            source="docs/suites.md",
            in_line=True,
        ),
        Metric(
            "AboveChance",
            "accuracy above that of a blind guess, as a share of what is left above it",
            source="docs/suites.md",
            label="Above chance",
            low=-1,
        ),
    )
    measures = (
        Measure("Accuracy", test=True, net=True),
        Measure("StepCredit"),
        Measure("Efficiency"),
    )
    groups: ClassVar[Mapping[str, str]] = {
        "difficulty": "Difficulty",
        "language": "Language",
        "category": "Template",
    }
    tabled = "difficulty"
    reward = rightness = "Accuracy"
    limits: ClassVar[Mapping[str, float]] = {"rounds": 30}
    exports: ClassVar = {"fintoolbench": to_public}

    @classmethod
    def read(cls, name: str, dataset: Path | None) -> Iterable[Task]:
        file = tasks_file(given(name, dataset, "file of tasks"))
        tasks = read_tasks(file, read_line)
        if len({str(task.details["world"]) for task in tasks}) > 1:
            raise SuiteError(f"{file}: the tasks are about several worlds; keep each in a file")
        return tasks

    @classmethod
    def offered(cls, task: Task) -> Sequence[str]:
        return list(task.details["offered"])

    @classmethod
    def stated(cls, task: Task) -> str:
        return Answer.model_validate_json(task.answer).text if task.answer else ""

    @property
    def gateway_settings(self) -> Mapping[str, Any]:
        """The world of the tasks."""
        return simulated(self.tasks[0])

    @property
    def gateway_health(self) -> Mapping[str, Any]:
        """A gateway elsewhere must answer about the same world."""
        world = self.tasks[0].details["world"]
        now = world["now"].replace("-", "")
        return {"world": f"{world['seed']}-{now}-{world['version']}"}

    @classmethod
    def measured(cls, record: EpisodeRecord, last_round: list[ToolCallRecord]) -> Measured:
        if not record.ground_truth:
            return Measured(False, {}, is_judged=False)
        answer = Answer.model_validate_json(record.ground_truth)
        is_right = record.error is None and answer.is_stated(record.execution_result)
        calls = record.agent_calls
        texts = [str(call.observed or call.output) for call in calls if call.ok]
        needed = len(record.labelled_tools)
        failed = [call for call in last_round if not call.ok]
        infrastructure = not is_right and (
            record.ending == Ending.MODEL_ERROR or is_infrastructure(failed)
        )
        figures = {
            "Accuracy": float(is_right),
            "StepCredit": answer.steps_seen(texts),
            "Efficiency": min(needed / len(calls), 1.0) if calls else 0.0,
            "AboveChance": (is_right - answer.chance) / (1 - answer.chance),
        }
        return Measured(is_right, figures, infrastructure)

    @classmethod
    def kind_of(cls, record: EpisodeRecord) -> str:
        return Answer.model_validate_json(record.ground_truth).asked if record.ground_truth else ""

    @classmethod
    def summary(cls, metrics: Mapping[str, Any]) -> str:
        return (
            f"{metrics['episodes']} episodes: {metrics['passed']} right, "
            f"{metrics['failed_by_infrastructure']} failed by quota, gateway or model alone"
        )


def simulated(task: Task) -> dict[str, Any]:
    """The settings of a gateway that answers about the world of a task."""
    world = task.details["world"]
    now = date.fromisoformat(world["now"])
    return {"upstream": "simulated", "simulated_seed": world["seed"], "simulated_now": now}
