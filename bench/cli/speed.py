"""`finbench speed`: runs the speed measurements and reports their progress."""

import logging
import time

import click

from bench.cli.options import needs_checkout
from gateway.cli.options import echo_json
from manifests.common.duration import duration
from manifests.common.terminal import echo


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--json", "as_json", is_flag=True)
def speed(names: tuple[str, ...], as_json: bool) -> None:
    """Measure speed against a bare baseline in the same run; progress goes to stderr.

    NAME: `doors` (against FastMCP, if FINBENCH_FASTMCP_PYTHON names a Python that has it), `live`
    (uncached calls against a bare proxy), `inprocess`, `cache` (writes to disk and hits from it),
    `snapshot` (writes 2 GB to the temporary folder), `akshare` (against AKTools, if
    FINBENCH_AKTOOLS_PYTHON names a Python that has it), `overload`, `floods` (a client with a key
    during a flood without keys), `driver` (against Inspect AI, if FINBENCH_INSPECT_PYTHON names a
    Python that has it; writes 2 GB as well), `model` (model-driven episodes, against the official
    client), `hangs` (a healthy host while others hang), `rows` (the cost of a million rows),
    `compress` (shortened answers), `shapes` (the shape of an answer compared), `market` (sessions
    of a recorded market), `drift` (two snapshots compared; writes 2 GB), `wire` (a run over streams
    of calls, against one in process and one request a call; writes 1 GB), `gateways` (four gateways
    with one Redis), `ray` (a run on Ray with two players, against one in a single process, if the
    extra is installed). Default: all.
    """
    needs_checkout("bench.speed")
    import uvloop

    from bench.speed.harness import ABOUT_S, figures_of, log

    unknown = set(names) - set(ABOUT_S)
    if unknown:
        allowed = ", ".join(ABOUT_S)
        raise click.UsageError(
            f"no measurement is named {sorted(unknown)[0]!r}; there are: {allowed}"
        )
    chosen = names or tuple(ABOUT_S)
    left_s, results = sum(map(ABOUT_S.__getitem__, chosen)), {}
    log.setLevel(logging.INFO)
    for name in chosen:
        progress = _Progress(name, left_s)
        log.addHandler(progress)
        try:
            log.info("begun")
            results[name] = uvloop.run(figures_of(name))
        finally:
            log.removeHandler(progress)
        left_s -= ABOUT_S[name]
        if not as_json:
            echo(name)
            for figure, value in results[name].items():
                echo(f"  {figure}: {value if isinstance(value, str) else f'{value:,.2f}'}")
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
        echo(f"{self._measured}: {record.getMessage()} (about {left} left)", err=True)
