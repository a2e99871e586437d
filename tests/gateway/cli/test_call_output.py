"""How `finport call` prints: on terminals, into files, as drawings; and what shells complete."""

import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from gateway.cli.main import main
from tests.support.commands import FINPORT, finport

CALL = (
    "call",
    "stock_zh_a_hist",
    "symbol=600519",
    "start_date=20260601",
    "--upstream",
    "simulated",
)


def on_terminal(*arguments: str, cache: Path) -> str:
    """What a command writes on a terminal."""
    leader, follower = pty.openpty()
    env = {**os.environ, "FINPORT_CACHE_DIR": str(cache), "NO_COLOR": "1", "COLUMNS": "200"}
    process = subprocess.Popen(
        [*FINPORT, *arguments], stdout=follower, stderr=subprocess.DEVNULL, env=env
    )
    os.close(follower)
    said = bytearray()
    while select.select([leader], [], [], 60)[0]:
        try:
            some = os.read(leader, 2**16)
        except OSError:
            break
        if not some:
            break
        said += some
    os.close(leader)
    assert process.wait(60) == 0
    return said.decode()


def test_a_terminal_gets_a_table_and_a_pipe_the_envelope(tmp_path: Path) -> None:
    said = on_terminal(*CALL, cache=tmp_path)
    assert "收盘" in said
    assert "{" not in said
    piped = finport(*CALL, cache=tmp_path)
    assert orjson.loads(piped.stdout)["ok"] is True


@pytest.mark.parametrize("form", ["csv", "json", "jsonl", "arrow"])
def test_answers_go_into_files(form: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = finport(*CALL, "--format", form, "-o", str(out), cache=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert out.stat().st_size > 100
    again = finport(*CALL, "--format", form, "-o", str(out), cache=tmp_path)
    assert again.returncode != 0
    assert (
        finport(*CALL, "--format", form, "-o", str(out), "--force", cache=tmp_path).returncode == 0
    )
    if form == "arrow":
        arrow = pytest.importorskip("pyarrow")
        assert arrow.ipc.open_stream(out.read_bytes()).read_all().num_rows > 10


def test_an_answer_without_rows_leaves_a_file_as_it_was(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    out.write_text("good")
    coin = ("call", "get_coin", "uuid=Qwsogvtv82FCd", "--upstream", "simulated")
    done = finport(*coin, "--format", "csv", "-o", str(out), "--force", cache=tmp_path)
    assert done.returncode == 1
    assert "--format json prints it" in done.stderr
    assert out.read_text() == "good"


def test_columns_of_numbers_are_drawn(tmp_path: Path) -> None:
    done = finport(*CALL, "--plot", cache=tmp_path)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "收盘" in line]
    assert {*"▁█"} <= {*line}
    document = finport(
        "call", "get_coin", "uuid=x", "--plot", "--upstream", "simulated", cache=tmp_path
    )
    assert document.returncode == 1
    odd = finport(*CALL, "--plot", "--format", "csv", cache=tmp_path)
    assert odd.returncode == 2


def test_what_is_said_beside_the_answer(tmp_path: Path) -> None:
    csv = (*CALL, "--format", "csv")
    assert "rows, simulated" in finport(*csv, cache=tmp_path).stderr
    assert finport(*csv, "-q", cache=tmp_path).stderr == ""
    assert "digest: " in finport(*csv, "-v", cache=tmp_path).stderr


def test_arguments_come_from_standard_input(tmp_path: Path) -> None:
    env = {"FINPORT_CACHE_DIR": str(tmp_path)}
    words = ["call", "stock_zh_a_hist", "--args", "-", "--upstream", "simulated"]
    done = CliRunner(env=env).invoke(main, words, input='{"symbol": "600519"}')
    assert orjson.loads(done.stdout)["ok"] is True
    assert CliRunner(env=env).invoke(main, words, input="no").exit_code == 2


@pytest.mark.parametrize(
    ("words", "place", "completed"),
    [
        ("finport ca", 1, "call"),
        ("finport call stock_zh_a_hist_t", 2, "stock_zh_a_hist_tx"),
        ("finport call stock_zh_a_hist per", 3, "period="),
        ("finport call stock_zh_a_hist period=w", 3, "period=weekly"),
    ],
)
def test_shells_complete_tools_and_arguments(words: str, place: int, completed: str) -> None:
    asked = {"_FINPORT_COMPLETE": "zsh_complete", "COMP_WORDS": words, "COMP_CWORD": str(place)}
    code = "from gateway.cli.main import main; main(prog_name='finport')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed in done.stdout.split(), done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(shell: str) -> None:
    done = finport("completion", shell)
    assert f"_FINPORT_COMPLETE={shell}_complete" in done.stdout


@pytest.mark.parametrize("command", ["call", "serve", "tools"])
def test_h_is_help(command: str) -> None:
    assert finport(command, "-h").stdout == finport(command, "--help").stdout
