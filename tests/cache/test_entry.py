import json
from datetime import date
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache import Entry, Kept, MemoryTier
from cache.frame import FrameError, pack
from cache.order import DateOrder, date_order

records = st.lists(st.dictionaries(st.text(max_size=4), st.text() | st.integers(0, 9)), max_size=8)


def written(row: dict[str, Any]) -> bytes:
    """A record as it is kept: integers of more than 64 bits exact."""
    text = json.dumps(row, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str)
    return text.encode()


def table(rows: list[dict[str, object]]) -> Entry:
    data = b"[" + b",\n".join(map(written, rows)) + b"]"
    return Entry(data, ("a",), len(rows), 1_700_000_000.5, 12.5, "simulated")


@given(records)
def test_an_entry_survives_the_disk_form(rows: list[dict[str, object]]) -> None:
    entry = table(rows)
    assert Entry.decode(entry.encode("k"), "k") == entry


@given(records, st.integers(0, 9), st.integers(1, 9))
def test_a_page_is_a_slice_of_the_rows(
    rows: list[dict[str, object]], offset: int, limit: int
) -> None:
    assert json.loads(table(rows).page(offset, limit)) == rows[offset : offset + limit]


@pytest.mark.parametrize("width", [0, 90, 4_090, 9_000])
def test_a_page_of_a_long_table_is_a_slice_of_its_rows(width: int) -> None:
    rows: list[dict[str, object]] = [{"a": n, "b": "x" * (width + n % 9)} for n in range(1_500)]
    entry = table(rows)
    starts = ((0, 1), (0, 1_499), (0, 1_500), (700, 750), (750, 750), (1, 1_499))
    for offset, limit in (*starts, (751, 500), (1_400, 100), (1_499, 1), (1_499, 9)):
        assert json.loads(entry.page(offset, limit)) == rows[offset : offset + limit]
    assert entry.page(1_500, 1) == entry.page(2_000, 1) == entry.page(5, 0) == b"[]"


@given(records, st.integers(1, 9))
def test_a_view_says_whether_it_left_rows_out(rows: list[dict[str, object]], limit: int) -> None:
    view = table(rows).view(limit)
    assert json.loads(view.data) == rows[:limit]
    assert view.truncated == (len(rows) > limit)
    assert json.loads(b"{" + view.about + b"}") == {
        "columns": ["a"],
        "rows": len(rows),
        "truncated": len(rows) > limit,
        "offset": 0,
        "shown": f"rows 1-{limit} of {len(rows)}" if len(rows) > limit else None,
    }


@given(st.lists(st.dates(), min_size=1, max_size=40), st.integers(1, 41), st.booleans())
def test_a_view_of_what_is_ordered_by_date_has_the_newest_rows_in_their_order(
    days: list[date], limit: int, rises: bool
) -> None:
    days = sorted(days, reverse=not rises)
    rows: list[dict[str, object]] = [{"n": n, "a": str(day)} for n, day in enumerate(days)]
    view = table(rows).view(limit)
    from_end = rises and days[0] < days[-1]
    kept = rows[-limit:] if from_end else rows[:limit]
    assert json.loads(view.data) == kept
    assert view.offset == max(len(rows) - limit, 0) * from_end
    if len(rows) <= limit:
        assert view.shown is None
    else:
        places = f"rows {view.offset + 1}-{view.offset + limit} of {len(rows)}"
        dates = f", from {kept[0]['a']} to {kept[-1]['a']}" if days[0] != days[-1] else ""
        assert view.shown == places + dates
    assert json.loads(b"{" + view.about + b"}")["shown"] == view.shown


def test_the_order_of_an_entry_is_found_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []

    def counted(*given: Any) -> DateOrder | None:
        found.append(given)
        return date_order(*given)

    monkeypatch.setattr("cache.entry.date_order", counted)
    entry = table([{"a": f"2024-01-{day:02}"} for day in range(1, 10)])
    assert entry.view(9).shown is None
    assert not found, "what is whole needs no order"
    for limit in (3, 4, 3):
        assert entry.view(limit).offset == 9 - limit
    assert entry.view(3) is entry.view(3)
    assert len(found) == 1


finite = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | st.integers() | finite | st.text(max_size=5)
nested = scalars | st.lists(scalars, max_size=2) | st.dictionaries(st.text(max_size=2), scalars)


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["a", "b", 'c"', "汉\\", "b:{", ""]), nested), max_size=8
    ),
    st.permutations(["a", "b", 'c"', "汉\\", "b:{", "", "no"]),
    st.integers(0, 9),
    st.integers(1, 9),
)
def test_a_page_of_some_columns_has_their_values_as_they_are_written(
    rows: list[dict[str, Any]], names: list[str], offset: int, limit: int
) -> None:
    names = names[: 1 + offset % 7]
    page = table(rows).page(offset, limit, names)
    expected = [{n: row[n] for n in names if n in row} for row in rows[offset : offset + limit]]
    assert json.loads(page) == expected
    assert [[*row] for row in json.loads(page)] == [[*row] for row in expected]
    assert page.count(b"\n") == max(len(expected) - 1, 0)


@pytest.mark.parametrize(
    "number", ["123456789012345678901234567890", "1.10", "-0.0", "1E5", "0.1e-7"]
)
@pytest.mark.parametrize("other", ['{"b":[1]}', "[]", '"x:{\\""'])
def test_numbers_of_picked_columns_keep_every_digit(number: str, other: str) -> None:
    record = f'{{"a":{number},"b":{other},"c":"\\"a\\":1"}}'.encode()
    entry = Entry(b"[%b,\n%b]" % (record, record), ("a", "b", "c"), 2, 0.0, 0.0, "live")
    assert entry.page(1, 1, ["a"]) == b'[{"a":%b}]' % number.encode()
    assert orjson.loads(entry.page(0, 2, ["b", "a"]))[1]["b"] == json.loads(other)
    assert orjson.loads(entry.page(0, 1, ["c"])) == [{"c": '"a":1'}]
    spaced = Entry(b'[{ "a" : 1.10, "b": "x" }]', ("a", "b"), 1, 0.0, 0.0, "live")
    assert spaced.page(0, 1, ["b", "a"]) == b'[{"b":"x","a":1.10}]'


def test_a_document_has_no_pages_and_is_never_cut() -> None:
    document = Entry(b'{"a":1}', None, None, 0.0, 0.0, "live")
    assert document.view(1).data == document.data
    with pytest.raises(ValueError, match="only a table has pages"):
        document.page(0, 1)


def test_a_frame_of_another_key_or_kind_is_refused() -> None:
    entry = table([{"a": 1}])
    with pytest.raises(FrameError, match="another key"):
        Entry.decode(entry.encode("k"), "other")
    with pytest.raises(FrameError, match="not an entry"):
        Entry.decode(pack({"key": "k", "columns": None}, b""), "k")


def test_memory_is_bounded_and_forgets_the_least_recently_used() -> None:
    entry = table([{"a": "x" * 1_000}])
    kept = Kept(entry, 0.0, 0.0)
    memory = MemoryTier(max_bytes=3 * entry.size)
    for key in ("one", "two", "three"):
        memory.put(key, kept)
    assert memory.get("one") is kept
    memory.put("four", kept)
    assert memory.get("two") is None
    assert len(memory) == 3
    assert memory.bytes == 3 * entry.size
    memory.put("huge", Kept(table([{"a": "x" * 10_000}]), 0.0, 0.0))
    assert memory.get("huge") is None
    assert len(memory) == 3
