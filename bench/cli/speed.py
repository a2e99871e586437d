"""`finbench speed`: runs the speed measurements and reports their progress."""

import logging
import time
from collections.abc import Mapping

import click

from bench.cli.options import needs_checkout
from gateway.cli.options import echo_json
from manifests.common.duration import duration
from manifests.common.terminal import echo

MEASUREMENTS: Mapping[str, tuple[int, str]] = {
    "doors": (50, "against FastMCP, if FINBENCH_FASTMCP_PYTHON names a Python that has it"),
    "live": (40, "uncached calls against a bare proxy"),
    "cache": (25, "cached calls against the same steps in a loop; writes to disk and hits from it"),
    "snapshot": (60, "writes 2 GB to the temporary folder"),
    "akshare": (90, "against AKTools, if FINBENCH_AKTOOLS_PYTHON names a Python that has it"),
    "floods": (160, "a client with a key beside callers without one; more calls than can be made"),
    "driver": (
        110,
        "against Inspect AI, if FINBENCH_INSPECT_PYTHON names a Python that has it; writes 2 GB",
    ),
    "model": (60, "model-driven episodes, against the official client"),
    "compress": (10, "shortened answers"),
    "market": (130, "whole episodes in a recorded market"),
    "drift": (600, "two snapshots compared; writes 2 GB"),
    "wire": (
        300,
        "a run over streams of calls, against one in process and one request a call; writes 1 GB",
    ),
    "failover": (130, "dead sources with stand-ins; what was answered right, and what wrong"),
    "gateways": (100, "four gateways with one Redis"),
    "ray": (420, "two players, against one process, if the extra is installed"),
}
"""Seconds that each takes on two cores, without the baselines that need a Python named by the
environment; and what is measured.
"""

_HELP = f"""Measure speed against a bare baseline in the same run; progress goes to stderr.

NAME: {", ".join(f"`{name}` ({what})" for name, (_, what) in MEASUREMENTS.items())}. Default: all.
"""


@click.command(help=_HELP)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--json", "as_json", is_flag=True)
def speed(names: tuple[str, ...], as_json: bool) -> None:
    needs_checkout("bench.speed")
    import uvloop

    from bench.speed.harness import figures_of, log

    if unknown := set(names) - set(MEASUREMENTS):
        allowed = ", ".join(MEASUREMENTS)
        raise click.UsageError(
            f"no measurement is named {sorted(unknown)[0]!r}; there are: {allowed}"
        )
    chosen = names or tuple(MEASUREMENTS)
    left_s, results = sum(MEASUREMENTS[name][0] for name in chosen), {}
    log.setLevel(logging.INFO)
    for name in chosen:
        progress = _Progress(name, left_s)
        log.addHandler(progress)
        try:
            log.info("begun")
            results[name] = uvloop.run(figures_of(name))
        finally:
            log.removeHandler(progress)
        left_s -= MEASUREMENTS[name][0]
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
