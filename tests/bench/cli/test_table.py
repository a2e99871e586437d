"""`finbench table`: runs side by side, in each format, ranked where they can be."""

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.analysis.significance import _beta, holm
from tests.support.commands import finbench
from tests.support.runs import call, episode, failing
from tests.support.shown import write_scored


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs of 40 tasks, twice each, of which the last one fails in most; one of others."""
    folder = tmp_path_factory.mktemp("runs")

    def write(name: str, *failed: int, **about: str) -> None:
        tasks = [failing(n) if n in failed else episode(n, call()) for n in range(40)]
        twice = [replace(one, episode=f"{one.id}.{n}", repeat=n) for one in tasks for n in (0, 1)]
        about = {"agent": "solver", "upstream": "simulated", **about}
        write_scored(folder / name, twice, **about)

    write("m0")
    write("m0.01", 7)
    write("m0.9", *range(2, 40))
    write("s", 7, agent="scripted", suite_digest="d2")
    return folder


def names(folder: Path, *runs: str) -> list[str]:
    return [str(folder / run) for run in runs]


def test_runs_that_can_not_be_told_apart_share_a_rank(runs: Path) -> None:
    done = finbench("table", *names(runs, "m0", "m0.01", "m0.9"), "--format", "csv")
    assert done.returncode == 0, done.stderr
    rows = {row["agent"]: row for row in csv.DictReader(io.StringIO(done.stdout))}
    assert [row["rank"] for row in rows.values()] == ["1", "1", "3"]
    best = rows["solver (m0)"]
    assert float(best["TESR"]) == float(best["pass^2"]) == 1
    assert 0.8 < float(best["TESR_low"]) < float(best["TESR_high"]) <= 1


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        ("markdown", "|---|---:|"),
        ("latex", r"\scriptsize [9"),
        ("html", "<td>solver (m0)</td>"),
        ("text", "TESR"),
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
    done = finbench("table", *names(runs, "m0", "m0.9"), "--rank-by", "TESRR")
    assert done.returncode == 2
    assert "no measure 'TESRR'" in done.stderr
    calls = finbench("table", *names(runs, "m0", "m0.9"), "--rank-by", "calls", "--format", "csv")
    rows = [*csv.DictReader(io.StringIO(calls.stdout))]
    assert [row["rank"] for row in rows] == ["1", "2"], "fewer are better"


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
