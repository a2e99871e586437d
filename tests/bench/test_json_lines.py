"""What a line of JSON Lines is, the same for every file of them."""

import json
import tracemalloc
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from bench.json_lines import (
    IncompleteLineError,
    JsonLinesError,
    ended_lines,
    line_at,
    lines,
    records,
    values,
)

NUMBERS = TypeAdapter(dict[str, int])


def file_of(folder: Path, text: bytes) -> Path:
    file = folder / "some.jsonl"
    file.write_bytes(text)
    return file


def test_blank_lines_and_marks_are_no_part_of_a_line_and_places_are_those_of_the_file(
    tmp_path: Path,
) -> None:
    file = file_of(tmp_path, b'\xef\xbb\xbf{"a":1}\r\n\n \t\n{"a":2}\n\xef\xbb\xbf{"a":3}')
    found = list(lines(file))
    assert [json.loads(line.text) for line in found] == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert [line.number for line in found] == [1, 4, 5]
    assert [line_at(file, line.offset) for line in found] == [line.text for line in found]
    assert [line.is_ended for line in found] == [True, True, False]
    assert list(ended_lines(file)) == found[:2]


def test_of_what_a_run_writes_a_last_line_counts_once_it_ends(tmp_path: Path) -> None:
    file = file_of(tmp_path, b'{"a":1}\n{"a":2}')
    assert [record for record, _ in records(file, NUMBERS)] == [{"a": 1}]
    for text in (b'{"a":"x"}\n', b"3\n", b'{"a":\n'):
        with pytest.raises(JsonLinesError, match=r"some\.jsonl:2: not a record: "):
            list(records(file_of(tmp_path, b'{"a":1}\n' + text), NUMBERS))


def test_of_what_others_write_a_last_line_counts_unless_it_was_torn(tmp_path: Path) -> None:
    def read(text: bytes) -> list[object]:
        return [value for value, _ in values(file_of(tmp_path, text), json.loads)]

    assert read(b'{"a":1}\n{"a":NaN}')[1:]
    torn = values(file_of(tmp_path, b'{"a":1}\n{"a":'), json.loads)
    assert next(torn)[0] == {"a": 1}
    with pytest.raises(IncompleteLineError, match=r"some\.jsonl:2: the last line is incomplete"):
        next(torn)
    assert read(b"") == []
    for text, place in ((b"[\n1]", 1), (b'{"a":', 1), (b'{"a":1}\n{"a":\n', 2), (b"1\n\n]\n1", 3)):
        with pytest.raises(JsonLinesError, match=rf"some\.jsonl:{place}: not JSON: "):
            read(text)


def test_a_file_that_can_not_be_opened_is_named(tmp_path: Path) -> None:
    for place, why in ((tmp_path / "none", "No such file"), (tmp_path, "it is not a regular file")):
        with pytest.raises(JsonLinesError) as raised:
            list(lines(place))
        assert str(raised.value).startswith(f"{place}: {why}")


def test_a_line_is_bounded_and_a_file_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.json_lines.LINE_BYTES", 100)
    short = b'"' + b"x" * 97 + b'"'
    assert len(list(lines(file_of(tmp_path, short + b"\n" + short)))) == 2
    with pytest.raises(JsonLinesError, match=r"some\.jsonl:2: a line is over 100 bytes"):
        list(lines(file_of(tmp_path, b"1\n" + short + b" \n1\n")))
    file = file_of(tmp_path, (short + b"\n") * 40_000)
    tracemalloc.start()
    try:
        assert sum(1 for _ in lines(file)) == 40_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
