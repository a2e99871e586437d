"""`finbench drift record`: the probe calls of all tools as a snapshot."""

import asyncio
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from bench.cli.options import Number
from gateway.cli.options import OutPath, ended, read_settings, simulation
from gateway.cli.snapshot import (
    FILE,
    bound_calls,
    chosen_tools,
    counted,
    echo_summary,
    recorded_calls,
    tell_aside,
    without_transactional,
)

if TYPE_CHECKING:
    from bench.drift.probing import Probing
    from cache import Recorder
    from cache.snapshot import Summary
    from gateway.pipeline.bind import BoundCall
    from gateway.settings import GatewaySettings
    from manifests import Catalog

PACE_S = 1.0
TELL_S = 5.0

NO_NETWORK = (
    "no host answered, so the network or the settings are at fault, and not the tools. The same "
    "command asks again"
)
GOES_ON = "The same command goes on; with --partial it makes the snapshot without them"

_NAMED = 5

_REMEMBERED = 1_000
"""Complaints of one recording that are not told again."""

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
    tell: Callable[[str], None] = tell_aside
    tell_s: float = TELL_S
    stamp: Callable[[], str] = str
    """What `tell` puts before each line."""

    def __post_init__(self) -> None:
        if self.calls and self.tools is not None:
            raise click.UsageError("either --tools or --calls, not both")

    def run(self, out: Path) -> int:
        """Record the snapshot `out` and return the command's exit code. Raises
        `click.UsageError`.
        """
        from manifests import Catalog

        settings = read_settings(mode="record", snapshot=out, **self.simulated)
        catalog = Catalog.load()
        if self.calls:
            wanted = without_transactional(catalog, recorded_calls(self.calls), self.tell)
            if not wanted:
                self.tell(f"finbench: {self.calls} names no call to record")
                return 1
        else:
            chosen = [tool for tool in chosen_tools(catalog, self.tools) if not tool.is_for_one]
            wanted = [(tool.name, dict(tool.probe())) for tool in chosen]
        bound = bound_calls(catalog, wanted, self.tell)
        return ended(
            lambda: self._record(settings, catalog, bound),
            interrupted=lambda: f"{self.stamp()}finbench: ending; what was recorded stays.",
        )

    async def _record(
        self, settings: "GatewaySettings", catalog: "Catalog", calls: list["BoundCall"]
    ) -> int:
        from bench.drift.probing import Probing, lacking
        from cache import SnapshotError
        from gateway import Gateway

        reasons = lacking(settings, calls)
        for reason, count in Counter(reasons.values()).most_common():
            self.tell(f"finbench: {count:,} of {counted(len(calls))} can't be made: {reason}")
        if reasons and not (self.partial and len(reasons) < len(calls)):
            if len(reasons) < len(calls):
                self.tell("finbench: nothing was recorded; --partial records the other calls")
            return 1
        pace_s = self.pace_s
        if pace_s is None:
            pace_s = 0.0 if settings.upstream == "simulated" else PACE_S
        recorder: Recorder | None = None
        complaints = _Complaints(self.tell)
        try:
            with complaints.logged():
                async with Gateway.open(settings, catalog=catalog) as gateway:
                    recorder = cast("Recorder", gateway.answers.recorder)  # in mode `record`
                    _check_journal(recorder, {call.key for call in calls})
                    wanted = [call for call in calls if call.key not in reasons]
                    left = [call for call in wanted if not recorder.answered(call.key)]
                    if done := len(wanted) - len(left):
                        is_are = "is" if done == 1 else "are"
                        self.tell(f"{counted(done)} {is_are} recorded already")
                    probing = Probing(gateway, left, pace_s, self.tell, self.tell_s)
                    await probing.run()
                    if probing.unreachable and not done:
                        raise _Unfinished(NO_NETWORK)
                    if (texts := _left(probing)) and not self.partial:
                        raise _Unfinished(f"{'; '.join(texts)}. {GOES_ON}")
        except _Unfinished as unfinished:
            self.tell(f"finbench: no snapshot yet: {unfinished}")
            return 1
        except (SnapshotError, OSError) as error:
            complaints.complain(str(error))
            return 1
        except asyncio.CancelledError:
            recorded = f" with {counted(recorder.calls)} recorded" if recorder is not None else ""
            self.tell(f"finbench: interrupted{recorded}; the same command goes on")
            raise
        if recorder.summary is None:
            self.tell("finbench: nothing was recorded")
            return 1
        self.show(recorder.summary, recorder.path)
        for text in texts:
            self.tell(f"finbench: {text}; the snapshot has no answer to them")
        return 0


class _Unfinished(Exception):
    """There is no snapshot yet; the journal stays."""


def _check_journal(recorder: "Recorder", keys: set[str]) -> None:
    """Raises `_Unfinished` for the journal of another recording, which would be closed with the
    calls of both.
    """
    if not (others := recorder.calls_outside(keys)):
        return
    journal = recorder.journal
    text = f"{journal} holds {counted(others)} outside this selection. The command that began it "
    text += f"goes on with it; `finport snapshot merge {journal} --out FILE` makes a snapshot of "
    raise _Unfinished(f"{text}what it holds; to start anew, remove it or name another file")


class _Complaints(logging.Handler):
    """Tells what goes wrong, also what the gateway logs while `logged` is open, each text once. All
    calls that wait for a full disk log the same.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self.complain = lru_cache(_REMEMBERED)(lambda text: tell(f"finbench: {text}"))

    def emit(self, record: logging.LogRecord) -> None:
        self.complain(self.format(record))

    @contextmanager
    def logged(self) -> Iterator[None]:
        log = logging.getLogger("finport")
        log.addHandler(self)
        try:
            yield
        finally:
            log.removeHandler(self)


def _left(probing: "Probing") -> list[str]:
    """What became of the calls that have neither an answer nor an error of the tool."""
    later, unmade = probing.later, probing.unmade
    texts = []
    if later:
        are = "is" if later.total() == 1 else "are"
        text = f"{counted(later.total())} {are} left for later ({_counted(later.most_common())})"
        texts.append(text)
    if unmade:
        codes = [(code.value, count) for code, count in unmade.most_common()]
        texts.append(f"{counted(unmade.total())} could not be made ({_counted(codes)})")
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
