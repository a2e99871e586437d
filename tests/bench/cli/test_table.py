"""`finbench table`: runs side by side, in each format, ranked where they can be."""

import csv
import io
from contextlib import chdir
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.analysis.significance import _beta, holm
from tests.support.commands import finbench


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    with chdir(folder):
        _make(folder)
    return folder


def _make(folder: Path) -> None:
    tasks = str(folder / "tasks.jsonl")
    assert finbench("tasks", "make", "--n", "40", "--out", tasks).returncode == 0
    for mistakes in ("0", "0.01", "0.9"):
        done = finbench(
            *("run", "generated", "--dataset", tasks, "--agent", "solver", "--episodes", "80"),
            *("--agent-option", f"mistakes={mistakes}", "--out", str(folder / f"m{mistakes}")),
        )
        assert done.returncode == 0, done.stderr
    done = finbench(
        "run", "starter", "--episodes", "20", "--upstream", "simulated", "--out", str(folder / "s")
    )
    assert done.returncode == 0, done.stderr


def names(folder: Path, *runs: str) -> list[str]:
    return [str(folder / run) for run in runs]


def test_runs_that_can_not_be_told_apart_share_a_rank(runs: Path) -> None:
    done = finbench("table", *names(runs, "m0", "m0.01", "m0.9"), "--format", "csv")
    assert done.returncode == 0, done.stderr
    rows = {row["agent"]: row for row in csv.DictReader(io.StringIO(done.stdout))}
    assert [row["rank"] for row in rows.values()] == ["1", "1", "3"]
    assert rows["solver (m0)"]["Accuracy"] == "100.0%"
    assert " to " in rows["solver (m0)"]["Accuracy interval"]
    assert rows["solver (m0)"]["pass^2"] == "100.0%"


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        ("markdown", "|---|---:|"),
        ("latex", r"100.0\% {\scriptsize ("),
        ("html", "<td>solver (m0)</td>"),
        ("text", "Accuracy"),
    ],
)
def test_each_format_has_all_runs(runs: Path, form: str, shown: str) -> None:
    done = finbench("table", *names(runs, "m0", "m0.9"), "--format", form)
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout
    assert "solver (m0.9)" in done.stdout
    assert "simulated" in done.stdout


def test_runs_of_other_tasks_are_said_not_to_be_alike(runs: Path) -> None:
    done = finbench("table", *names(runs, "m0", "m0.9", "s"), "--format", "markdown")
    assert "Not alike: scripted had other tasks than the rest, and is not ranked." in done.stdout
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("| scripted")]
    assert line.split("|")[-2].strip() == ""


def test_a_measure_that_there_is_not_is_refused(runs: Path) -> None:
    done = finbench("table", *names(runs, "m0", "m0.9"), "--rank-by", "Acuracy")
    assert done.returncode == 2
    assert "no measure 'Acuracy'" in done.stderr
    tokens = finbench("table", *names(runs, "m0", "m0.9"), "--rank-by", "StepCredit")
    assert tokens.returncode == 0, tokens.stderr


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_never_lowers_and_keeps_the_order(p_values: list[float]) -> None:
    corrected = holm(p_values)
    assert all(p <= c <= 1 for p, c in zip(p_values, corrected, strict=True))
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    assert sorted(corrected) == [corrected[n] for n in order]


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


@pytest.mark.parametrize(
    ("t", "degrees", "p"), [(2.0, 10, 0.07339), (2.228, 10, 0.05), (1.0, 1, 0.5), (12.706, 1, 0.05)]
)
def test_the_t_test_has_the_values_of_tables(t: float, degrees: int, p: float) -> None:
    assert _beta(degrees / (degrees + t * t), degrees / 2, 0.5) == pytest.approx(p, abs=2e-4)
