"""What reaches a terminal: nothing that comes from elsewhere may steer it."""

import asyncio
import io
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import orjson
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from bench.cli.main import main as finbench
from cache import Entry, Recorder, Row
from gateway.cli.main import main as finport
from gateway.cli.options import print_table
from manifests.common.console import PlainConsole
from manifests.common.terminal import escaped, plain
from tests.support.commands import FINBENCH, FINPORT

HOSTILE = "a\x1b[2J\x1b]0;t\x07\x9b31m\b\r\x7f\u202eb\u2066"
CONTROLS = [*range(9), *range(11, 32), *range(127, 160)]
DIRECTIONS = [0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)]
STEERING = {*map(chr, CONTROLS + DIRECTIONS)}


def steers(text: str) -> bool:
    return not STEERING.isdisjoint(text)


def run(command: click.Command, *arguments: str) -> Result:
    """As on a terminal: nothing is stripped because the output is none."""
    return CliRunner().invoke(command, arguments, color=True)


@given(st.text() | st.text(alphabet=sorted(STEERING)))
def test_plain_text_steers_nothing_and_keeps_the_rest(text: str) -> None:
    left = plain(text)
    assert not steers(left)
    assert plain(left) == left
    unlined = text.replace("\r\n", "\n")
    assert left.count("\\u") - unlined.count("\\u") == sum(map(steers, unlined)), "all are seen"
    if text.isprintable():
        assert left == text


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_escaped_json_means_the_same(value: Any) -> None:
    text = escaped(orjson.dumps(value, option=orjson.OPT_INDENT_2))
    assert not steers(text.decode())
    assert orjson.loads(text) == value


def test_a_console_prints_no_markup_and_no_escapes_of_others() -> None:
    out = io.StringIO()
    console = PlainConsole(file=out, force_terminal=True, color_system=None, width=200)
    table = Table(HOSTILE, title=HOSTILE, box=None)
    table.add_row(f"{HOSTILE}[link=http://x]x[/link]")
    table.add_row(Text(HOSTILE))
    console.print(table, HOSTILE, sep="\n")
    assert not steers(out.getvalue())
    assert "[link=http://x]x[/link]" in out.getvalue()


def test_errors_of_commands_are_plain() -> None:
    Path("finport.toml").write_text(f"{json.dumps('x' + HOSTILE)} = 1", encoding="utf-8")
    for command in (["call", "get_coin"], ["tools", "show", HOSTILE], ["call", "x", HOSTILE]):
        done = run(finport, *command)
        assert done.exit_code != 0
        assert not steers(done.output), command


def hostile_snapshot(path: Path) -> Row:
    entry = Entry(orjson.dumps({"a": HOSTILE}), None, None, 1.7e9, 5.0, "simulated")
    row = Row("get_coin", "r", {"uuid": HOSTILE}, "ok", entry)

    async def record() -> None:
        async with Recorder.open(path) as recorder:
            await recorder.add(row)

    asyncio.run(record())
    return row


@pytest.mark.parametrize(
    "arguments",
    [
        ("snapshot", "show", "s", "--tool", "get_coin"),
        ("snapshot", "show", "s", "--tool", "get_coin", "--json"),
        ("snapshot", "verify", "s"),
        ("snapshot", "merge", "s", "--out", "m"),
        ("snapshot", "export", "s", "--format", "jsonl"),
        ("call", "get_coin", f"uuid={HOSTILE}", "--mode", "offline", "--snapshot", "s"),
        ("call", f"get_coin{HOSTILE}"),
    ],
)
def test_what_a_snapshot_holds_steers_no_terminal(arguments: tuple[str, ...]) -> None:
    hostile_snapshot(Path("s"))
    assert not steers(run(finport, *arguments).output)


def test_what_stands_in_the_ledger_steers_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.upstreams.quota.standings", lambda *_, **__: [_Standing()])
    done = run(finport, "quota")
    assert (done.exit_code, "coin" in done.output) == (0, True), done.output
    assert not steers(done.output)


class _Standing:
    host = key = span = f"coin{HOSTILE}"
    used, quota, left, resets_at, learned = 1, 2, 1, 1.7e9, False


IDLE = ("--no-call-rate", "1")
"""Agents that call nothing, so that no process of AkShare starts."""


def test_what_a_run_says_of_itself_steers_no_terminal() -> None:
    made = ("run", "starter", "--upstream", "simulated", "--episodes", "2", *IDLE, "--out")
    assert run(finbench, *made, "a").exit_code == 0
    about = json.loads(Path("a/run.json").read_text())
    about |= {"suite": HOSTILE, "judge": HOSTILE, "agent": HOSTILE}
    Path("a/run.json").write_text(json.dumps(about))
    for command in (
        *(["score", "a"], ["compare", "a", "a"], ["score", "a", "--json"], ["report", "a"]),
        ["export", "a", "--format", "atif", "--out", "b"],
    ):
        done = run(finbench, *command)
        assert done.exit_code == 0, done.output
        assert not steers(done.output), command


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "command",
    [
        (*FINPORT, "tools"),
        (*FINPORT, "tools", "--json"),
        (*FINPORT, "--help"),
        (*FINBENCH, "drift", "diff", "--help"),
    ],
)
def test_a_standard_output_on_a_full_disk_is_told_in_a_line(
    command: tuple[str, ...], unbuffered: str
) -> None:
    with Path("/dev/full").open("wb") as full:
        env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        done = subprocess.run(
            command, env=env, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False
        )
    said = b"Error: standard output can't be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_what_is_no_terminal_gets_whole_rows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    row = {"tool": "t" * 60, "handle": "h" * 130, "meaning": " ".join(["two words"] * 30)}
    print_table([row], wrapped="meaning")
    _, line = capsys.readouterr().out.splitlines()
    assert line.rstrip().split(maxsplit=2) == [row["tool"], row["handle"], row["meaning"]]


@pytest.mark.parametrize("variable", ["NO_COLOR=1", "TERM=dumb"])
def test_colours_are_off_where_the_environment_says_so(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def printed() -> str:
        out = io.StringIO()
        PlainConsole(file=out, force_terminal=True).print(Text("x", style="red"), end="")
        return out.getvalue()

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert printed() == "\x1b[31mx\x1b[0m"
    monkeypatch.setenv(*variable.split("="))
    assert printed() == "x"


def commands(command: click.Command, *path: str) -> Iterator[tuple[str, ...]]:
    vars(command)["_help_option"] = None  # click keeps that of a test that ran it by itself
    yield path
    for name, one in command.commands.items() if isinstance(command, click.Group) else ():
        yield from commands(one, *path, name)


@pytest.mark.parametrize("program", [finport, finbench])
def test_each_command_explains_itself(program: click.Group) -> None:
    for path in commands(program):
        done = run(program, *path, "-h")
        assert done.exit_code == 0, path
        assert done.output.startswith("Usage: "), path
