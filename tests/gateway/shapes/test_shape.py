"""What the shape of an answer is, and what differs between two."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.normalise import from_value
from cache import Entry
from gateway.shapes.known import ALWAYS, Difference, Known
from gateway.shapes.shape import MAX_DOCUMENT, MAX_MARKS, MAX_PATHS, Shape, TooLarge, shape_of

OPPOSITE = {
    "column_removed": "column_added",
    "path_removed": "path_added",
    "column_added": "column_removed",
    "path_added": "path_removed",
}


def shape(value: Any, *named: str) -> Shape:
    answer = from_value(value)
    return shape_of(Entry(answer.data, answer.columns, answer.rows, 0.0, 1.0, "live"), named)


def paths(value: Any, *named: str) -> dict[str, str]:
    """Each path of an answer with its types."""
    found: dict[str, str] = {}

    def walk(part: Shape, path: str) -> None:
        found[path] = "|".join(sorted(part.types))
        for name, below in part.parts.items():
            walk(below, f"{path}/{name}")

    walk(shape(value, *named), "")
    return found


def differences(before: Any, after: Any) -> list[str]:
    found = Known.of(shape(before)).learn(shape(after))
    return [f"{d.kind} {d.path}: {'|'.join(d.before)} > {'|'.join(d.after)}" for d in found]


def test_a_table_has_its_columns_and_a_document_its_paths() -> None:
    assert paths([{"a": 1, "b": None}, {"a": 2.5, "b": None}, {"a": "x", "b": None}]) == {
        "": "table",
        "/a": "number|string",
        "/b": "",
    }
    assert paths({"n": 1, "t": True, "items": [{"x": "s"}, {"y": None}, 3]}) == {
        "": "object",
        "/n": "number",
        "/t": "boolean",
        "/items": "array",
        "/items/[]": "number|object",
        "/items/[]/x": "string",
        "/items/[]/y": "",
    }


def test_keys_that_are_data_share_a_path() -> None:
    said = {"2024-01-02": {"1. open": 1}, "20240103": {"1. open": 2}, "btc": {"usd": 1}, "v2": 3}
    assert paths(said, "BTC") == {
        "": "object",
        "/*": "object",
        "/*/1. open": "number",
        "/*/usd": "number",
        "/v2": "number",
    }
    assert paths([{"item": "cash", "20240331": 1, "2024Q2": 2}]).keys() == {"", "/item", "/*"}


@pytest.mark.parametrize("rows", [1, 2, 49, 50, 51, 1_000, 5_003])
def test_rows_over_a_whole_table_are_read(rows: int) -> None:
    table = [{"n": n, "late": "x" if n >= rows * 4 // 5 else None} for n in range(rows)]
    expected = {"": "table", "/n": "number", "/late": "string"}
    assert paths(table) == expected


def test_a_row_that_is_too_long_is_not_read() -> None:
    table = [{"a": 1}, {"a": "x" * 100_000}, {"a": 2}]
    assert paths(table)["/a"] == "number"
    assert paths(table[1:2])["/a"] == ""


def test_what_differs() -> None:
    assert differences([{"a": 1, "b": 2}], [{"a": "x", "c": 2}]) == [
        "type_changed a: number > string",
        "column_removed b: number > ",
        "column_added c:  > number",
    ]
    assert differences(
        {"data": {"items": [{"price": 1, "x.y": 2}]}}, {"data": {"items": [{"cost": {"a": 1}}]}}
    ) == [
        "path_removed data.items[].price: number > ",
        'path_removed data.items[]."x.y": number > ',
        "path_added data.items[].cost:  > object",
    ]
    assert differences({"a": {"b": 1}}, {"a": "x"}) == ["type_changed a: object > string"]


def test_below_what_is_null_or_empty_nothing_is_compared() -> None:
    full = {"ok": True, "data": [{"a": {"b": 1}}]}
    lesses: list[Any] = [[], [{"a": None}], [{"a": {}}], None]
    for less in lesses:
        assert differences(full, {"ok": True, "data": less}) == []
        assert differences({"ok": True, "data": less}, full) == []


def test_an_answer_that_holds_nothing_is_empty() -> None:
    nothings: list[Any] = [{}, [], None, {"a": None}, {"a": [{}, []]}]
    for nothing in nothings:
        assert shape(nothing).is_empty, nothing
        assert differences({"a": 1}, nothing) == ["empty :  > "]
        assert differences(nothing, {"a": 1}) == []
    for something in (0, False, "", {"a": [0]}, [{"a": None}]):
        assert not shape(something).is_empty, something


def test_a_path_that_comes_and_goes_is_reported_once() -> None:
    both, one = shape({"a": 1, "b": 1}), shape({"a": 1})
    known = Known.of(both)
    found = [d.kind for n in range(60) for d in known.learn(one if n % 2 else both)]
    assert found == ["path_removed"]
    assert [d for _ in range(ALWAYS) for d in known.learn(both)] == []
    assert [d.kind for d in known.learn(one)] == ["path_removed"]
    known = Known.of(one)
    found = [d.kind for n in range(60) for d in known.learn(one if n % 2 else both)]
    assert found == ["path_added"]


def test_answers_that_are_empty_now_and_then_are_reported_once() -> None:
    full, empty = shape({"a": 1}), shape({})
    known = Known.of(full)
    assert [d.kind for n in range(60) for d in known.learn(full if n % 2 else empty)] == ["empty"]


def test_a_type_that_was_seen_is_known() -> None:
    known = Known.of(shape({"a": 1, "b": 1}))
    answers = [shape({"a": value, "b": 1}) for value in ("x", 1, None, "x", 2)]
    found = [d for answer in answers for d in known.learn(answer)]
    assert found == [Difference("type_changed", "a", ("number",), ("string",))]


@pytest.mark.parametrize(
    "large",
    [
        {"a": "x" * MAX_DOCUMENT},
        {f"a{n}x": n for n in range(MAX_PATHS + 1)},
        [{f"a{n}x": n for n in range(MAX_PATHS + 1)}],
        [[[0] * 50] * 50] * 50,
        [[]] * MAX_MARKS,
    ],
    ids=["bytes", "paths", "columns", "values", "marks"],
)
def test_what_is_too_large_is_said(large: Any) -> None:
    with pytest.raises(TooLarge):
        shape(large)


def test_paths_of_data_are_few() -> None:
    assert len(paths([{f"2024-01-{n:02}": 1} for n in range(1, 31)] * 1_000)) == 2


def test_paths_that_an_answer_lacks_make_room_for_its_own() -> None:
    known = Known.of(shape({"a": 1, "b": {"c": 1, "d": 1}}))
    for turn in range(3):
        known.learn(shape({f"w{turn} {n}": n for n in range(MAX_PATHS - 5)}))
        assert {"a", "b", f"w{turn} 0"} < known.parts.keys(), "those added last are forgotten"
    known.learn(shape({f"x{n}": n for n in range(MAX_PATHS)}))
    assert [*known.parts] == [f"x{n}" for n in range(MAX_PATHS)]
    known = Known.of(shape({"a": {f"w{n}": n for n in range(MAX_PATHS - 1)}}))
    known.learn(shape({"a": {"w0": 1, "other": 1}}))
    assert [*known.parts["a"].parts][-2:] == [f"w{MAX_PATHS - 3}", "other"]


def test_values_nested_deeply_are_not_looked_into() -> None:
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    assert len(paths(deep)) < 20
    assert not shape(deep).is_empty


leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=10,
)
tables = st.lists(st.dictionaries(st.sampled_from("abcdef"), leaves, min_size=1), min_size=1)
answers = values | tables


@given(answers)
def test_nothing_differs_from_itself(value: Any) -> None:
    own = shape(value)
    known = Known.of(own)
    assert known.learn(own) == []
    assert Known.of_json(json.loads(json.dumps(known.to_json()))).to_json() == known.to_json()


@given(answers, answers)
def test_what_one_direction_adds_the_other_removes(one: Any, other: Any) -> None:
    first, second = shape(one), shape(other)
    if first.is_table != second.is_table or first.is_empty or second.is_empty:
        return
    there, back = Known.of(first).learn(second), Known.of(second).learn(first)
    told = {(d.kind, d.path, d.before, d.after) for d in there if d.kind in OPPOSITE}
    expected = {(OPPOSITE[d.kind], d.path, d.after, d.before) for d in back if d.kind in OPPOSITE}
    assert told == expected


@given(st.lists(answers, max_size=6))
def test_a_second_round_of_the_same_answers_tells_of_no_new_path(said: list[Any]) -> None:
    shapes = [shape(value) for value in said]
    tables = [s for s in shapes if s.is_table]
    for same in (tables, [s for s in shapes if not s.is_table]):
        if same:
            known = Known.of(same[0])
            for each in same:
                known.learn(each)
            assert [d for each in same for d in known.learn(each)] == []
