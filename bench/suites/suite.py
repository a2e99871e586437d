"""The interface of a suite, through which all other code uses it without naming any suite.

A suite is a class. It says which tasks there are, which tools an agent is offered for a task, which
judges there are, and in which metrics episodes are counted. An instance is the suite with its
tasks. A user's own suite is a subclass in the user's file, named `module:Class`.
"""

from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import blake2b
from math import atan, isfinite, pi
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self

from bench.judges.judge import JudgeType
from bench.metrics.interval import percent
from bench.metrics.means import Means, Measured
from bench.own import words_of
from bench.record import Ending, EpisodeRecord, ToolCallRecord
from bench.suites.paper import Paper
from bench.suites.sampling import fields_of, sample
from bench.task import GROUPS, Task, TaskModel
from manifests import Catalog
from manifests.common.nearest import MAX_SHOWN, did_you_mean, hint, nearest, not_among

NOT_METRICS = frozenset(
    {
        *("episodes", "passed", "failed_by_infrastructure", "judged", "intervals", "breakdown"),
        *("usage", "models", "tool_use", "traffic", "digest", "snapshot", "outcome", "filled"),
        *("confusion", "denominators", "incomplete_line", "passes"),
    }
)
"""Keys of `metrics.json` and of what `finbench score --json` prints that are no metric's."""


MOST_IDS = 10_000
"""The most tasks that are chosen by their ids, which are in `run.json`."""


class SuiteError(Exception):
    """A suite can't be read; the text names the place and the reason."""


def given(name: str, dataset: Path | None, what: str = "file", paper: Paper | None = None) -> Path:
    """The dataset of the suite `name`, which the user must give. Raises `SuiteError`, with the
    command that fetches it if the authors of the `paper` publish it.
    """
    if dataset is None:
        text = f"{name} does not come with the project; name its {what} with --dataset"
        fetch = f" (finbench fetch {name} gets it)" if paper and paper.repository else ""
        raise SuiteError(text + fetch)
    return dataset


class TraceFormatError(Exception):
    """A line is not a trace; the text names file, line and field."""


class _Tasks(TaskModel):
    name: str
    tasks: tuple[Task, ...]


_LATER_FIELDS = ("difficulty", "details")
"""Fields of tasks that are left out of the digest if no task has any: it is older than they are."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure over episodes from `low` to `high`, under the name that its paper gives it.

    From 0 to 1 it is a share, shown in percent; any other is shown as a number. `label` is its name
    in a report, `text` describes it, `source` says where its formula is, and `better` which
    direction is better. `axis` is the heading under which it is shown. Metrics with `is_main` are
    shown during a run, and large in its report; those with `in_line` also where a run can only
    print lines. Those with `is_judged` need a judge. One that reads `instead_of` another as the
    paper's text does, where the authors' program differs, is shown in its place if it is asked for.
    """

    name: str
    text: str
    source: str = ""
    label: str = ""
    better: Literal["more", "less"] = "more"
    is_main: bool = True
    in_line: bool = False
    is_judged: bool = False
    instead_of: str = ""
    axis: str = ""
    low: float = 0.0
    high: float = 1.0

    @property
    def title(self) -> str:
        return self.label or self.name

    @property
    def is_share(self) -> bool:
        return (self.low, self.high) == (0, 1)

    @property
    def is_bounded(self) -> bool:
        return isfinite(self.low) and isfinite(self.high)

    def text_of(self, value: float | None) -> str:
        """A value as people read it."""
        if value is None:
            return "undefined"
        return percent(value) if self.is_share else f"{value:.2f}"

    def interval_of(self, rates: Mapping[str, Any]) -> str:
        """Its interval as people read it; empty if `rates` have none."""
        found = rates["intervals"].get(self.name)
        return f"{self.text_of(found[0])} to {self.text_of(found[1])}" if found else ""

    def place_of(self, value: float) -> float:
        """Where a value lies between `low` and `high`, from 0 to 1. Where an end is infinite, 0 is
        in the middle.
        """
        if not self.is_bounded:
            return 0.5 + atan(value) / pi
        return (value - self.low) / (self.high - self.low)


def read_as(metrics: Sequence[Metric], reading: str) -> list[Metric]:
    """The metrics by a reading of the paper: `program` is that of the authors' program, `paper`
    that of their text, where the two differ.
    """
    if reading == "program":
        return [metric for metric in metrics if not metric.instead_of]
    of_text = {metric.instead_of: metric for metric in metrics if metric.instead_of}
    return [of_text.get(one.name, one) for one in metrics if not one.instead_of]


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of a single episode, by which two runs are compared. `test` adds McNemar's test.
    `net` adds a second figure without episodes that failed only because of the infrastructure.
    `is_share` figures lie between 0 and 1, and are shown as a percentage; each is that of a metric.
    `better` is which direction is better where no metric has its name.
    """

    name: str
    test: bool = False
    net: bool = False
    is_share: bool = True
    better: Literal["more", "less"] = "more"


@dataclass(frozen=True, slots=True)
class Environment:
    """The session in which an episode takes place. The driver calls the tool `opening` with
    `arguments` before the first turn, gives the session's id to all calls of `tools`, and calls
    `closing` with it after the last turn. No record holds the id.
    """

    opening: str
    closing: str
    tools: tuple[str, ...]
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Chart:
    """Series over days for a report. Each panel has lines by name, with a value for each day."""

    title: str
    text: str
    days: Sequence[str]
    panels: Mapping[str, Mapping[str, Sequence[float]]]


class Charts(Protocol):
    """Collects from episodes what a suite's charts show."""

    def add(self, record: EpisodeRecord) -> None: ...

    def drawn(self) -> Sequence[Chart]: ...


SHARED_MEASURES = (
    *(
        Measure(name, is_share=False, better="less")
        for name in ("calls", "rounds", "tokens", "wall_s")
    ),
    Measure("cache_hit_rate"),
)
"""Measures that episodes of every suite have. Answers from a cache take no time, so times compare
only where their shares are alike.
"""


@dataclass(frozen=True, slots=True)
class Traced:
    """An episode that was read from a trace. `typed`: the outcome of each call was recorded, not
    guessed from a text.
    """

    record: EpisodeRecord
    typed: bool


class SuiteMetrics(Protocol):
    """The metrics of one suite over episodes. They count in whole numbers, so the result does not
    depend on the order of the episodes or on how they are split.
    """

    def add(self, record: EpisodeRecord, last_round: list[ToolCallRecord]) -> None: ...

    def merge(self, other: Self) -> None: ...

    def rates(self) -> dict[str, Any]:
        """Each metric by its name, None where it is undefined, with its parts. `intervals` has the
        ends of each 95 % interval by name; `denominators`, if present, the number of episodes that
        each metric is over. It must be cheap: it is called four times a second.
        """
        ...

    def details(self) -> dict[str, Any]:
        """Further results. `breakdown`, if present, has metrics by group and row; `confusion` has,
        by title, how many episodes of each right answer got which answer; `passes` has pass@k and
        pass^k (`bench.metrics.passes`).
        """
        ...

    def counts(self) -> Mapping[str, str]:
        """For each metric, over how many episodes it is, in words."""
        ...


class Suite(ABC):
    """A suite with its tasks. Raises `SuiteError` for tasks that are not valid."""

    title: ClassVar[str]
    """The title of its metrics."""
    metrics: ClassVar[Sequence[Metric]] = ()
    measures: ClassVar[Sequence[Measure]] = ()
    """The figures of single episodes by which runs are compared."""
    scores: ClassVar[Sequence[float]] = ()
    """The scores that a judge may give; any from 0 to 1 if there are none."""
    untyped_note: ClassVar[str] = ""
    """What is said beside figures from traces without typed outcomes."""
    judges: ClassVar[Sequence[JudgeType]] = ()
    """The judges; the first one that needs no model is the default."""
    metrics_note: ClassVar[str] = ""
    """A report's note on all metrics; if empty, it is made of their texts."""
    groups: ClassVar[Mapping[str, str]] = {}
    """The groups of the breakdown, with their names in a report: fields of a record, unless the
    suite has metrics of its own. Those of all suites are `bench.task.GROUPS`.
    """
    tabled: ClassVar[str] = ""
    """The group whose rows are printed after a run, if any."""
    published: ClassVar[Mapping[str, Mapping[str, float]]] = {}
    """Metrics that the suite's authors publish, by what they measured."""
    published_note: ClassVar[str] = ""
    """Who published these metrics, and what to consider when comparing with them."""
    has_verdicts: ClassVar[bool] = True
    """Whether `Measured.passed` judges the agent, so that repeats have pass@k and pass^k."""
    reward: ClassVar[str] = ""
    """The figure of an episode that a trainer takes as its reward; whether it passed if empty."""
    rightness: ClassVar[str] = ""
    """The figure from 0 to 1 that says how right its answer is; whether it passed if empty."""
    compares_arguments: ClassVar[bool] = False
    """Whether its metrics compare arguments; records then hold those of the labelled calls."""
    exports: ClassVar[Mapping[str, Callable[[EpisodeRecord], dict[str, Any]]]] = {}
    """The suite's own export formats: by name, a function from an episode to a line of JSON."""
    limits: ClassVar[Mapping[str, float]] = {}
    """Limits of an episode by their name in `bench.runs.driver.Limits`, where it needs others than
    the default ones.
    """
    paper: ClassVar[Paper | None] = None
    """What its paper did, if it has one."""
    is_recorded: ClassVar[bool] = False
    """Whether the answers of its tools are recorded ones, whatever upstream a gateway has."""
    moving_tools: ClassVar[Collection[str]] = ()
    """The tools whose calls change the state of an environment's session."""
    dataset: Path | None = None
    """The file or folder from which the tasks were read, if it was given."""
    selection: Mapping[str, Any] = {}
    """How the tasks were chosen from those of the suite, for `run.json`; empty if they are all."""

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

    def selected(
        self, wanted: int | Collection[str], *, seed: int = 0, stratify: Sequence[str] = ()
    ) -> Self:
        """The suite with fewer tasks, in their order: those of these ids, or so many of them by
        `seed` (`bench.suites.sampling`), in the proportions of the fields `stratify`. Raises
        `SuiteError`.
        """
        there = f"{self.name} has {len(self.tasks)} tasks"
        about: dict[str, Any] = {"of": len(self.tasks), "of_digest": self.digest}
        if isinstance(wanted, int):
            if not 1 <= wanted <= len(self.tasks):
                raise SuiteError(f"{wanted} tasks can't be chosen: {there}")
            fields = fields_of(self.tasks)
            if odd := [name for name in stratify if name not in fields]:
                raise SuiteError(f"{self.name} has no field {not_among(odd[0], fields)}")
            ids, strata = sample(self.tasks, wanted, seed, stratify)
            about |= {"seed": seed, "stratify": [*stratify]}
            about |= {"strata": strata} if stratify else {}
        else:
            ids, known = {*wanted}, {task.id for task in self.tasks}
            if not 1 <= len(ids) <= MOST_IDS:
                raise SuiteError(f"{len(ids)} tasks are named: name 1 to {MOST_IDS}")
            if unknown := sorted(ids - known):
                more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
                text = f"no task has the id {unknown[0][:MAX_SHOWN]!r}{more}"
                raise SuiteError(f"{there}: {text}{hint(nearest(unknown[0][:MAX_SHOWN], known))}")
            about |= {"ids": sorted(ids)}
        made = copy(self)
        vars(made).pop("digest", None)
        made.tasks = tuple(task for task in self.tasks if task.id in ids)
        made.selection = {"tasks": len(made.tasks), **about}
        return made

    def arguments_of(self, task: Task) -> list[dict[str, Any] | None]:
        """The arguments of a task's labelled calls, if episodes are measured by them."""
        return task.labelled_arguments if self.compares_arguments else []

    @classmethod
    def all_groups(cls) -> Mapping[str, str]:
        """The groups of its breakdown: its own, and those of all suites."""
        return {**cls.groups, **{name: GROUPS[name] for name in GROUPS if name not in cls.groups}}

    @classmethod
    def row_of(cls, record: EpisodeRecord, group: str) -> str:
        """The row of a group in which an episode counts."""
        return str(getattr(record, group))

    @classmethod
    def overrides(cls, method: str) -> bool:
        """Whether it has a method of its own in place of that of `Suite`."""
        return next(kind for kind in cls.__mro__ if method in vars(kind)) is not Suite

    @property
    def notes(self) -> Sequence[str]:
        """What is to be known about these tasks before they are run or scored."""
        return ()

    @property
    def offers_tools(self) -> bool:
        """Whether it says itself which tools an agent is offered."""
        return self.overrides("offered")

    def check_labels(self, catalog: Catalog) -> None:
        """Raises `SuiteError` if a task is labelled with what is neither a tool of `catalog` nor
        one of the project's own, which a smaller catalogue may lack.
        """
        own: Catalog | None = None
        for task in self.tasks:
            for call in task.tools:
                if catalog.get(call.name) is not None:
                    continue
                own = own or Catalog.load()
                if own.get(call.name) is None:
                    hint = did_you_mean(call.name, [tool.name for tool in (*catalog, *own)])
                    text = f"task {task.id} is labelled with {call.name!r}, which is no tool{hint}"
                    raise SuiteError(f"{self.name}: {text}")

    @cached_property
    def digest(self) -> str:
        """16 hex digits: a hash of the suite's name and all its tasks."""
        unused = {n for n in _LATER_FIELDS if not any(getattr(task, n) for task in self.tasks)}
        tasks = _Tasks(name=self.name, tasks=self.tasks)
        text = tasks.model_dump_json(exclude={"tasks": {"__all__": unused}})
        return blake2b(text.encode(), digest_size=8).hexdigest()

    @classmethod
    @abstractmethod
    def read(cls, name: str, dataset: Path | None) -> Iterable[Task]:
        """The tasks, from the file `dataset` if the suite takes one. Raises `SuiteError`."""

    @classmethod
    def new_metrics(cls) -> SuiteMetrics:
        """Metrics over no episodes yet: each is the mean of what `measured` has under its name."""
        ranges = {metric.name: (metric.low, metric.high) for metric in cls.metrics}
        measured = partial(_measured, cls)
        return Means(ranges, measured, cls.all_groups(), has_verdicts=cls.has_verdicts)

    @classmethod
    @abstractmethod
    def measured(cls, record: EpisodeRecord, last_round: list[ToolCallRecord]) -> Measured:
        """The figures of one episode."""

    @classmethod
    def offered(cls, task: Task) -> Sequence[str] | None:  # noqa: ARG003 - for overriding suites
        """The tools that an agent is offered for a task. A suite that says so decides for all its
        tasks; None then stands for the tools that the task is labelled with. Any other suite leaves
        it to the run: the tools that a search finds, or the labelled ones.
        """
        return None

    @classmethod
    def stated(cls, task: Task) -> str:
        """The answer of a task as an agent states it."""
        return task.answer

    @classmethod
    def environment(cls, task: Task) -> Environment | None:  # noqa: ARG003
        """The session in which an episode of a task takes place, if any."""
        return None

    @classmethod
    def moves(
        cls,
        played: Sequence[tuple[str, dict[str, Any]]],
        task: Task,  # noqa: ARG003
    ) -> Sequence[tuple[str, dict[str, Any]]]:
        """Which of these calls of `moving_tools` made a state from which an interrupted episode can
        go on. There is a checkpoint when all since the last one did.
        """
        return played

    @property
    def gateway_settings(self) -> Mapping[str, Any]:
        """Settings that a gateway needs for the suite's tools."""
        return {}

    @property
    def gateway_health(self) -> Mapping[str, Any]:
        """What the health of a gateway elsewhere must say, so that its tools are the suite's. It
        may read files.
        """
        return {}

    def check_gateway(self, health: Mapping[str, Any]) -> None:
        """Raises `SuiteError` for a gateway whose health says that its tools are not the suite's.
        It may read files.
        """
        for name, value in self.gateway_health.items():
            if (found := health.get(name)) != value:
                text = f"the gateway's {name} is {found}, that of the dataset is {value}"
                raise SuiteError(f"{self.name}: {text}")

    @classmethod
    def scores_of(cls, judge: str) -> Sequence[float]:  # noqa: ARG003 - for overriding suites
        """The scores that a judge of this name may give."""
        return cls.scores

    @classmethod
    def is_wrong(cls, record: EpisodeRecord, measured: Measured) -> bool:
        """Whether an episode ended with an answer that is not wholly right, as far as is known. A
        failed call is another matter.
        """
        if record.ending != Ending.ANSWER or not cls.has_verdicts:
            return False
        if not cls.rightness:
            return measured.is_of_agent and not measured.passed
        value = measured.figures.get(cls.rightness)
        return value is not None and value < 1

    @classmethod
    def kind_of(cls, record: EpisodeRecord) -> str:  # noqa: ARG003
        """The kind of answer that an episode's task asks for, as in its judgement."""
        return "none"

    @classmethod
    def item(cls, record: EpisodeRecord) -> dict[str, Any]:
        """The verdict on one episode, a line of `finbench score --items`."""
        found = measure(cls, record)
        return {"id": record.id, "repeat": record.repeat, "right": found.passed, **found.figures}

    @classmethod
    def summary(cls, metrics: Mapping[str, Any]) -> str:
        """One line about the episodes behind the metrics of a finished run."""
        return f"{metrics['episodes']} episodes"

    @classmethod
    def new_charts(cls) -> Charts | None:
        """Charts for a report over no episodes yet, if the suite has any."""
        return None

    @classmethod
    def series(cls, record: EpisodeRecord) -> "array[float] | None":  # noqa: ARG003
        """What each day of an episode earned, in a suite whose episodes have days."""
        return None

    @classmethod
    def compare_series(
        cls,
        category: str,  # noqa: ARG003
        a: "Sequence[array[float]]",  # noqa: ARG003
        b: "Sequence[array[float]]",  # noqa: ARG003
    ) -> dict[str, Any]:
        """By figure, the difference of the repeats `b` of a task from its repeats `a`, paired by
        day: `difference` and `interval`.
        """
        return {}

    @classmethod
    def costly(cls, metrics: SuiteMetrics) -> dict[str, Any]:  # noqa: ARG003
        """Further results that take long to compute, for `finbench score`."""
        return {}

    @classmethod
    def score_file(
        cls,
        file: Path,  # noqa: ARG003
        dataset: Path | None,  # noqa: ARG003
        *,
        with_intervals: bool,  # noqa: ARG003
    ) -> list[dict[str, Any]] | None:
        """Rows of figures for a file that holds something else than episodes; None if the suite
        scores episodes. Raises `SuiteError` and `TraceFormatError`.
        """
        return None

    @classmethod
    def read_traces(cls, file: Path) -> Iterator[Traced]:
        """The episodes in a trace file of another project. Raises `TraceFormatError`, and
        `IncompleteLineError` after all episodes if the last line was cut off.
        """
        raise TraceFormatError(f"{file}: {cls.title} is scored from run directories only")

    def traces(self, file: Path) -> Iterator[Traced]:
        """The episodes in a trace file about this suite's tasks. Raises as `read_traces`, also
        where the format says which task is meant and there is none.
        """
        return self.read_traces(file)


def measure(suite: type[Suite], record: EpisodeRecord) -> Measured:
    """What `Suite.measured` says of an episode. Raises `SuiteError` for whatever that raises."""
    try:
        return _measured(suite, record, record.last_round)
    except Exception as error:
        why = str(error) if isinstance(error, SuiteError) else words_of(error)
        raise SuiteError(f"{suite.__name__}: episode {record.episode}: {why}") from error


def _measured(
    suite: type[Suite], record: EpisodeRecord, last_round: list[ToolCallRecord]
) -> Measured:
    """What `Suite.measured` says. Raises `SuiteError` for a figure of an unknown name."""
    found = suite.measured(record, last_round)
    known = {metric.name for metric in suite.metrics} | {measure.name for measure in suite.measures}
    for name in found.figures:
        if name not in known:
            text = f"`measured` gives the figure {name!r}, which is no metric or measure"
            raise SuiteError(text + did_you_mean(str(name), known))
    return found
