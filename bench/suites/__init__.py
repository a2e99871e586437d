"""Suites by name: those of the project, and a user's own as `module:Class`.

Any other name is that of labelled tasks in a file of the user's.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from bench.own import OwnError, is_own, load
from bench.suites.fintoolbench.suite import FinToolBench, LabelledTasks
from bench.suites.suite import Suite, SuiteError

BUILT_IN = Path(__file__).parent

SUITES: Mapping[str, type[Suite]] = {
    **{file.stem: LabelledTasks for file in BUILT_IN.glob("*.jsonl")},
    "fintoolbench": FinToolBench,
}


def suite_names() -> list[str]:
    """The names of the suites that come with the project or that it can read."""
    return sorted(SUITES)


def suite_named(name: str) -> type[Suite]:
    """The class of the suite with this name. Raises `SuiteError`."""
    if not is_own(name):
        return SUITES.get(name, LabelledTasks)
    try:
        found = load(name)
    except OwnError as error:
        raise SuiteError(f"suite {error}") from error
    if not (isinstance(found, type) and issubclass(found, Suite)):
        raise SuiteError(f"suite {name}: it is no subclass of Suite")
    return found


def load_suite(name: str, dataset: Path | None = None) -> Suite:
    """The suite with its tasks, from the file `dataset` if it has one. Raises `SuiteError`."""
    suite = suite_named(name)
    file = BUILT_IN / f"{name}.jsonl"
    if dataset is None and name in SUITES and file.is_file():
        dataset = file
    elif not is_own(name):
        if dataset is None and name not in SUITES:
            raise SuiteError(f"no suite is named {name!r}; there are: {', '.join(suite_names())}")
        if not re.fullmatch(r"[\w.-]+", name) or name.startswith("."):
            raise SuiteError(f"{name!r} is no name for a suite: letters, digits, '-', '_' and '.'")
    return suite(name, suite.read(name, dataset))
