"""`finport call` prints an envelope, a shortened answer, or a table."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.commands import finport

CALL = ("call", "stock_zh_a_hist", "symbol=000001", "--upstream", "simulated")


def test_rows_are_printed_whole_in_each_form(tmp_path: Path) -> None:
    whole = finport(*CALL, "--format", "csv", cache=tmp_path)
    assert whole.returncode == 0
    rows = [*csv.DictReader(io.StringIO(whole.stdout))]
    assert whole.stderr.startswith(f"stock_zh_a_hist: {len(rows)} rows, simulated")
    assert len(rows) > 200
    lines = finport(*CALL, "--format", "jsonl", "--max-rows", "3", cache=tmp_path)
    assert [json.loads(line)["日期"] for line in lines.stdout.splitlines()] == [
        row["日期"] for row in rows[-3:]
    ]
    assert f"rows {len(rows) - 2}-{len(rows)} of {len(rows)}" in lines.stderr
    table = finport(*CALL, "--format", "table", "--max-rows", "2", cache=tmp_path)
    assert rows[-1]["成交量"] in table.stdout
    assert "收盘" in table.stdout
    named = ("call", "stock_zh_a_hist", "symbol=平安银行", "--upstream", "simulated")
    by_name = finport(*named, "--format", "csv", cache=tmp_path)
    assert by_name.stdout == whole.stdout
    assert "平安银行 is 平安银行, 000001" in by_name.stderr


def test_an_answer_is_shortened_to_a_budget(tmp_path: Path) -> None:
    done = finport(*CALL, "--max-tokens", "120", "--question", "最新收盘价", cache=tmp_path)
    answer = json.loads(done.stdout)
    assert answer["compression"]["tokens"] <= 120
    assert isinstance(answer["data"], str)


def test_what_has_no_rows_says_so(tmp_path: Path) -> None:
    document = ("call", "get_coin", "uuid=x", "--upstream", "simulated", "--format")
    done = finport(*document, "csv", cache=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "is a document and has no rows; --format json prints it" in done.stderr
    assert json.loads(finport(*document, "jsonl", cache=tmp_path).stdout)
    both = finport(*CALL, "--format", "csv", "--max-tokens", "100", cache=tmp_path)
    assert both.returncode == 2
    assert finport(*CALL, "--max-tokens", "100", "--max-chars", "500").returncode == 2
    assert finport(*CALL, "--max-tokens", "1").returncode == 2


def test_a_kept_answer_opens_no_upstream(tmp_path: Path) -> None:
    assert finport(*CALL, cache=tmp_path).returncode == 0
    code = f"""import sys, gateway.cli.main as cli
try:
    cli.main({[*CALL]})
except SystemExit:
    print(*sys.modules, file=sys.stderr)"""
    env = {**os.environ, "FINPORT_CACHE_DIR": str(tmp_path)}
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
