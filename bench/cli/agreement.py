"""`finbench agreement`: how far people and judges agree."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.cli.options import of_suite, suite_in
from gateway.cli.options import echo_json, failures
from manifests.common.terminal import echo

if TYPE_CHECKING:
    from bench.analysis.agreement import Labels


@click.command()
@click.argument("labels", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--run",
    "run_dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Take the judge of this run for a rater too.",
)
@of_suite
@click.option("--json", "as_json", is_flag=True)
def agreement(labels: Path, run_dir: Path | None, suite: str | None, as_json: bool) -> None:
    """How far the raters in LABELS agree: Krippendorff's alpha and Cohen's kappa, by metric.

    LABELS are JSON Lines of `id` (of an episode, such as q1.0), `metric`, `rater` and `score`.
    """
    from bench.analysis.agreement import LabelsError, of_raters, read_labels
    from bench.runs.directory import RunDirectoryError

    with failures(LabelsError, RunDirectoryError):
        read = read_labels(labels)
        if run_dir is not None:
            _add_judge(read, run_dir, suite)
    rows = of_raters(read)
    if as_json:
        echo_json({"metrics": rows})
        return
    for row in rows:
        raters = ", ".join(row["raters"])
        echo(f"{row['metric']}: alpha {_text(row['alpha'])} over {row['episodes']} episodes")
        echo(f"  raters: {raters}")
        for pair in row["pairs"]:
            figures = f"kappa {_text(pair['kappa'])}, weighted {_text(pair['weighted_kappa'])}"
            echo(f"  {' and '.join(pair['raters'])}: {figures}, {pair['episodes']} episodes")


def _add_judge(labels: "Labels", run_dir: Path, suite: str | None) -> None:
    """Add the median scores of a run's judge, for the metrics that people scored."""
    from bench.analysis.agreement import scores_of
    from bench.record import EpisodeRecord
    from bench.runs.reader import Run

    suite_in(run_dir, suite)
    records = Run.open(run_dir).records()
    scores, judges = scores_of(one for one in records if isinstance(one, EpisodeRecord))
    is_compared = False
    for judge in judges:
        for metric, raters in labels.items():
            if common := scores.get(metric, {}).keys() & {e for r in raters.values() for e in r}:
                raters[judge] = {one: scores[metric][one] for one in common}
                is_compared = True
    if not is_compared:
        some = next(iter(next(iter(scores.values()), {})), "none")
        text = f"its judge scores {', '.join(scores) or 'nothing'} of episodes such as {some}"
        raise click.ClickException(f"{run_dir}: nothing in common with the labels: {text}")


def _text(figure: float | None) -> str:
    return "undefined" if figure is None else f"{figure:.3f}"
