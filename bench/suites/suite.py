"""The suite seam: what a suite says of itself, so that all others ask it and name none.

A suite is a class. It says which tasks there are, what an agent is offered for one, which judges
there are, and which metrics episodes are counted in; an instance is the suite with its tasks. One
of a user's own is a subclass in a file of theirs, named `module:Class`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self

from bench.judges.judge import JudgeType
from bench.metrics.means import Means
from bench.record import EpisodeRecord, ToolCallRecord
from bench.task import Task, TaskModel


class SuiteError(Exception):
    """A suite can't be read; the text names the place and the reason."""


class TraceFormatError(Exception):
    """A line is no trace; the text names file, line and field."""


class _Tasks(TaskModel):
    name: str
    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class Metric:
    """A share or score from 0 to 1 over episodes, under the name that it has in its paper.

    `label` is what a report calls it, `text` what it is, `source` where its formula stands,
    `better` says in which direction. `is_main` ones are shown while a run goes on, and large in
    its report; `in_line` ones also where a run can only print lines. `is_judged` ones want a
    judge.
    """

    name: str
    text: str
    source: str = ""
    label: str = ""
    better: Literal["more", "less"] = "more"
    is_main: bool = True
    in_line: bool = False
    is_judged: bool = False


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure that single episodes have, by which two runs are compared. `test` adds McNemar's
    test, `net` a second reading without what failed through nobody but the infrastructure.
    """

    name: str
    test: bool = False
    net: bool = False


@dataclass(frozen=True, slots=True)
class Measured:
    """What one episode comes to. `figures` are by measure or metric, None where it has none.
    `infrastructure`: it failed through nobody but a quota, the gateway or the model's endpoint.
    """

    passed: bool
    figures: Mapping[str, float | None]
    infrastructure: bool = False


@dataclass(frozen=True, slots=True)
class Traced:
    """An episode as it was read from a trace. `typed`: the outcome of each of its calls was
    recorded, none was guessed from a text.
    """

    record: EpisodeRecord
    typed: bool


class SuiteMetrics(Protocol):
    """The metrics of one suite over episodes, counted in whole numbers, so that any order and any
    split gives the same.
    """

    def add(self, record: EpisodeRecord, last_round: list[ToolCallRecord]) -> None: ...

    def merge(self, other: Self) -> None: ...

    def rates(self) -> dict[str, Any]:
        """Each metric by its name, None where it is undefined, with what it is made of; `intervals`
        has by name the ends of that of 95 %. Cheap: it is asked for four times a second.
        """
        ...

    def details(self) -> dict[str, Any]:
        """What there is beside them. `breakdown`, if any, has metrics by group and row."""
        ...

    def counts(self) -> Mapping[str, str]:
        """By metric, of how many episodes it is, in words."""
        ...


class Suite(ABC):
    """A suite with its tasks. Raises `SuiteError` for tasks that are none."""

    title: ClassVar[str]
    """What its metrics are called."""
    metrics: ClassVar[Sequence[Metric]] = ()
    measures: ClassVar[Sequence[Measure]] = ()
    """Those of single episodes, first the one that says whether an episode passed."""
    judges: ClassVar[Sequence[JudgeType]] = ()
    """First the one that judges where nothing else is said."""
    metrics_note: ClassVar[str] = ""
    """What a report says of them all; else it is made of their texts."""
    groups: ClassVar[Mapping[str, str]] = {}
    """Groups of the breakdown, and what a report calls them."""
    published: ClassVar[Mapping[str, Mapping[str, float]]] = {}
    """Metrics that its authors publish, by what they measured."""
    published_note: ClassVar[str] = ""
    """Whose these are, and what to keep in mind beside them."""
    exports: ClassVar[Mapping[str, Callable[[EpisodeRecord], dict[str, Any]]]] = {}
    """Formats of its own: by name, what an episode is as a line of JSON."""

    def __init__(self, name: str, tasks: Iterable[Task]) -> None:
        self.name = name
        self.tasks = tuple(tasks)
        if not self.tasks:
            raise SuiteError(f"{name} holds no tasks")
        seen: set[str] = set()
        for task in self.tasks:
            if task.id in seen:
                raise SuiteError(f"{name}: two tasks have the id {task.id}")
            seen.add(task.id)

    @property
    def offers_tools(self) -> bool:
        """Whether it says itself which tools an agent is offered."""
        return self.offered(self.tasks[0]) is not None

    @cached_property
    def digest(self) -> str:
        """16 hex digits over its name and all its tasks."""
        text = _Tasks(name=self.name, tasks=self.tasks).model_dump_json()
        return blake2b(text.encode(), digest_size=8).hexdigest()

    @classmethod
    @abstractmethod
    def read(cls, name: str, dataset: Path | None) -> Iterable[Task]:
        """The tasks, where it takes one from the file `dataset`. Raises `SuiteError`."""

    @classmethod
    def new_metrics(cls) -> SuiteMetrics:
        """Metrics over no episodes yet: each the mean of what `measured` says under its name."""
        return Means([metric.name for metric in cls.metrics], cls.measured)

    @classmethod
    @abstractmethod
    def measured(cls, record: EpisodeRecord, last_round: list[ToolCallRecord]) -> Measured:
        """What an episode comes to."""

    @classmethod
    def offered(cls, task: Task) -> Sequence[str] | None:  # noqa: ARG003 - for suites that say
        """The tools that an agent is offered for a task; None for each task: those that a search
        finds, or those that it is labelled with, as the run says.
        """
        return None

    @classmethod
    def kind_of(cls, record: EpisodeRecord) -> str:  # noqa: ARG003
        """What kind of answer an episode's task wants, as its judgement says it."""
        return "none"

    @classmethod
    def summary(cls, metrics: Mapping[str, Any]) -> str:
        """One line about the episodes behind the metrics of a finished run."""
        return f"{metrics['episodes']} episodes"

    @classmethod
    def read_traces(cls, file: Path) -> Iterator[Traced]:
        """The episodes in a file that others wrote. Raises `TraceFormatError`."""
        raise TraceFormatError(f"{file}: {cls.title} is scored from run directories only")
