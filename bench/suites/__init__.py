"""Suites by name: those of the project, and a user's own as `module:Class`.

Any other name is that of labelled tasks in a file of the user's.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from bench.own import OwnError, is_own, load, words_of
from bench.record import EpisodeRecord
from bench.suites.finova.suite import Finova
from bench.suites.fintoolbench.suite import FinToolBench, LabelledTasks
from bench.suites.fintrace.suite import FinTrace
from bench.suites.generated.suite import Generated
from bench.suites.investorbench.suite import InvestorBench
from bench.suites.suite import NOT_METRICS, SHARED_MEASURES, Suite, SuiteError
from bench.task import GROUPS
from manifests.common.nearest import did_you_mean

_HERE = Path(__file__).parent
BUILT_IN: Mapping[str, Path] = {
    "starter": _HERE / "starter.jsonl",
    "finova-sample": _HERE / "finova" / "sample",
    "fintrace-sample": _HERE / "fintrace" / "sample.jsonl",
}
"""The datasets that come with the project, by the name of their suite."""

SUITES: Mapping[str, type[Suite]] = {
    "starter": LabelledTasks,
    "fintoolbench": FinToolBench,
    "finova": Finova,
    "finova-sample": Finova,
    "fintrace": FinTrace,
    "fintrace-sample": FinTrace,
    "investorbench": InvestorBench,
    "generated": Generated,
}


def suite_names() -> list[str]:
    """The names of the suites that come with the project or that it can read."""
    return sorted(SUITES)


def suite_named(name: str) -> type[Suite]:
    """The declaration of the suite of that name, from the user. Raises `SuiteError`."""
    if not is_own(name):
        return SUITES.get(name, LabelledTasks)
    try:
        found = load(name)
    except OwnError as error:
        raise SuiteError(f"suite {error}") from error
    if not (isinstance(found, type) and issubclass(found, Suite)):
        raise SuiteError(f"suite {name}: it is no subclass of Suite")
    _check(name, found)
    return found


def suite_of_run(recorded: str, given: str | None = None) -> type[Suite]:
    """The suite of a run directory, whose settings have the name `recorded`. A directory is data,
    so nothing is imported because it says so: the user gives the name of a suite of their own.
    Raises `SuiteError`.
    """
    if given is not None:
        return suite_named(given)
    if is_own(recorded):
        raise SuiteError(f"the run is of a suite in a file of its own: name it, --suite {recorded}")
    return suite_named(recorded)


def load_suite(name: str, dataset: Path | None = None) -> Suite:
    """The suite with its tasks, from the file `dataset` if it has one. Raises `SuiteError`."""
    suite = suite_named(name)
    if is_own(name):
        try:
            return _made(suite, name, dataset)
        except SuiteError:
            raise
        except Exception as error:
            raise SuiteError(f"suite {name}: {words_of(error)}") from error
    dataset = dataset or BUILT_IN.get(name)
    if dataset is None and name not in SUITES:
        raise SuiteError(f"no suite is named {name!r}; there are: {', '.join(suite_names())}")
    if not re.fullmatch(r"[\w.-]+", name) or name.startswith("."):
        raise SuiteError(f"{name!r} is no name for a suite: letters, digits, '-', '_' and '.'")
    return _made(suite, name, dataset)


def _made(suite: type[Suite], name: str, dataset: Path | None) -> Suite:
    made = suite(name, suite.read(name, dataset))
    made.dataset = dataset
    return made


def _check(name: str, suite: type[Suite]) -> None:
    """Raises `SuiteError` for a declaration that a run would end with."""
    if missing := sorted(suite.__abstractmethods__):
        raise SuiteError(f"suite {name}: it has no method `{missing[0]}`")
    if not isinstance(getattr(suite, "title", None), str):
        raise SuiteError(f"suite {name}: it has no `title`")
    shared = frozenset(measure.name for measure in SHARED_MEASURES)
    for kind, names, reserved in (
        ("metric", [metric.name for metric in suite.metrics], NOT_METRICS),
        ("measure", [measure.name for measure in suite.measures], shared),
    ):
        for place, one in enumerate(names):
            if one in reserved or one in names[:place]:
                why = "reserved" if one in reserved else "given twice"
                raise SuiteError(f"suite {name}: the name of the {kind} {one!r} is {why}")
    metrics = [metric.name for metric in suite.metrics]
    if not metrics:
        raise SuiteError(f"suite {name}: its `metrics` are empty; name at least one Metric")
    if not suite.overrides("new_metrics"):
        fields = [*EpisodeRecord.__dataclass_fields__, *GROUPS]
        for group in suite.groups:
            if group not in fields:
                text = f"suite {name}: the group {group!r} is no field of an episode's record"
                raise SuiteError(text + did_you_mean(group, fields))
    for measure in suite.measures:
        if measure.is_share and measure.name not in metrics:
            text = f"suite {name}: the measure {measure.name!r} is of no metric"
            raise SuiteError(text + did_you_mean(measure.name, metrics))
