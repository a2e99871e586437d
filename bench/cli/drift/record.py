"""`finbench drift record`: the probe calls of all tools as a snapshot."""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.cli.options import Number
from gateway.cli.options import OutPath, ended, read_settings, simulation
from gateway.cli.snapshot import (
    FILE,
    bound_calls,
    chosen_tools,
    echo_summary,
    recorded_calls,
    without_transactional,
)
from gateway.terminal import echo

if TYPE_CHECKING:
    from bench.drift.probing import Probing
    from cache import Recorder
    from cache.snapshot import Summary
    from gateway.bind import BoundCall
    from gateway.settings import GatewaySettings
    from manifests import Catalog

PACE_S = 1.0
TELL_S = 5.0

_NAMED = 5

pace = click.option(
    "--pace",
    "pace_s",
    type=Number(min=0, max=3600),
    metavar="SECONDS",
    help="Least time from the start of a call to that of the next one to the same host. "
    f"Default: {PACE_S:g}; of simulated upstreams 0.",
)
which_tools = click.option(
    "--tools", help="Names, separated by commas. Default: all tools that only read."
)
which_calls = click.option(
    "--calls", type=FILE, help="Other calls than the probes, as JSON Lines: `tool`, `arguments`."
)


@dataclass(frozen=True)
class Recording:
    """What to record, how often to tell of the progress, and how a snapshot is shown. With
    `partial` the snapshot is made even if calls are left.
    """

    tools: str | None
    calls: Path | None
    pace_s: float | None
    simulated: dict[str, Any]
    partial: bool
    show: "Callable[[Summary, Path], None]"
    tell: Callable[[str], None] = lambda text: echo(text, err=True)
    tell_s: float = TELL_S

    def __post_init__(self) -> None:
        if self.calls and self.tools:
            raise click.UsageError("either --tools or --calls, not both")

    def run(self, out: Path) -> int:
        """Record the snapshot `out` and return the command's exit code. Raises
        `click.UsageError`.
        """
        from manifests import Catalog

        settings = read_settings(mode="record", snapshot=out, **self.simulated)
        catalog = Catalog.load()
        if self.calls:
            wanted = without_transactional(catalog, recorded_calls(self.calls))
        else:
            chosen = [tool for tool in chosen_tools(catalog, self.tools) if not tool.is_for_one]
            wanted = [(tool.name, dict(tool.probe())) for tool in chosen]
        bound = bound_calls(catalog, wanted)
        return ended(
            lambda: self._record(settings, catalog, bound),
            interrupted="finbench: ending; what was recorded stays.",
        )

    async def _record(
        self, settings: "GatewaySettings", catalog: "Catalog", calls: list["BoundCall"]
    ) -> int:
        from bench.drift.probing import Probing, lacking
        from cache import SnapshotError
        from gateway import Gateway

        reasons = lacking(settings, calls)
        for reason, count in Counter(reasons.values()).most_common():
            self.tell(f"finbench: {count:,} of {len(calls):,} calls can't be made: {reason}")
        if reasons and not (self.partial and len(reasons) < len(calls)):
            if len(reasons) < len(calls):
                self.tell("finbench: nothing was recorded; --partial records the other calls")
            return 1
        pace_s = self.pace_s
        if pace_s is None:
            pace_s = 0.0 if settings.upstream == "simulated" else PACE_S
        recorder: Recorder | None = None
        try:
            async with Gateway.open(settings, catalog=catalog) as gateway:
                recorder = gateway.answers.recorder
                left = [
                    call
                    for call in calls
                    if call.key not in reasons
                    and not (recorder is not None and recorder.answered(call.key))
                ]
                if done := len(calls) - len(reasons) - len(left):
                    self.tell(f"{done:,} calls are recorded already")
                probing = Probing(gateway, left, pace_s, self.tell, self.tell_s)
                await probing.run()
                self._check(probing, any_before=done > 0)
        except _Unfinished as unfinished:
            self.tell(f"finbench: no snapshot yet: {unfinished}")
            return 1
        except (SnapshotError, OSError) as error:
            self.tell(f"finbench: {error}")
            return 1
        except asyncio.CancelledError:
            recorded = f" with {recorder.calls:,} calls recorded" if recorder is not None else ""
            self.tell(f"finbench: interrupted{recorded}; the same command goes on")
            raise
        if recorder is None or recorder.summary is None:
            self.tell("finbench: nothing was recorded")
            return 1
        self.show(recorder.summary, recorder.path)
        for text in _left(probing):
            self.tell(f"finbench: {text}; the snapshot has no answer to them")
        return 0

    def _check(self, probing: "Probing", *, any_before: bool) -> None:
        """Raises `_Unfinished` if no snapshot is to be made yet."""
        if probing.unreachable and not any_before:
            text = "no host answered, so the network or the settings are at fault, and not the "
            raise _Unfinished(f"{text}tools. The same command asks again")
        if (left := _left(probing)) and not self.partial:
            text = f"{'; '.join(left)}. The same command goes on; with --partial it makes the "
            raise _Unfinished(f"{text}snapshot without them")


class _Unfinished(Exception):
    """There is no snapshot yet; the journal stays."""


def _left(probing: "Probing") -> list[str]:
    """What became of the calls that have neither an answer nor an error of the tool."""
    later, unmade = probing.progress.later, probing.progress.unmade
    texts = []
    if later:
        text = f"{later.total():,} calls are left for later ({_counted(later.most_common())})"
        texts.append(text)
    if unmade:
        codes = [(code.value, count) for code, count in unmade.most_common()]
        texts.append(f"{unmade.total():,} calls could not be made ({_counted(codes)})")
    return texts


def _counted(counts: Sequence[tuple[str, int]]) -> str:
    named = ", ".join(f"{name} {count:,}" for name, count in counts[:_NAMED])
    others = len(counts) - _NAMED
    return f"{named}, {others} others" if others > 0 else named


@click.command()
@click.option("--out", type=OutPath(dir_okay=False), required=True, help="The snapshot to make.")
@which_tools
@which_calls
@pace
@click.option("--partial", is_flag=True, help="Make the snapshot even if calls are left.")
@click.option("--json", "as_json", is_flag=True, help="Print what the snapshot holds as JSON.")
@simulation
def record(
    out: Path,
    tools: str | None,
    calls: Path | None,
    pace_s: float | None,
    partial: bool,
    as_json: bool,
    **simulated: Any,
) -> None:
    """Record one probe call of every tool, for `finbench drift diff`.

    A probe has fixed arguments, with dates that stay. Each host is asked one call at a time. If you
    start an interrupted recording again, it goes on where it stopped; so it does when a host's
    quota is used up.
    """

    def show(summary: "Summary", path: Path) -> None:
        echo_summary(summary, path, as_json)

    sys.exit(Recording(tools, calls, pace_s, simulated, partial, show).run(out))
