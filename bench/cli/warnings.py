"""Warnings about a run directory or a trace, on standard error."""

from collections.abc import Mapping
from pathlib import Path

import click

from bench.analysis.score import Episodes
from bench.runs.about import INTERRUPTED, simulated
from bench.runs.reader import Run
from manifests.common.terminal import echo


def warn_of_changes(run: Run, digest: str | None = None) -> bool:
    """Whether the files of the run were changed after it; if so, say it. `digest` is that of the
    files, if it is known. Say it too if the run has not ended.
    """
    for name in ("calls.jsonl", "episodes.jsonl"):
        if run.is_cut(name):
            text = "the last line is incomplete, and is left out"
            echo(f"finbench: {run.path / name}: {text}", err=True)
    if accepted := run.about.accepted:
        echo(f"finbench: {run.path}: the run went on although {'; '.join(accepted)}", err=True)
    if run.about.ended == INTERRUPTED:
        text = f"{run.path}: the run has not ended, so some of its {run.about.episodes:,} episodes"
        echo(f"finbench: {text} may be missing; `finbench run --resume` goes on", err=True)
    changed = run.changed(digest)
    if changed is not None:
        echo(f"finbench: {changed}", err=True)
    return changed is not None


def warn_of(run: Run, suite: str | None) -> None:
    """All of these warnings; the user gave the `suite`."""
    warn_of_changes(run)
    warn_of_suite(run, suite)
    if found := simulated(run.about):
        echo(f"finbench: {run.path}: {'; '.join(found)}", err=True)


def warn_of_suite(run: Run, given: str | None) -> None:
    """Say it if the user gave another suite than the run's."""
    own = run.about.suite
    if given is not None and own and given != own:
        text = f"the run was made for suite {own}, and is read as one of {given}"
        echo(f"finbench: {run.path}: {text}", err=True)


def warn_of_incomplete(episodes: Episodes) -> None:
    """Say it if the last line of a trace, which has been read, was left out."""
    if episodes.incomplete is not None:
        echo(f"finbench: {episodes.incomplete}", err=True)


def check_one_judge(judges: Mapping[str, int], path: Path) -> None:
    """Refuse judgements of several judges, of which a mean would be of none."""
    if len(judges) > 1:
        found = ", ".join(f"{count:,} of {name}" for name, count in judges.items())
        text = f"{path}: it has judgements of several judges: {found}"
        raise click.ClickException(f"{text}; `finbench score --judge` judges all anew")
