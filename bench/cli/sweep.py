"""`finbench sweep`: runs of several models in several settings, from one file.

Each pair of a model and settings is a cell, and each cell a run of `finbench run` in a folder of
its own. A sweep that goes on skips the complete cells and resumes the others; a cell that was
changed since is refused.
"""

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from bench.cli.run import Made, made_of, play, run_suite
from gateway.cli.options import OutPath, echo_json, ended, failures
from manifests.common.terminal import echo

if TYPE_CHECKING:
    from bench.runs.about import RunInfo

MOST_BYTES = 2**20
MOST_CELLS = 1_000

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")

_OPTION = re.compile(r"[a-z][a-z0-9-]*")

_OF_THE_SWEEP = frozenset(
    {"out", "resume", "failed-too", "accept-changes", "plan", "json", "help", "name"}
)
"""Options of a run that no cell has: the sweep decides them."""


@dataclass(slots=True)
class Cell:
    """One run of a sweep: its name, its folder, its options and what they make, and what an earlier
    sweep left of it.
    """

    name: str
    folder: Path
    given: SimpleNamespace
    made: Made
    before: "RunInfo | None"

    @property
    def is_complete(self) -> bool:
        """Whether all its episodes were played, and gave something."""
        before = self.before
        if before is None or before.ended != "complete":
            return False
        return before.episodes >= self.made.plan.episodes and not self.was_silent

    @property
    def was_silent(self) -> bool:
        """Whether it ended and gave nothing, as with a model that answered no request."""
        import orjson

        from bench.runs.silence import silences
        from manifests.common.regular_file import read_text

        if self.before is None or self.before.ended != "complete":
            return False
        try:
            metrics = orjson.loads(read_text(self.folder / "metrics.json", MOST_BYTES * 16))
            return any(silences(self.made.plan, metrics, self.before))
        except (OSError, ValueError, LookupError) as error:
            text = f"{self.folder / 'metrics.json'}: it can't be read: {error}"
            raise click.ClickException(text) from error


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", type=OutPath(), help="Folder of the runs. Default: runs/NAME of the file.")
@click.option(
    "--failed-too",
    is_flag=True,
    help="In cells that are not complete, repeat episodes that failed only because of a quota, the "
    "gateway or the model's endpoint.",
)
@click.option("--plan", "only_plan", is_flag=True, help="Only compute the most that is requested.")
@click.option("--json", "as_json", is_flag=True, help="Print what became of the cells as JSON.")
@click.pass_context
def sweep(
    context: click.Context,
    file: Path,
    out: Path | None,
    failed_too: bool,
    only_plan: bool,
    as_json: bool,
) -> None:
    """Run the suite of FILE with each of its models in each of its settings, then show a table.

    FILE is TOML, or JSON. At the top are the `suite` and options of `finbench run` for all runs,
    then the lists `models` and `settings`, whose items have a `name` and further options. The same
    command again goes on with what is missing.
    """
    folder = out or Path("runs") / file.stem
    cells = [*_cells(file, folder, context)]
    if only_plan:
        sys.exit(ended(lambda: _forecast(cells, as_json)))
    changed = [text for cell in cells for text in _changed(cell)]
    if changed:
        raise click.ClickException("\n".join([*changed, "name another folder with --out"]))
    told: dict[str, str] = {}
    for number, cell in enumerate(cells, 1):
        head = f"{number} of {len(cells)}: {cell.name}"
        if cell.is_complete:
            told[cell.name] = "complete before"
            echo(f"{head} is complete", err=as_json)
            continue
        echo(f"{head} {'goes on' if cell.before else 'begins'}", err=as_json)
        code = _played(cell, failed_too, as_json)
        if code > 128:  # by a signal
            echo(f"finbench: the same command goes on with the sweep in {folder}", err=True)
            sys.exit(code)
        told[cell.name] = "failed" if code else "complete"
    _show(cells, told, as_json)
    sys.exit(1 if "failed" in told.values() else 0)


def _cells(file: Path, folder: Path, parent: click.Context) -> Iterator[Cell]:
    """The cells of a file. Raises `click.UsageError` before anything is begun."""
    said = _read(file)
    if "models" not in said and "settings" not in said:
        text = "it lists neither `models` nor `settings`, such as [[models]]"
        raise click.UsageError(f"{file}: {text}")
    models, settings = _items(file, said, "models"), _items(file, said, "settings")
    common = {name: value for name, value in said.items() if name not in ("models", "settings")}
    suite = common.pop("suite", None)
    if not isinstance(suite, str):
        raise click.UsageError(f"{file}: `suite` wants the name of a suite")
    if len(models) * len(settings) > MOST_CELLS:
        raise click.UsageError(f"{file}: a sweep has at most {MOST_CELLS} cells")
    seen: set[str] = set()
    for model, setting in product(models, settings):
        parts = [_name(model, model.get("model", "")), _name(setting, setting.get("agent", ""))]
        name = "-".join(part for part in parts if part)
        if not _NAME.fullmatch(name):
            text = "give each of `models` and `settings` a `name` of letters, digits, . _ -"
            raise click.UsageError(f"{file}: {name!r} can't name a folder: {text}")
        if name in seen:
            text = f"two cells are named {name}: give `models` and `settings` names that differ"
            raise click.UsageError(f"{file}: {text}")
        seen.add(name)
        items = (model, setting)
        options = {**common, **{k: v for item in items for k, v in item.items() if k != "name"}}
        try:
            arguments = [*_arguments(options), "--", suite]
            context = run_suite.make_context("run", arguments, parent=parent)
            parent.with_resource(context)  # its modules are importable until the sweep ends
            given = SimpleNamespace(**context.params, brief=True)
            made = made_of(context, given)
        except click.UsageError as error:
            raise click.UsageError(f"{file}: {name}: {error.format_message()}") from error
        yield Cell(name, folder / name, given, made, _before(folder / name))


def _read(file: Path) -> dict[str, Any]:
    import orjson

    from manifests.common.regular_file import read_text

    try:
        text = read_text(file, MOST_BYTES)
        said = orjson.loads(text) if file.suffix == ".json" else tomllib.loads(text.decode())
    except OSError as error:
        raise click.UsageError(f"{file}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{file}: it can't be read: {error}") from error
    if not isinstance(said, dict):
        raise click.UsageError(f"{file}: it holds no object")
    return said


def _items(file: Path, said: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = said.get(name, [{}])
    if not isinstance(found, list) or not found or not all(isinstance(one, dict) for one in found):
        raise click.UsageError(f"{file}: `{name}` is a list of tables, such as [[{name}]]")
    return found


def _name(item: Mapping[str, Any], otherwise: str) -> str:
    """The name of an item, else one made of the model or the agent."""
    return str(item.get("name") or re.sub(r"[^A-Za-z0-9._-]+", "-", str(otherwise)))


def _arguments(options: Mapping[str, Any]) -> Iterator[str]:
    """Options as arguments, by their names without the dashes before them."""
    import orjson

    for name, value in options.items():
        if not _OPTION.fullmatch(name):
            raise click.UsageError(f"{name!r} is no name of an option")
        if name in _OF_THE_SWEEP:
            raise click.UsageError(f"`{name}` is not for a cell: the sweep decides it")
        flag, values = f"--{name}", value if isinstance(value, list) else [value]
        is_json = name in ("body", "judge-body")
        for one in values:
            if isinstance(one, bool):
                if not _is_flag(flag):
                    raise click.UsageError(f"`{name}` wants a value, not {str(one).lower()}")
                yield from [flag] * one
            elif isinstance(one, dict) and not is_json:
                for key, of_key in one.items():
                    text = of_key if isinstance(of_key, str) else orjson.dumps(of_key).decode()
                    yield f"{flag}={key}={text}"
            else:
                yield f"{flag}={orjson.dumps(one).decode() if isinstance(one, dict) else one}"


def _is_flag(flag: str) -> bool:
    """Whether an option of a run takes no value; one that there is not is told by its own error."""
    options = [one for one in run_suite.params if flag in one.opts]
    return not options or bool(getattr(options[0], "is_flag", False))


def _before(folder: Path) -> "RunInfo | None":
    """What an earlier sweep left in the folder of a cell."""
    from bench.runs.about import RunDirectoryError, RunInfo

    if not (folder / "run.json").exists():
        return None
    try:
        return RunInfo.read(folder)
    except RunDirectoryError as error:
        raise click.ClickException(str(error)) from error


def _changed(cell: Cell) -> Iterator[str]:
    """How a cell differs from the run in its folder."""
    from bench.runs.about import RunInfo
    from bench.runs.resume import changed_around, differences
    from bench.runs.run import RECORDED, made_ready, simulation_of
    from bench.suites.suite import SuiteError
    from cache import Snapshot, SnapshotError

    if cell.before is None:
        return
    plan = cell.made.plan
    with failures(SnapshotError, SuiteError):
        settings, catalog = made_ready(plan, cell.made.settings, cell.made.catalog)
        now = plan.about(catalog, settings)
        if plan.gateway == "embedded":
            now |= simulation_of(settings) | {"mode": settings.mode}
            if settings.mode in ("replay", "offline") and settings.snapshot is not None:
                with Snapshot(settings.snapshot) as snapshot:
                    now["snapshot"] = snapshot.id
            if cell.before.snapshot is None:  # else it may be another's
                now["upstream"] = RECORDED if plan.suite.is_recorded else str(settings.upstream)
    about = RunInfo.of(now)
    differ = [*differences(cell.before, about), *changed_around(cell.before, about)]
    if cell.before.episodes > plan.episodes:
        differ.append(f"episodes was {cell.before.episodes} and is {plan.episodes}")
    if differ:
        yield f"{cell.name} was changed: {', '.join(differ)}"


def _played(cell: Cell, failed_too: bool, as_json: bool) -> int:
    """The exit code of a cell's run; what ends it is told and ends no other."""
    from bench.runs.resume import Resuming

    resuming = Resuming(failed_too or cell.was_silent) if cell.folder.exists() else None
    cell.given.as_json = as_json
    try:
        return play(cell.given, cell.made, cell.folder, resuming)
    except click.ClickException as error:
        echo(f"finbench: {error.format_message()}", err=True)
    return 1


def _show(cells: list[Cell], told: Mapping[str, str], as_json: bool) -> None:
    """What became of the cells, and the table of those that are complete."""
    from bench.cli.table import table

    if as_json:
        rows = [{"name": c.name, "run": str(c.folder), "became": told[c.name]} for c in cells]
        echo_json({"cells": rows})
        return
    done = [cell for cell in cells if told[cell.name] != "failed"]
    if failed := [cell.name for cell in cells if cell not in done]:
        text = "the same command goes on, with --failed-too also where the model's endpoint failed"
        echo(f"finbench: failed: {', '.join(failed)}; {text}", err=True)
    if done:
        suite = done[0].made.plan.suite.name
        own = ["--suite", suite] if ":" in suite else []
        runs = [str(cell.folder) for cell in done]
        with table.make_context("table", [*runs, *own]) as context:
            table.invoke(context)


async def _forecast(cells: list[Cell], as_json: bool) -> int:
    """Print the most that the cells request. Exit code 1 if a quota would run out."""
    from bench.agents.declaration import AgentSettingsError
    from bench.cli.tables import bound_table, plan_table
    from bench.models.need import ModelBound
    from bench.runs.forecast import forecast
    from bench.suites.suite import SuiteError

    bounds: list[tuple[str, ModelBound]] = []
    rows, runs_out = [], False
    for cell in cells:
        try:
            made = cell.made
            hosts, models = await forecast(made.plan, made.settings, made.catalog)
        except (AgentSettingsError, SuiteError) as error:
            echo(f"finbench: {cell.name}: {error}", err=True)
            return 2
        runs_out |= any(need.runs_out for need in hosts or ())
        told = None if hosts is None else [asdict(need) for need in hosts]
        rows.append({"name": cell.name, "hosts": told, "models": [asdict(one) for one in models]})
        bounds += [(cell.name, bound) for bound in models]
        if hosts is not None and not as_json:
            echo(cell.name)
            plan_table(hosts)
    if as_json:
        most, estimate, currency = ModelBound.together([bound for _, bound in bounds])
        sums = {"most": asdict(most), "estimate": asdict(estimate), "currency": currency}
        echo_json({"cells": rows, **sums})
    elif bounds:
        bound_table(bounds, heading="cell")
    return 1 if runs_out else 0
