import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache import Entry, Kept, MemoryTier
from cache.frame import FrameError, pack

records = st.lists(st.dictionaries(st.text(max_size=4), st.text() | st.integers(0, 9)), max_size=8)


def table(rows: list[dict[str, object]]) -> Entry:
    data = b"[" + b",\n".join(orjson.dumps(row) for row in rows) + b"]"
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
    for offset, limit in ((0, 1), (0, 1_499), (0, 1_500), (700, 750), (1_499, 1), (1_499, 9)):
        assert json.loads(entry.page(offset, limit)) == rows[offset : offset + limit]
    assert entry.page(1_500, 1) == entry.page(2_000, 1) == b"[]"


@given(records, st.integers(1, 9))
def test_a_view_says_whether_it_left_rows_out(rows: list[dict[str, object]], limit: int) -> None:
    view = table(rows).view(limit)
    assert json.loads(view.data) == rows[:limit]
    assert view.truncated == (len(rows) > limit)
    assert json.loads(b"{" + view.about + b"}") == {
        "columns": ["a"],
        "rows": len(rows),
        "truncated": len(rows) > limit,
    }


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
