"""The live view, as a terminal and as a pipe show it."""

import io
import json
import os
import pty
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from bench.runs.live import Live
from bench.runs.metrics import RunMetrics
from bench.suites.fintoolbench.suite import LabelledTasks
from bench.suites.suite import Metric
from manifests.common.console import PlainConsole
from tests.support.commands import finbench_begun
from tests.support.records import call, episode, made

pytestmark = pytest.mark.anyio


class Halfway:
    in_flight = 3
    done = 10

    async def hosts(self) -> dict[str, dict[str, Any]]:
        calm = {"in_flight": 0, "waiting": 0, "breaker": "closed"}
        return {"calm.example": calm, "broken.example": {**calm, "breaker": "open"}}


def metrics() -> RunMetrics:
    counted = RunMetrics(LabelledTasks)
    for record in (episode(made(1)), replace(episode(), id="other"), call(), call(ok=False)):
        counted.add(record)
    return counted


def view(
    console: Console, counted: RunMetrics | None = None, unsaved: str | None = None
) -> tuple[Live, Halfway]:
    run: Any = SimpleNamespace(metrics=counted or metrics(), unsaved=unsaved)
    player = Halfway()
    return Live(run, player, 40, console), player


async def test_a_terminal_sees_metrics_with_intervals_errors_hosts_and_time_left() -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=80, height=40, color_system=None)
    live, player = view(console)
    async with live:
        await live.refresh()
        player.done = 20
    text = written.getvalue()
    for shown in (
        *("20/40", "TESR    50.0%", "9.5% to 90.5%", "timeout", "fault of tool"),
        *("of 2 hosts", "broken.example", "open"),
    ):
        assert shown in text, shown
    assert "calm.example" not in text, "a host at rest needs no eye"
    assert max(len(line) for line in text.split("\n")) < 300


FAULTS = (
    BrokenPipeError(32, "Broken pipe"),
    OSError(5, "Input/output error"),
    ValueError("I/O operation on closed file"),
    UnicodeEncodeError("ascii", "\u4e00", 0, 1, "ordinal not in range"),
)


class Failing(io.StringIO):
    """A terminal that is gone, or fails otherwise, whenever something is written."""

    def __init__(self, fault: Exception) -> None:
        super().__init__()
        self._fault = fault

    def write(self, _: str) -> int:
        raise self._fault

    def fileno(self) -> int:
        return os.open(os.devnull, os.O_WRONLY)


@pytest.mark.parametrize("fault", FAULTS, ids=repr)
@pytest.mark.parametrize("is_terminal", [True, False])
async def test_a_view_that_fails_says_so_once_and_ends_nothing(
    fault: Exception,
    is_terminal: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    out = Failing(fault)
    monkeypatch.setattr("sys.stdout", out)
    console = Console(file=out, force_terminal=is_terminal)
    async with view(console)[0] as live:
        for _ in range(3):
            await live.refresh()
    monkeypatch.undo()
    (said,) = caplog.messages
    assert said.startswith("the live view is off, the run goes on: ")


async def test_hosts_that_can_not_be_asked_end_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken() -> dict[str, dict[str, Any]]:
        return {"a.example": {}}

    console = Console(file=io.StringIO(), force_terminal=True)
    shown, player = view(console)
    monkeypatch.setattr(player, "hosts", broken)
    async with shown as live:
        live._asked_at = -1e9  # as if it had been long ago
        await live.refresh()
    assert "the live view is off, the run goes on: KeyError" in caplog.text


@pytest.mark.parametrize("is_terminal", [True, False])
async def test_what_can_not_be_saved_is_shown(
    is_terminal: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=is_terminal, color_system=None)
    said = "run.json: No space left on device"
    async with view(console, unsaved=said)[0] as live:
        await live.refresh()
    assert f"not saved{'' if not is_terminal else ':'} {said}" in (
        written.getvalue() + capsys.readouterr().out
    )


@pytest.mark.parametrize("is_terminal", [True, False])
async def test_no_name_steers_the_terminal(
    is_terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "T\x1b]0;t\x07\u202eIR"
    own = type("Own", (LabelledTasks,), {"metrics": (Metric(name, "", in_line=True),)})
    counted = metrics()
    monkeypatch.setattr(counted, "suite", own)
    monkeypatch.setattr(counted, "rates", lambda: {name: 0.5, "intervals": {}})
    written = io.StringIO()
    console = PlainConsole(file=written, force_terminal=is_terminal, color_system=None, width=120)
    async with view(console, counted)[0] as live:
        await live.refresh()
    seen = written.getvalue() + capsys.readouterr().out
    assert r"T\u001b]0;t\u0007\u202eIR" in seen
    assert not any(raw in seen for raw in ("\x1b]", "\x07", "\u202e"))


def test_a_terminal_that_goes_away_changes_nothing_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ("run", "starter", "--upstream", "simulated", "--no-call-rate", "1")
    slow = ("--think-s", "0.2", "--concurrency", "30")
    shown, terminal = pty.openpty()
    with (tmp_path / "errors").open("w+") as errors:
        monkeypatch.setenv("TERM", "xterm")
        process = finbench_begun(*run, *slow, "--out", "out", stdout=terminal, stderr=errors)
        os.close(terminal)
        assert os.read(shown, 100)
        os.close(shown)
        assert process.wait(60) == 0
    said = (tmp_path / "errors").read_text()
    assert "the live view is off, the run goes on: OSError" in said
    assert "the tables can't be shown: [Errno 5] Input/output error" in said
    assert "Traceback" not in said
    assert json.loads(Path("out/run.json").read_text())["ended"] == "complete"


async def test_a_pipe_gets_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    async with view(Console(file=io.StringIO()))[0]:
        pass
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("episodes 10/40  in flight 3  ")
    assert "TESR 50.0%" in line
    assert "\x1b" not in line
