"""`finbench tasks`: list a suite's tasks, make generated ones, and audit them."""

import shutil
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from bench.cli.options import beside, choosing, suite_of_chosen, whole, with_dataset
from gateway.cli.options import OutPath, echo_json, failures, force, print_table, run
from manifests.common.terminal import echo

ANSWERS = "answers.snapshot"
"""The recorded answers in a folder of tasks."""


_SHOWN, _ROWS = 60, 12
"""Characters of a text, and rows of a group, that a list shows."""


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


class Some(click.ParamType[tuple[str, ...]]):
    """Some of these texts, each once (`1,3`), or all from one to another (`1..5`)."""

    def __init__(self, name: str, texts: Sequence[str], allowed: str) -> None:
        self.name = name
        self._texts = texts
        self._allowed = allowed

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        found = tuple(str(value).split(","))
        first, _, last = str(value).partition("..")
        if first in self._texts and last in self._texts:
            found = (*self._texts[self._texts.index(first) : self._texts.index(last) + 1],)
        if not found or not {*found} <= {*self._texts} or len({*found}) < len(found):
            self.fail(f"{value!r} is {self._allowed}", param, ctx)
        return found


_difficulties = Some("difficulty", tuple("12345"), "none of 1 to 5, such as 3, 1,2 or 1..5")
_languages = Some("language", ("zh", "en"), "not zh, en or zh,en")


@click.group()
def tasks() -> None:
    """List the tasks of a suite; make tasks about the simulated market, and audit them."""


@tasks.command("list")
@click.argument("suite", callback=beside)
@with_dataset
@choosing
@click.option("--seed", type=whole(), default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def list_tasks(suite: str, dataset: Path | None, as_json: bool, **how: Any) -> None:
    """List the tasks of SUITE, or those that `finbench run` chooses with the same options."""
    from bench.suites import load_suite
    from bench.suites.sampling import fields_of
    from bench.suites.suite import SuiteError

    try:
        every = load_suite(suite, dataset)
        chosen = suite_of_chosen(every, how).tasks
    except SuiteError as error:
        raise click.UsageError(str(error)) from error
    fields = fields_of(chosen)
    names = ("id", *fields, "question")
    rows = [{name: getattr(task, name) for name in names} for task in chosen]
    if as_json:
        echo_json(rows)
        return
    lines = [names, *([_short(row[name]) for name in names] for row in rows)]
    widths = [*(max(map(len, column)) for column in [*zip(*lines, strict=True)][:-1]), 0]
    for line in lines:
        echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))
    echo(f"{len(rows):,} of {len(every.tasks):,} tasks")
    for field in fields:
        counts = Counter(_short(row[field]) or "none" for row in rows).most_common()
        rest = f" and {len(counts) - _ROWS} more" if len(counts) > _ROWS else ""
        echo(f"{field}: " + ", ".join(f"{name} {n:,}" for name, n in counts[:_ROWS]) + rest)


@tasks.command()
@click.option("--n", "number", type=click.IntRange(1, 10_000_000), default=1_000, show_default=True)
@click.option("--seed", type=whole(), default=0, show_default=True)
@click.option("--difficulty", type=_difficulties, default="1..5", show_default=True)
@click.option("--language", type=_languages, default="zh,en", show_default=True)
@click.option("--simulated-seed", type=whole(), default=0, show_default=True, help="Of the market.")
@click.option(
    "--simulated-now",
    type=click.DateTime(["%Y-%m-%d"]),
    default="2026-06-30",
    show_default=True,
    help="Its last day.",
)
@click.option("--out", type=OutPath(dir_okay=False), required=True, help="A file of JSON Lines.")
@force
def make(number: int, out: Path, **how: Any) -> None:
    """Make tasks: questions with answers that the simulated market proves.

    The same options give the same bytes. Each line has a question in Chinese or English, the
    answer, the program that it follows from, and the calls that give it.
    """
    from adapters.simulator.world.world import World
    from bench.progress import Progress
    from bench.suites.generated.make import MakeError, Maker, line
    from manifests.common.files import output_file

    try:
        world = World(how["simulated_seed"], how["simulated_now"].date())
    except ValueError as error:
        raise click.UsageError(f"--simulated-now: {error}") from error
    levels = [int(level) for level in how["difficulty"]]
    maker = Maker(world, seed=how["seed"], difficulties=levels, languages=how["language"])
    began = time.perf_counter()
    progress = Progress(lambda text: echo(f"finbench: {text}", err=True))
    with failures(MakeError, of=out), output_file(out, force=how["force"]) as file:
        for place, task in enumerate(maker.tasks(number), 1):
            file.write(line(task))
            progress.at(place / number, f"{place:,} of {number:,} tasks")
    echo(f"{number:,} tasks in {time.perf_counter() - began:.1f} s: {out}")


@tasks.command()
@click.argument("dataset", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--folder",
    type=OutPath(),
    help="Also put the tasks and the recorded answers of their tools into this new folder.",
)
@click.option("--json", "as_json", is_flag=True)
def audit(dataset: Path, folder: Path | None, as_json: bool) -> None:
    """Check that each task of a file has one answer, which its tools give and no guess gives.

    The calls of all tasks are played through a gateway over the simulated market. Exit code 1 if a
    task fails, a blind agent is over chance, or difficulty does not tell how often a solver with
    mistakes is right.
    """
    ending = "finbench: ending the audit."
    run(lambda: _audit(dataset, folder, as_json), interrupted=ending)


async def _audit(dataset: Path, folder: Path | None, as_json: bool) -> int:
    import tempfile

    from anyio import to_thread

    from bench.analysis import audit as auditing
    from bench.progress import Progress
    from bench.suites.generated.suite import TASKS, Generated, simulated, tasks_file
    from bench.suites.suite import SuiteError
    from cache import SnapshotError
    from gateway import Gateway, GatewaySettings
    from manifests.common.memory import peak_rss_bytes

    began = time.perf_counter()
    try:
        file = tasks_file(dataset)
        found = list(await to_thread.run_sync(Generated.read, "generated", dataset))
    except SuiteError as error:
        raise click.UsageError(str(error)) from error
    how: dict[str, Any] = simulated(found[0])
    if folder is not None:
        with failures(of=folder):
            await to_thread.run_sync(_copied, file, folder / TASKS)
        how |= {"mode": "record", "snapshot": folder / ANSWERS}
    progress = Progress(lambda text: echo(f"finbench: {text}", err=True))
    with tempfile.TemporaryDirectory(prefix="finport-audit-") as cache:
        settings = GatewaySettings.read(**how, cache_dir=Path(cache))
        try:
            async with Gateway.open(settings) as gateway:
                result = await auditing.audit(
                    iter(found),
                    gateway,
                    lambda n: progress.at(n / len(found), f"{n:,} of {len(found):,} tasks"),
                )
        except (SnapshotError, OSError) as error:
            raise click.ClickException(str(error)) from error
    figures = result.result()
    figures["took_s"] = round(time.perf_counter() - began, 1)
    figures["peak_mib"] = round(peak_rss_bytes() / 2**20)
    if as_json:
        echo_json(figures)
    else:
        _show(figures)
    return 0 if figures["passes"] else 1


def _copied(file: Path, out: Path) -> None:
    """Copy a file into a new folder."""
    out.parent.mkdir(parents=True)
    shutil.copyfile(file, out)


def _show(figures: dict[str, Any]) -> None:
    def percent(share: float) -> str:
        return f"{share:.1%}"

    print_table(
        [
            {
                "difficulty": level,
                "tasks": f"{row['tasks']:,}",
                "calls each": row["calls"],
                "oracle": percent(row["oracle"]),
                "with mistakes": percent(row["mistaken"]),
                "random": percent(row["random"]),
            }
            for level, row in figures["difficulty"].items()
        ]
    )
    print_table(
        [
            {
                "asked for": row["asked"],
                "tasks": f"{row['tasks']:,}",
                "chance": f"{row['chance']:.2%}",
                "best blind agent": row["best"],
                "right": f"{row['right']:.2%}",
                "above chance": f"{row['above_chance']:+.2%}",
            }
            for row in figures["blind"]
        ]
    )
    for sort, number in figures["wrong"].items():
        echo(f"{sort}: {number:,}")
        for text in figures["problems"][sort]:
            echo(f"  {text}")
    correlation = figures["spearman"]
    if correlation is not None:
        echo(f"difficulty and the solver with mistakes: Spearman {correlation:.2f} (at most -0.90)")
    served = figures["tools"]
    echo(f"{served['served']} of {served['all']} tools are asked")
    if any(row["at_least"] > figures["most_above_chance"] for row in figures["blind"]):
        echo("a blind agent is above chance by more than 1 %, by the lower end of its interval")
    passes = "passes" if figures["passes"] else "FAILS"
    took = f"{figures['took_s']:.1f} s, {figures['peak_mib']} MiB"
    echo(f"{figures['tasks']:,} tasks, {figures['calls']:,} calls: {passes}, in {took}")
