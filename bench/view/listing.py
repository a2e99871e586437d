"""The runs in a folder, as its list shows them.

A run is a folder with a `run.json`, at most `DEPTH` folders deep. No link is followed, and hidden
folders are left out. The two files of a run that the list needs are read once, and again only when
they have changed.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from bench.models.prices import Money, Prices
from bench.own import is_own
from bench.record import MOST, Figure, Whole
from bench.runs.about import COMPLETE, RunDirectoryError, RunInfo, check_own, simulated
from bench.suites import suite_of_run
from bench.suites.suite import Metric, Suite, SuiteError, read_as
from bench.view.work import Tell
from manifests.common.problem import first_problem
from manifests.common.regular_file import read_text
from manifests.common.terminal import plain

MOST_RUNS = 20_000
MOST_FOLDERS = 100_000
"""The most folders that are looked into, and the most entries of one that are read."""

DEPTH = 8
MOST_BYTES = 2**24
"""The longest `metrics.json` that is read."""

TEXT_CHARS = 120
"""The longest text of a run in the list."""

TOLD = 1_000
"""After so many runs, or episodes, it is told how many were read."""

RUNNING_S = 10.0
"""A run that has not ended saves its figures every second; without that for so long it stands."""

Stamp = tuple[tuple[int, int, int] | None, ...]
"""Of some files the inode, the time of their last change and the size; None for one that is not
there.
"""


class Shown(NamedTuple):
    """A main metric of a run. `text` and `interval` are as people read them."""

    metric: Metric
    value: float | None
    text: str
    interval: str


@dataclass(frozen=True, slots=True)
class Listed:
    """A run of the list. `name` is its path below the folder. `planned` episodes were to be played,
    and `episodes` are on record. `problem` says what of it can't be read.
    """

    name: str
    path: Path
    suite: str = ""
    agent: str = ""
    model: str = ""
    judge: str = ""
    seed: int | None = None
    began_s: float = 0.0
    is_complete: bool = False
    is_simulated: bool = False
    saved_s: float = 0.0
    planned: int = 0
    episodes: int | None = None
    figures: tuple[Shown, ...] = ()
    tokens: int | None = None
    money: Money | None = None
    problem: str = ""

    @property
    def state(self) -> str:
        if self.is_complete:
            return "complete"
        return "running" if time.time() - self.saved_s < RUNNING_S else "interrupted"


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs that were found, by name. `notes` say what was left out, a sentence each."""

    by_name: dict[str, Listed]
    notes: tuple[str, ...] = ()


class _Tokens(BaseModel):
    input: Whole = 0
    output: Whole = 0
    cached: Whole = 0


class _Requests(BaseModel):
    calls: Whole = 0


class _Usage(BaseModel):
    tokens: _Tokens = _Tokens()
    model_calls: _Requests = _Requests()


class _Model(BaseModel):
    """The requests to one model."""

    model: str | None = None
    answered_by: str | None = None
    calls: Whole = 0
    uncounted: Whole = 0
    tokens: _Tokens = _Tokens()


class _Models(BaseModel):
    agent: list[_Model] = []


class _Metrics(BaseModel):
    """What the list reads of a `metrics.json`."""

    model_config = ConfigDict(extra="allow", strict=True)

    episodes: Whole | None = None
    intervals: dict[str, tuple[Figure, Figure] | None] = {}
    usage: _Usage = _Usage()
    models: _Models | None = None

    def money(self, prices: Prices | None) -> Money | None:
        """What the agent's requests cost."""
        if prices is None:
            return None
        known = {"usage"} if self.models is None else {"usage", "models"}
        return prices.money(self.model_dump(include=known), "agent")

    def shown(self, metric: Metric) -> Shown:
        found, value = (self.model_extra or {}).get(metric.name), None
        if isinstance(found, int | float) and abs(found) <= MOST:
            value = float(found)
        interval = metric.interval_of({"intervals": self.intervals})
        unknown = "not judged" if metric.is_judged else "undefined"
        return Shown(metric, value, unknown if value is None else metric.text_of(value), interval)


class Listing:
    """The list of the runs in `root`. `suite` names the suite of the user's own that runs may be
    of.
    """

    def __init__(self, root: Path, suite: str | None = None) -> None:
        self.root = root
        self.title = root.resolve().name or str(root)
        self._suite = suite
        self._read: dict[str, tuple[Stamp, Listed]] = {}

    def runs(self, tell: Tell) -> Runs:
        """Find all runs, and read what has changed. Raises `OSError` if `root` can't be read."""
        found, notes, before = dict[str, Listed](), list[str](), self._read
        self._read = {}
        for folder in self._folders(notes):
            if len(found) == MOST_RUNS:
                notes.append(f"There are more than {MOST_RUNS:,}: name a folder below this one.")
                break
            stamp = stamp_of(Path(folder), "run.json", "metrics.json")
            known = before.get(folder)
            if known is None or known[0] != stamp:
                saved_ns = stamp[0][1] if stamp[0] is not None else 0
                known = stamp, self._listed(Path(folder), saved_ns / 1e9)
            self._read[folder] = known
            listed = known[1]
            while listed.name in found:  # names differ in what a page does not show
                listed = replace(listed, name=f"{listed.name}'")
            found[listed.name] = listed
            if not len(found) % TOLD:
                tell(f"{len(found):,} runs are read.")
        return Runs(dict(sorted(found.items())), tuple(notes))

    def suite_of(self, recorded: str) -> type[Suite]:
        """The suite of a run. Raises `SuiteError` for one of the user's own that was not named."""
        return suite_of_run(recorded, self.given(recorded))

    def given(self, recorded: str) -> str | None:
        """The name of the user's own suite, if it is that of a run."""
        return self._suite if is_own(recorded) and recorded == self._suite else None

    def _folders(self, notes: list[str]) -> Iterator[str]:
        """The folders of runs. At the end `notes` say which others were not looked into."""
        pending, looked, unread, is_cut = [(str(self.root), 0)], 0, 0, False
        while pending and looked < MOST_FOLDERS:
            folder, depth = pending.pop()
            looked += 1
            try:
                with os.scandir(folder) as entries:
                    inside = [*islice(entries, MOST_FOLDERS)]
            except FileNotFoundError:
                if depth == 0:
                    raise
                continue
            except OSError:
                if depth == 0:
                    raise
                unread += 1
                continue
            is_cut |= len(inside) == MOST_FOLDERS
            if any(entry.name == "run.json" for entry in inside):
                yield folder
            elif depth < DEPTH:
                pending += [
                    (entry.path, depth + 1)
                    for entry in inside
                    if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False)
                ]
        if pending or is_cut:
            notes.append(f"Only {MOST_FOLDERS:,} folders were looked into.")
        if unread:
            notes.append(f"Folders that can't be read: {unread:,}.")

    def _listed(self, path: Path, saved_s: float) -> Listed:
        within = path.relative_to(self.root)
        name = plain(str(within) if within.parts else self.title)
        try:
            about = RunInfo.read(path)
        except RunDirectoryError as error:
            return Listed(name, path, problem=_within(path, error))
        problem, metrics, figures = "", _Metrics(), tuple[Shown, ...]()
        try:
            metrics = _metrics(path)
            suite = self.suite_of(about.suite)
            main = [one for one in read_as(suite.metrics, "program") if one.is_main]
            figures = tuple(map(metrics.shown, main)) if metrics.episodes is not None else ()
        except (RunDirectoryError, SuiteError) as error:
            problem = _within(path, error)
        tokens = metrics.usage.tokens
        return Listed(
            name,
            path,
            suite=cut(about.suite),
            agent=cut(about.agent),
            model=cut(about.model or ""),
            judge=cut(about.judge),
            seed=about.seed if "seed" in about.content else None,
            began_s=about.started_at,
            is_complete=about.ended == COMPLETE,
            is_simulated=bool(simulated(about)),
            saved_s=saved_s,
            planned=about.episodes,
            episodes=metrics.episodes,
            figures=figures,
            tokens=tokens.input + tokens.output or None,
            money=metrics.money(about.prices),
            problem=problem,
        )


def cut(text: str) -> str:
    """A text on one line of the list."""
    line = " ".join(text[: 4 * TEXT_CHARS].split())
    return line if len(line) <= TEXT_CHARS else f"{line[: TEXT_CHARS - 1]}…"


def stamp_of(folder: Path, *names: str) -> Stamp:
    """What tells whether files of a folder have changed."""
    found = list[tuple[int, int, int] | None]()
    for name in names:
        try:
            seen = os.lstat(folder / name)
            found.append((seen.st_ino, seen.st_mtime_ns, seen.st_size))
        except OSError:
            found.append(None)
    return tuple(found)


def _metrics(path: Path) -> _Metrics:
    """The `metrics.json` of a run, empty if it has none yet. Raises `RunDirectoryError`."""
    file = path / "metrics.json"
    check_own(file)
    try:
        return _Metrics.model_validate_json(read_text(file, MOST_BYTES))
    except FileNotFoundError:
        return _Metrics()
    except OSError as error:
        raise RunDirectoryError(f"{file}: {error.strerror}") from error
    except ValidationError as error:
        text = f"{file}: not the metrics of a run: {first_problem(error)}"
        raise RunDirectoryError(text) from error


def _within(path: Path, error: Exception) -> str:
    """An error's text without the path of the run, which its row names."""
    return str(error).replace(f"{path}/", "").replace(str(path), "the folder")[:500]
