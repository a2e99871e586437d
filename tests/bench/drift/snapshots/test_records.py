"""How answers are read and aligned, for any of them."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.drift.snapshots import records
from bench.drift.snapshots.alignment import align
from bench.drift.snapshots.records import MISSING, Records, is_empty, read
from cache import Entry
from tests.support import answers
from tests.support.answers import snapshot
from tests.support.commands import finbench

NAMES = st.sampled_from(
    ["", "*", "a", "a.b", "a[]", "[]", ".", "date", "code", "id", "2026-01-01", "EUR", "0"]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "NaN", "inf", "1e999", "1,5%", "20260101", "2026-01-01", "0001-01-01"])
    | st.sampled_from(["9999-12-31T23:59:59-14:00", "1700000000000000000", "9" * 300, "000001"])
    | st.text(max_size=5)
)
CELLS = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=12,
)
ROWS = st.lists(st.dictionaries(NAMES, CELLS, max_size=5), max_size=12)


def document(value: Any) -> Entry:
    return answers.document("t", value).entry


def table(rows: list[dict[str, Any]]) -> Entry:
    columns = [*dict.fromkeys(name for row in rows for name in row)]
    return answers.table("t", rows, columns).entry


def is_well_formed(places: dict[str, Records]) -> bool:
    return all(
        place == part.place and all(len(cells) == part.rows for cells in part.fields.values())
        for place, part in places.items()
    )


@given(CELLS)
@settings(max_examples=40)
def test_any_document_is_read(value: Any) -> None:
    places = read(document(value))
    assert is_well_formed(places)
    is_empty(places)
    assert all(part.dates is not None for part in places.values())


@given(ROWS)
@settings(max_examples=40)
def test_a_table_and_the_same_rows_as_a_document_have_the_same_values(
    rows: list[dict[str, Any]],
) -> None:
    first, second = read(table(rows)), read(document(rows))
    assert is_well_formed(first)
    for place, part in second.items():
        for name, cells in part.fields.items():
            assert first[place].fields[name] == cells
    for place, part in first.items():  # a table also has the columns in which is nothing to compare
        for name, cells in part.fields.items():
            known = second[place].fields if place in second else {}
            assert name in known or not any(cell is not None for cell in cells)


@given(ROWS, ROWS)
@settings(max_examples=25)
def test_records_that_belong_together_are_each_in_one_pair(
    before: list[dict[str, Any]], after: list[dict[str, Any]]
) -> None:
    first, second = read(table(before)), read(table([*after, *before[1:]]))
    for place in first.keys() & second.keys():
        a, b = first[place], second[place]
        alignment = align(a, b)
        if alignment is None:
            continue
        assert {*range(a.rows)} >= {i for i, _ in alignment.pairs}
        assert {*range(b.rows)} >= {j for _, j in alignment.pairs}
        for side in (0, 1):
            assert len({pair[side] for pair in alignment.pairs}) == len(alignment.pairs)


@given(st.lists(st.tuples(ROWS, CELLS), min_size=1, max_size=4), st.randoms())
@settings(max_examples=12)
def test_any_two_answers_are_compared_and_the_same_ones_are_no_finding(
    made: list[tuple[list[dict[str, Any]], Any]], luck: Any
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        rows = []
        for probe, (some, value) in enumerate(made):
            columns = [*dict.fromkeys(key for row in some for key in row)]
            rows.append(answers.table("table", some, columns, probe=probe))
            rows.append(answers.document("document", value, probe=probe))
        a = snapshot(folder / "a", rows)
        same = finbench("drift", "diff", str(a), str(a), "--json")
        assert json.loads(same.stdout)["findings"] == []
        others = [
            answers.table("table", some[::-1], ["a"], probe=n) for n, (some, _) in enumerate(made)
        ]
        values = [value for _, value in made]
        luck.shuffle(values)
        others += [answers.document("document", value, probe=n) for n, value in enumerate(values)]
        b = snapshot(folder / "b", others)
        done = finbench("drift", "diff", str(a), str(b), "--html", str(folder / "page"))
        assert done.returncode == 0, done.stderr


def test_what_is_beyond_the_bounds_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for bound, limit in (("MAX_FIELDS", 1_000), ("MAX_ROWS", 2_000), ("MAX_CELLS", 100_000)):
        monkeypatch.setattr(records, bound, limit)
    row = {f"k{n}": n for n in range(records.MAX_FIELDS + 5)}
    for wide in (read(document(row)), read(table([row]))):
        assert len(wide[""].fields) == records.MAX_FIELDS
        assert not records.is_whole(wide)
    sparse = read(document([{f"k{n}": n} for n in range(500)]))
    assert len(sparse[""].fields) * sparse[""].rows <= records.MAX_CELLS
    assert not records.is_whole(sparse)
    long = read(document({"a": [1] * (records.MAX_ROWS + 5)}))
    assert sum(part.rows for part in long.values()) == records.MAX_ROWS
    assert not records.is_whole(long)
    deep = read(document(json.loads("[" * 200 + "1" + "]" * 200)))
    assert deep
    assert not is_empty(deep), "what is deeper is not read, but it is there"
    text = b'{"a":' * 1_000 + b"1" + b"}" * 1_000
    assert not is_empty(read(Entry(text, None, None, 0.0, 0.0, "simulated")))
    assert records.is_whole(read(document({"a": 1})))


def test_objects_whose_keys_are_data_are_records() -> None:
    bars = {f"2026-01-{n:02}": {"close": n} for n in range(1, 8)}
    found = read(document({"history": bars, "rates": dict.fromkeys(("EUR", "GBP"), 1.5)}))
    assert found["history.*"].fields == {"*": [*bars], "close": [*range(1, 8)]}
    assert found["history.*"].dates.keys() == {"*"}
    assert found[""].fields["rates.EUR"] == [1.5], "a few codes may be names of fields"


def test_an_optional_field_is_missing_in_the_other_records() -> None:
    (part,) = read(table([{"a": 1}, {"a": 2, "b": 3}, {"b": None}])).values()
    assert part.fields == {"a": [1, 2, MISSING], "b": [MISSING, 3, None]}


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        (1.5, 1.5),
        (3, 3.0),
        ("1,234.5", 1234.5),
        ("12.5%", 12.5),
        ("-3e2", -300.0),
        (2**63, float(2**63)),
        *(
            (cell, None)
            for cell in (True, None, "", "NaN", "inf", "1e999", 1.7e308, "9" * 300, "a")
        ),
    ],
)
def test_the_number_in_a_cell(cell: Any, number: float | None) -> None:
    assert records.number(cell) == number
    assert orjson.dumps(records.number(cell))
