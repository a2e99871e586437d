"""`finbench score-answer`: the reward of an episode that another harness played."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.cli.options import beside, with_dataset
from gateway.cli.options import run
from manifests.common.terminal import echo

if TYPE_CHECKING:
    from bench.rollouts import Score

_file = click.Path(dir_okay=False, path_type=Path)


@click.command("score-answer")
@click.argument("path", metavar="TASK.json|RUN_DIR", type=click.Path(exists=True, path_type=Path))
@click.option("--answer", type=_file, help="The file in which the agent left its answer.")
@click.option("--trace", type=_file, help="The trace of its gateway (`finport serve --trace`).")
@click.option("--snapshot", type=_file, help="What that gateway recorded (`--mode record`).")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="For reward.txt.")
@click.option(
    "--suite", metavar="SUITE", callback=beside, help="RUN_DIR: default, that of the run."
)
@with_dataset
def score_answer(path: Path, **given: Any) -> None:
    """Score an episode by its answer and the trace of its gateway, as Harbor's tasks do.

    TASK.json is that of a task of `finbench export --format harbor`. The folder --out gets
    reward.txt, and score.json with all figures. In an outage, a fault of gateway, quota or
    upstream, there is no reward.txt and the exit code is 1.

    Of a RUN_DIR, the episodes are scored so, and printed as JSON Lines.
    """
    if path.is_dir():
        if named := [f"--{name}" for name in ("answer", "trace", "snapshot", "out") if given[name]]:
            raise click.UsageError(f"{named[0]} is for a TASK.json")
        run(lambda: _score_run(path, given["suite"], given["dataset"]))
        return
    if missing := [f"--{n}" for n in ("answer", "trace", "snapshot", "out") if not given[n]]:
        raise click.UsageError(f"a TASK.json wants {missing[0]}")
    run(lambda: _score_task(path, **given))


async def _score_task(
    path: Path, answer: Path, trace: Path, snapshot: Path, out: Path, **_: Any
) -> int:
    from anyio import to_thread
    from pydantic import ValidationError

    from bench.exports.scoring import LackError, read_task, score_left
    from bench.judges.registry import JudgeSettingsError
    from bench.suites.suite import SuiteError
    from manifests.common.problem import first_problem

    try:
        scored = await to_thread.run_sync(read_task, path)
        found = await score_left(scored, answer, trace, snapshot)
        await to_thread.run_sync(_write, out, found)
    except ValidationError as error:
        raise click.UsageError(f"{path}: {first_problem(error)}") from error
    except LackError as error:
        echo(f"finbench: no reward: {error}", err=True)
        return 1
    except (JudgeSettingsError, SuiteError) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{error.filename or path}: {error.strerror}") from error
    if found.reward is None:
        echo(f"finbench: no reward, an outage: {found.outage}", err=True)
        return 1
    echo(f"reward {found.reward}")
    return 0


def _write(out: Path, found: "Score") -> None:
    import orjson

    out.mkdir(parents=True, exist_ok=True)
    (out / "reward.txt").unlink(missing_ok=True)
    told = {"reward": found.reward, "figures": dict(found.figures), "outage": found.outage}
    (out / "score.json").write_bytes(orjson.dumps(told, option=orjson.OPT_INDENT_2))
    if found.reward is not None:
        (out / "reward.txt").write_text(f"{found.reward}\n")


async def _score_run(run_dir: Path, suite: str | None, dataset: Path | None) -> int:
    import orjson

    from bench.exports.scoring import LackError, score_run
    from bench.judges.registry import JudgeSettingsError
    from bench.rollouts import Rollouts, line_of
    from bench.runs.about import RunDirectoryError
    from bench.runs.reader import Run
    from bench.suites.suite import SuiteError

    try:
        read = Run.open(run_dir)
        async with Rollouts.open(suite or read.about.suite, dataset) as rollouts:
            async for record, found in score_run(read, rollouts):
                echo(orjson.dumps(line_of(record.episode, found)).decode())
    except (JudgeSettingsError, LackError, RunDirectoryError, SuiteError) as error:
        raise click.ClickException(str(error)) from error
    return 0
