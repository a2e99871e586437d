"""The figures in docs/drift.md are those of the data beside it."""

import json
import re

import pytest

from bench.drift.picture import picture
from bench.metrics.interval import percent
from tests.support.checkout import ROOT

TEXT = (ROOT / "docs" / "drift.md").read_text()
DATA = json.loads((ROOT / "docs" / "drift" / "akshare.json").read_bytes())


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|\n ").split("|")]


def test_a_row_for_each_release() -> None:
    rows = [cells(line) for line in TEXT.splitlines() if re.match(r"\| [\d.]+ \| \d{4}-", line)]
    assert rows == [
        [
            *(row["version"], row["uploaded"], f"{row['functions']:,}"),
            *(str(len(row[name])) for name in ("gone", "new", "parameters_changed")),
            *(str(len(row[name])) for name in ("missing", "not_yet")),
        ]
        for row in DATA["releases"]
    ]
    assert len(rows) >= 24


def test_every_missing_function_is_named() -> None:
    missing = {name for row in DATA["releases"] for name in row["missing"]}
    assert sorted(name for name in missing if f"`{name}`" not in TEXT) == []


def test_a_row_for_each_kind_of_finding() -> None:
    rows = [cells(line) for line in TEXT.splitlines() if re.match(r"\| (ERR|WARN|INFO) \|", line)]
    assert rows == [
        [kind["level"], f"`{kind['check']}`", str(kind["findings"]), str(kind["catalogued"])]
        for kind in DATA["counts"]
    ]


@pytest.mark.parametrize("name", ["all", "catalogue"])
def test_survival(name: str) -> None:
    last = DATA["survival"][name]["steps"][-1]
    low, high = (percent(end).replace("%", " %") for end in last["interval"])
    assert f"{percent(last['survival']).replace('%', ' %')} " in TEXT
    assert f"{low} to {high}" in TEXT
    assert f"after {last['time']:g} days" in TEXT


def test_the_picture_is_drawn_from_the_data() -> None:
    assert (ROOT / "docs" / "drift" / "akshare.svg").read_text() == picture(DATA)
