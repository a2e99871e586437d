"""How `finport call` prints: an envelope, a shortened answer, a table; on terminals, into files, as
drawings. What shells complete.
"""

import csv
import io
import json
import os
import pty
import re
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

WHOLE = ("call", "stock_zh_a_hist", "symbol=000001", "--upstream", "simulated")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the answer to `CALL`, so that one process of AkShare starts and no more."""
    folder = tmp_path_factory.mktemp("kept")
    assert finport(*CALL, cache=folder).returncode == 0
    return folder


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


def test_rows_that_there_are_not_leave_an_error_and_no_json(kept: Path) -> None:
    done = finport("call", "stock_zh_a_hist", "symbol=nobody", "--format", "csv", cache=kept)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("finport: invalid_arguments (fault: agent): symbol: no ")


def test_a_terminal_gets_a_table_and_a_pipe_the_envelope(kept: Path) -> None:
    said = on_terminal(*CALL, cache=kept)
    assert "收盘" in said
    assert "{" not in said
    piped = finport(*CALL, cache=kept)
    assert orjson.loads(piped.stdout)["ok"] is True


@pytest.mark.parametrize("form", ["csv", "json", "jsonl", "arrow"])
def test_answers_go_into_files(form: str, kept: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = finport(*CALL, "--format", form, "-o", str(out), cache=kept)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert out.stat().st_size > 100
    again = finport(*CALL, "--format", form, "-o", str(out), cache=kept)
    assert again.returncode != 0
    assert finport(*CALL, "--format", form, "-o", str(out), "--force", cache=kept).returncode == 0
    if form == "arrow":
        arrow = pytest.importorskip("pyarrow")
        assert arrow.ipc.open_stream(out.read_bytes()).read_all().num_rows > 10


def test_an_answer_without_rows_leaves_a_file_as_it_was(kept: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    out.write_text("good")
    coin = ("call", "get_coin", "uuid=Qwsogvtv82FCd", "--upstream", "simulated")
    done = finport(*coin, "--format", "csv", "-o", str(out), "--force", cache=kept)
    assert done.returncode == 1
    assert "--format json prints it" in done.stderr
    assert out.read_text() == "good"


def test_columns_of_numbers_are_drawn(kept: Path) -> None:
    done = finport(*CALL, "--plot", cache=kept)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "收盘" in line]
    assert {*"▁█"} <= {*line}
    document = finport(
        "call", "get_coin", "uuid=x", "--plot", "--upstream", "simulated", cache=kept
    )
    assert document.returncode == 1
    odd = finport(*CALL, "--plot", "--format", "csv", cache=kept)
    assert odd.returncode == 2


def test_what_is_said_beside_the_answer(kept: Path) -> None:
    rows = (*CALL, "--format", "csv")
    said = finport(*rows, cache=kept).stderr
    assert re.search("rows, (cached|stale), made by a simulated upstream", said), said
    assert finport(*rows, "-q", cache=kept).stderr == ""
    assert "digest: " in finport(*rows, "-v", cache=kept).stderr


def test_arguments_come_from_standard_input(kept: Path) -> None:
    env = {"FINPORT_CACHE_DIR": str(kept)}
    words = ["call", "stock_zh_a_hist", "--args", "-", "--upstream", "simulated"]
    done = CliRunner(env=env).invoke(
        main, words, input='{"symbol": "600519", "start_date": "20260601"}'
    )
    assert orjson.loads(done.stdout)["ok"] is True
    assert CliRunner(env=env).invoke(main, words, input="no").exit_code == 2


def test_rows_are_printed_whole_in_each_form(tmp_path: Path) -> None:
    whole = finport(*WHOLE, "--format", "csv", cache=tmp_path)
    assert whole.returncode == 0
    rows = [*csv.DictReader(io.StringIO(whole.stdout))]
    assert whole.stderr.startswith(f"stock_zh_a_hist: {len(rows)} rows, simulated")
    assert len(rows) > 200
    lines = finport(*WHOLE, "--format", "jsonl", "--max-rows", "3", cache=tmp_path)
    assert [json.loads(line)["日期"] for line in lines.stdout.splitlines()] == [
        row["日期"] for row in rows[-3:]
    ]
    assert f"rows {len(rows) - 2}-{len(rows)} of {len(rows)}" in lines.stderr
    table = finport(*WHOLE, "--format", "table", "--max-rows", "2", cache=tmp_path)
    assert rows[-1]["成交量"] in table.stdout
    assert "收盘" in table.stdout
    named = ("call", "stock_zh_a_hist", "symbol=平安银行", "--upstream", "simulated")
    by_name = finport(*named, "--format", "csv", cache=tmp_path)
    assert by_name.stdout == whole.stdout
    assert "平安银行 is 平安银行, 000001" in by_name.stderr


def test_an_answer_is_shortened_to_a_budget(kept: Path) -> None:
    done = finport(*CALL, "--max-tokens", "120", "--question", "最新收盘价", cache=kept)
    answer = json.loads(done.stdout)
    assert answer["compression"]["tokens"] <= 120
    assert isinstance(answer["data"], str)


def test_what_has_no_rows_says_so(kept: Path) -> None:
    document = ("call", "get_coin", "uuid=x", "--upstream", "simulated", "--format")
    done = finport(*document, "csv", cache=kept)
    assert (done.returncode, done.stdout) == (1, "")
    assert "is a document and has no rows; --format json prints it" in done.stderr
    assert json.loads(finport(*document, "jsonl", cache=kept).stdout)
    both = finport(*CALL, "--format", "csv", "--max-tokens", "100", cache=kept)
    assert both.returncode == 2
    assert finport(*CALL, "--max-tokens", "100", "--max-chars", "500").returncode == 2
    assert finport(*CALL, "--max-tokens", "1").returncode == 2


def test_a_kept_answer_opens_no_upstream(kept: Path) -> None:
    code = f"""import sys, gateway.cli.main as cli
try:
    cli.main({[*CALL]})
except SystemExit:
    print(*sys.modules, file=sys.stderr)"""
    env = {**os.environ, "FINPORT_CACHE_DIR": str(kept)}
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env=env,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert json.loads(ended.stdout)["provenance"]["source"] in ("cached", "stale")
    heavy = {"aiohttp", "gateway.compress.answer", "manifests.facets", "numpy", "rapidfuzz", "rich"}
    assert heavy.isdisjoint(ended.stderr.split())


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
