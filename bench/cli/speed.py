"""`finbench speed`: runs the speed measurements and reports their progress."""

import logging
import time
from collections.abc import Mapping

import click

from gateway.cli.options import echo_json
from manifests.common.duration import duration
from manifests.common.terminal import echo


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--json", "as_json", is_flag=True)
def speed(names: tuple[str, ...], as_json: bool) -> None:
    """Measure speed against a bare baseline in the same run; progress goes to stderr.

    NAME: `doors` (against FastMCP, if FINBENCH_FASTMCP_PYTHON names a Python that has it), `live`
    (uncached calls against a bare proxy), `inprocess`, `cache`, `snapshot` (writes 2 GB to the
    temporary folder), `akshare` (against AKTools, if FINBENCH_AKTOOLS_PYTHON names a Python that
    has it), `overload`, `strangers` (a client with a key during a flood without keys), `driver`
    (against Inspect AI, if FINBENCH_INSPECT_PYTHON names a Python that has it; writes 2 GB as
    well), `model` (a request to a model, against the official client), `hangs` (a healthy host
    while others hang), `rows` (the cost of a million rows), `compress` (shortened answers),
    `market` (sessions of a recorded market), `drift` (two snapshots compared; writes 2 GB), `wire`
    (a run over streams of calls, against one in process and one request a call; writes 1 GB), `ray`
    (a run on Ray with two players, against one in a single process, if the extra is installed).
    Default: all.
    """
    from bench.speed import main as measurements

    unknown = set(names) - set(measurements.ALL)
    if unknown:
        allowed = ", ".join(measurements.ALL)
        raise click.UsageError(
            f"no measurement is named {sorted(unknown)[0]!r}; there are: {allowed}"
        )
    chosen = {name: measurements.ALL[name] for name in names or measurements.ALL}
    left_s, results = sum(measurement.about_s for measurement in chosen.values()), {}
    log = logging.getLogger("finbench.speed")
    log.setLevel(logging.INFO)
    for name, measurement in chosen.items():
        progress = _Progress(name, left_s)
        log.addHandler(progress)
        try:
            log.info("begun")
            results[name] = measurement.run()
        finally:
            log.removeHandler(progress)
        left_s -= measurement.about_s
        if not as_json:
            _tell(name, results[name])
    if as_json:
        echo_json(results)


class _Progress(logging.Handler):
    """Prints on stderr what is being measured, and about how long the rest will take."""

    def __init__(self, measured: str, left_s: float) -> None:
        super().__init__()
        self._measured = measured
        self._ends_at = time.monotonic() + left_s

    def emit(self, record: logging.LogRecord) -> None:
        left = duration(max(round(self._ends_at - time.monotonic()), 0))
        text = f"{self._measured}: {record.getMessage()} (about {left} left)"
        echo(text, err=True)


def _tell(name: str, figures: Mapping[str, float | str]) -> None:
    echo(name)
    for figure, value in figures.items():
        echo(f"  {figure}: {value if isinstance(value, str) else f'{value:,.2f}'}")
