"""`finbench env`: environments of other frameworks, held against the bench's own scores."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import orjson

from bench.cli.options import with_dataset
from gateway.cli.options import echo_json, print_table, run
from manifests.common.terminal import echo, plain

if TYPE_CHECKING:
    from bench.rollouts import Rollouts

SCORERS: Final = {
    "verifiers": "finport_tasks.parity",
    "inspect": "finport_inspect.parity",
    "openenv": "finport_openenv.parity",
}
"""By framework, the module that scores the episodes of a run as the framework does."""

LINE_BYTES: Final = 2**20
ENDING_S: Final = 600.0
SHOWN: Final = 5


class Interpreter(click.ParamType[tuple[str, str]]):
    name = "FRAMEWORK=PYTHON"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        framework, _, python = str(value).partition("=")
        if framework not in SCORERS or not python:
            self.fail(f"{value!r} is not FRAMEWORK=PYTHON, of {', '.join(SCORERS)}", param, ctx)
        return framework, python


@click.group()
def env() -> None:
    """Environments of other frameworks: verifiers, Inspect AI, OpenEnv."""


@env.command()
@click.argument("path", metavar="RUN_DIR", type=click.Path(exists=True, path_type=Path))
@click.option("--suite", help="The suite of the run, where it is one of your own.")
@with_dataset
@click.option(
    "--python",
    "pythons",
    multiple=True,
    type=Interpreter(),
    help="A Python that has the framework and Finport's package for it. Repeatable.",
)
@click.option("--json", "as_json", is_flag=True)
def parity(
    path: Path,
    suite: str | None,
    dataset: Path | None,
    pythons: tuple[tuple[str, str], ...],
    as_json: bool,
) -> None:
    """Score the episodes of RUN_DIR through each framework's scorer, and compare bit by bit.

    Each framework runs in its own Python. Exit code 1 if a reward, a figure or an outage differs.
    """
    if not pythons:
        raise click.UsageError("name at least one framework: --python verifiers=PATH/bin/python")
    run(lambda: _parity(path, suite, dataset, dict(pythons), as_json))


async def _parity(
    path: Path,
    name: str | None,
    dataset: Path | None,
    pythons: Mapping[str, str],
    as_json: bool,
) -> int:
    from bench.rollouts import Rollouts
    from bench.runs.directory import RunDirectoryError
    from bench.runs.reader import Run
    from bench.suites.suite import SuiteError

    try:
        opened = Run.open(path)
        suite = name or str(opened.about.content["suite"])
        async with Rollouts.open(suite, dataset) as rollouts:
            ours = {str(line["episode"]): line async for line in _ours(rollouts, opened)}
    except (RunDirectoryError, SuiteError) as error:
        raise click.ClickException(str(error)) from error
    rows = list[dict[str, Any]]()
    for framework, python in pythons.items():
        options = ["--suite", suite, *(["--dataset", str(dataset)] if dataset else [])]
        command = (python, "-m", SCORERS[framework], str(path), *options)
        theirs, failed = dict[str, Any](), False
        try:
            async with _output(command) as lines:
                async for line in lines:
                    with suppress(ValueError, KeyError, TypeError):
                        said = orjson.loads(line)
                        theirs[str(said["episode"])] = said
        except click.ClickException as error:
            failed = True
            echo(f"finbench: {framework}: {error.message}", err=True)
        differ = [episode for episode, line in ours.items() if theirs.get(episode) != line]
        rows.append(
            {
                "framework": framework,
                "episodes": len(ours),
                "equal": len(ours) - len(differ),
                "differ": len(differ),
                "lacking": len(ours.keys() - theirs.keys()),
                "outages": sum(line["outage"] is not None for line in ours.values()),
                "first": differ[:SHOWN],
            }
        )
        if failed:
            continue
        for episode in differ[:SHOWN]:
            told = plain(f"{episode}: here {ours[episode]}, {framework} {theirs.get(episode)}")
            echo(f"finbench: {told}", err=True)
    echo_json(rows) if as_json else print_table(
        [{**r, "first": ", ".join(r["first"])} for r in rows]
    )
    return 1 if any(row["differ"] for row in rows) else 0


async def _ours(rollouts: "Rollouts", opened: Any) -> AsyncIterator[dict[str, Any]]:
    from bench.rollouts import line_of

    for record, _ in opened.episodes():
        yield line_of(record.episode, await rollouts.score(record))


@asynccontextmanager
async def _output(command: tuple[str, ...]) -> AsyncIterator[AsyncIterator[bytes]]:
    """The lines that a program writes. Raises `ClickException` if it fails."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=subprocess.PIPE, limit=LINE_BYTES
        )
    except OSError as error:
        raise click.ClickException(f"{command[0]}: {error.strerror}") from error
    assert process.stdout is not None  # noqa: S101 - a pipe was asked for
    try:
        async with asyncio.timeout(ENDING_S):
            yield process.stdout
            code = await process.wait()
    except TimeoutError:
        raise click.ClickException(f"{command[2]} took over {ENDING_S:g} s") from None
    finally:
        with suppress(ProcessLookupError):
            process.kill()
    if code:
        raise click.ClickException(f"{' '.join(command[:3])} ended with exit code {code}")
