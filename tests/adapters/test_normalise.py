import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import date
from decimal import Decimal
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.fault import UpstreamFault
from adapters.normalise import BLOCK, from_json, from_object

pd = pytest.importorskip("pandas", reason="pandas comes with the akshare extra")

plain = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=9)
flat_records = st.lists(st.dictionaries(st.text(max_size=5), plain), min_size=1, max_size=6)


@given(flat_records)
def test_a_list_of_flat_records_is_a_table_with_one_record_a_line(
    records: list[dict[str, Any]],
) -> None:
    answer = from_json(json.dumps(records).encode())
    assert json.loads(answer.data) == records
    assert answer.rows == len(records)
    assert answer.columns is not None
    assert set(answer.columns) == {name for record in records for name in record}
    assert [json.loads(line) for line in answer.data[1:-1].split(b",\n")] == records


@given(st.recursive(plain, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_any_json_value_is_answered_unchanged(value: Any) -> None:
    assert json.loads(from_json(json.dumps(value).encode()).data) == value


@pytest.mark.parametrize("body", [b'{"a":1}', b'[{"a":{}}]', b"[1]", b'"x"', b"null"])
def test_what_is_no_list_of_flat_records_is_a_document(body: bytes) -> None:
    answer = from_json(body)
    assert (answer.columns, answer.rows) == (None, None)


def test_an_empty_list_is_a_table_without_rows() -> None:
    for answer in (from_json(b" [ ] "), from_object([]), from_object(pd.DataFrame())):
        assert (answer.data, answer.columns, answer.rows) == (b"[]", (), 0)


LONG = "9" * 5_000


@pytest.mark.parametrize(
    ("digits", "value"),
    [
        *((f"{number}", number) for number in (0, -(2**63), 2**63 - 1, 2**63, 2**64 - 1)),
        *((f"{number}", f"{number}") for number in (-(2**63) - 1, 2**64, 10**21, -(2**80))),
        *((digits, digits) for digits in ("2" * 309, "1" * 400, f"-{LONG}", LONG)),
        *((digits, digits) for digits in ("1e400", "-1E+309", f"{LONG}.5")),
        *(("-0", 0), ("-0.0", -0.0), ("1e308", 1e308), ("1e-400", 0.0), (f"0.{LONG}", 1.0)),
    ],
    ids=lambda part: str(part)[:24],
)
def test_a_number_has_one_value_for_every_reader_or_is_a_text_of_its_digits(
    digits: str, value: float | str
) -> None:
    for beside in ("1", "NaN", '"\\ud800"'):  # what orjson reads, and what it does not
        for body in (f'[{{"a":{digits},"b":{beside}}}]', f'{{"a":[{digits}],"b":{beside}}}'):
            data = from_json(body.encode()).data
            read = orjson.loads(data)
            found = read[0]["a"] if isinstance(read, list) else read["a"][0]
            assert (found, str(found), type(found)) == (value, str(value), type(value))
            assert from_json(data).data == data


def test_records_with_hardly_a_name_in_common_are_a_document() -> None:
    def sparse(count: int) -> Any:
        return from_json(json.dumps([{f"k{n}": n} for n in range(count)]).encode())

    assert (sparse(2**11).rows, len(sparse(2**11).columns)) == (2**11, 2**11)
    assert (sparse(2**11 + 1).rows, sparse(2**11 + 1).columns) == (None, None)
    assert orjson.loads(sparse(2**11 + 1).data)[-1] == {"k2048": 2048}


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"a": NaN, "b": [Infinity, -Infinity, 1.5]}', {"a": None, "b": [None, None, 1.5]}),
        (b'[{"a": NaN, "b": 1234567890123456789}]', [{"a": None, "b": 1234567890123456789}]),
        (b'{"a": "NaN"}', {"a": "NaN"}),
        (b'{"a": "12345678901234567890", "b": 0.5}', {"a": "12345678901234567890", "b": 0.5}),
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
    ],
)
def test_what_only_json_s_letter_forbids_is_read(body: bytes, value: Any) -> None:
    assert json.loads(from_json(body).data) == value


odd_texts = st.text(
    st.characters(categories=["Cs", "Lu"]) | st.sampled_from(',\n}{"\\'), max_size=6
)
odd_cells = plain | odd_texts | st.floats() | st.integers(-(10**30), 10**30) | st.just(10**5000)
odd_records = st.lists(st.dictionaries(odd_texts, odd_cells, max_size=4), min_size=1, max_size=5)


def written(cell: object) -> object:
    """What JSON can say of a cell."""
    match cell:
        case str():
            return re.sub("[\ud800-\udfff]", "\ufffd", cell)
        case float() if not math.isfinite(cell):
            return None
        case int() if not -(2**63) <= cell < 2**64:
            return str(Decimal(cell))
    return cell


def written_record(record: Mapping[str, object]) -> dict[object, object]:
    return {written(name): written(cell) for name, cell in record.items()}


def body_of(cell: object) -> str:
    """A cell as an upstream sends it, with surrogates as escapes."""
    return "1" + "0" * 5000 if cell == 10**5000 else json.dumps(cell)


@given(odd_records)
def test_a_cell_that_json_cannot_say_costs_no_other_cell(records: list[dict[str, Any]]) -> None:
    bodies = [
        ",".join(f"{json.dumps(name)}: {body_of(cell)}" for name, cell in record.items())
        for record in records
    ]
    answer = from_json(f"[{', '.join(f'{{{body}}}' for body in bodies)}]".encode())
    read = [json.loads(f"{{{body}}}", parse_int=lambda text: int(Decimal(text))) for body in bodies]
    assert json.loads(answer.data) == [written_record(record) for record in read]
    assert answer.rows == len(records) == answer.data.count(b"\n") + 1


@given(st.lists(st.tuples(odd_cells, odd_cells), min_size=1, max_size=5))
def test_a_cell_of_a_frame_that_json_cannot_say_costs_no_other_cell(rows: list[Any]) -> None:
    frame = pd.DataFrame({n: [row[n] for row in rows] for n in (0, 1)}, dtype=object)
    frame.columns = pd.Index(["a\ud800", "b"], dtype=object)
    answer = from_object(frame)
    assert answer.columns == ("a\ufffd", "b")
    assert json.loads(answer.data) == [{"a\ufffd": written(a), "b": written(b)} for a, b in rows]
    document = from_object({"x": [*map(list, rows)]})
    assert json.loads(document.data) == {"x": [[written(a), written(b)] for a, b in rows]}


def test_records_are_cut_at_their_ends_whatever_stands_in_them() -> None:
    texts = ["},{", ",\n,", "\\n", "},\n{", '"},{"']
    records = [{"a": texts[n % len(texts)]} for n in range(2 * BLOCK + 1)]
    answer = from_json(json.dumps(records).encode())
    assert [json.loads(line) for line in answer.data[1:-1].split(b",\n")] == records
    frame = from_object(pd.DataFrame(records))
    assert (frame.data, frame.rows) == (answer.data, len(records))


def test_a_table_over_the_bound_is_a_fault_before_it_is_written() -> None:
    frame = pd.DataFrame({"a": ["x" * 2**14]}).loc[[0] * 2**12]
    with pytest.raises(UpstreamFault) as caught:
        from_object(frame)
    assert caught.value.kind == "too_large"


@given(st.binary() | st.text(alphabet='[]{}",:0123456789NaInfity<> \\ud8').map(str.encode))
def test_any_body_is_an_answer_or_a_fault(body: bytes) -> None:
    for charset in (None, "gb18030", "utf-16", "latin-1", "no such", "punycode", "\0"):
        with suppress(UpstreamFault):
            json.loads(from_json(body, charset).data)
            from_json(bytearray(body), charset)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b" \n", "empty"),
        (b"\xef\xbb\xbf", "empty"),
        (b"\xff", "invalid"),
        (b"[" * 300 + b"]" * 300, "invalid"),
        (b"[" * 100_000, "invalid"),
        (b" <html>", "invalid"),
    ],
    ids=lambda part: str(part)[:20],
)
def test_what_cannot_be_read_is_a_fault(body: bytes, kind: str) -> None:
    with pytest.raises(UpstreamFault) as caught:
        from_json(body)
    assert caught.value.kind == kind


def test_a_frame_becomes_records() -> None:
    frame = pd.DataFrame(
        {
            "日期": [date(2024, 1, 31), date(2024, 2, 1)],
            "价": [1.5, math.nan],
            "时": pd.to_datetime(["2024-01-31 09:30", None]),
            "n": pd.array([1, None], dtype="Int64"),
        }
    )
    answer = from_object(frame)
    assert answer.columns == ("日期", "价", "时", "n")
    assert json.loads(answer.data) == [
        {"日期": "2024-01-31", "价": 1.5, "时": "2024-01-31T09:30:00", "n": 1},
        {"日期": "2024-02-01", "价": None, "时": None, "n": None},
    ]


def test_repeated_column_names_and_data_in_the_index_are_kept() -> None:
    frame = pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"], index=["x", "y"])
    answer = from_object(frame)
    assert json.loads(answer.data) == [
        {"index": "x", "a": 1, "a_2": 2},
        {"index": "y", "a": 3, "a_2": 4},
    ]


def test_columns_in_two_levels_get_one_name() -> None:
    frame = pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")]))
    assert from_object(frame).columns == ("a_b",)


def test_several_frames_a_series_a_text_and_nothing() -> None:
    frame = pd.DataFrame({"a": [1]})
    assert json.loads(from_object((frame, frame)).data) == [[{"a": 1}], [{"a": 1}]]
    assert json.loads(from_object({"one": frame}).data) == {"one": [{"a": 1}]}
    assert json.loads(from_object(pd.Series([7], name="a")).data) == [{"a": 7}]
    assert json.loads(from_object("text").data) == "text"
    assert from_object(pd.DataFrame()).rows == 0
    assert from_object(pd.DataFrame(index=range(3))).data == b"[]"
    assert from_object({date(2024, 1, 31): "\ud800"}).data == b'{"2024-01-31":"\xef\xbf\xbd"}'
    with pytest.raises(UpstreamFault, match="returned nothing"):
        from_object(None)
