"""What earlier releases left behind is read, and gives the figures that it gave then.

`data/run` is a run of an agent with a model, judged by rules; `data/recorded.snap` holds the
answers to the first five tasks of `data/suite.jsonl`; `data/figures.json` is what was computed from
them when they were made. A change of what a run is may add another set. A figure of this one
changes only where an error is mended or a record gains a field, and CHANGELOG says so.
"""

import json
import re
import shutil
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner
from pyarrow import parquet

from bench.cli.main import main as finbench
from bench.runs.digest import run_digest
from gateway.cli.main import main as finport

DATA = Path(__file__).parent / "data"
FIGURES: dict[str, Any] = json.loads((DATA / "figures.json").read_text())


@pytest.fixture(autouse=True)
def _recorded(tmp_path: Path) -> None:
    """Copies, since a report is written into the run that it is of."""
    shutil.copytree(DATA, tmp_path, dirs_exist_ok=True)


def output_of(command: Any, *arguments: str) -> str:
    done = CliRunner(env={"FINPORT_CACHE_DIR": "cache"}).invoke(command, arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


class _Cells(HTMLParser):
    """The texts of a page's table cells that hold a figure."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, _attributes: object) -> None:
        if tag in ("td", "th", "tr"):
            self._inside = tag == "td"

    def handle_endtag(self, tag: str) -> None:
        self._inside &= tag != "td"

    def handle_data(self, data: str) -> None:
        if self._inside and re.search(r"\d", data):
            self.found.append(data.strip())


def figures_of_the_report() -> list[str]:
    output_of(finbench, "report", "run")
    cells = _Cells()
    cells.feed(Path("run", "report.html").read_text())
    return cells.found


def compared_with_itself() -> dict[str, Any]:
    said: dict[str, Any] = json.loads(output_of(finbench, "compare", "run", "run", "--json"))
    return said


def exported(form: str) -> str:
    """A hash over the export, of Parquet over what is read from it."""
    output_of(finbench, "export", "run", "--format", form, "--out", f"{form}.jsonl")
    out = Path(f"{form}.jsonl")
    if form != "parquet":
        return sha256(out.read_bytes()).hexdigest()
    tables = [parquet.read_table(out / f"{name}.parquet") for name in ("calls", "episodes")]
    rows = [[table.schema.metadata[b"finport.run"].decode(), table.to_pylist()] for table in tables]
    return sha256(orjson.dumps(rows, option=orjson.OPT_SORT_KEYS)).hexdigest()


def test_a_run_has_the_digest_that_it_had() -> None:
    assert run_digest(Path("run")) == FIGURES["digest"]


def assert_says(said: dict[str, Any], then: dict[str, Any]) -> None:
    """Later releases may say more, also in more groups."""
    assert then["breakdown"].items() <= said["breakdown"].items()
    assert {**then, "breakdown": said["breakdown"]}.items() <= said.items()


def test_a_run_scores_as_it_did() -> None:
    assert_says(json.loads(output_of(finbench, "score", "run", "--json")), FIGURES["score"])


def test_a_trace_scores_as_it_did() -> None:
    trace = ("run/episodes.jsonl", "--judge", "none")
    said = json.loads(output_of(finbench, "score", *trace, "--json"))
    assert_says(said, FIGURES["score_of_trace"])


def test_a_report_has_the_figures_that_it_had() -> None:
    said = iter(figures_of_the_report())
    assert all(figure in said for figure in FIGURES["report"]), "in this order; later ones add some"


def test_a_run_compares_with_itself_as_it_did() -> None:
    said, then = compared_with_itself(), FIGURES["compare"]
    assert then["metrics"].items() <= said["metrics"].items(), "later releases may say more"
    assert {**said, "metrics": then["metrics"]} == then


@pytest.mark.parametrize("form", sorted(FIGURES["exports"]))
def test_exports_are_what_they_were(form: str) -> None:
    assert exported(form) == FIGURES["exports"][form]


def test_a_snapshot_verifies_and_replays_with_the_digest_that_it_had() -> None:
    verified = json.loads(output_of(finport, "snapshot", "verify", "recorded.snap", "--json"))
    assert verified == FIGURES["snapshot"]
    no_errors = ("--no-call-rate", "0", "--wrong-tool-rate", "0", "--bad-arguments-rate", "0")
    played = output_of(
        finbench,
        *("run", "recorded", "--dataset", "suite.jsonl", "--episodes", "5", "--seed", "3"),
        *("--mode", "offline", "--snapshot", "recorded.snap", "--out", "replayed", "--json"),
        *no_errors,
    )
    assert json.loads(played)["digest"] == FIGURES["replayed_digest"]
