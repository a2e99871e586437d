"""Tables as CSV, Arrow and pandas: every cell is what it was."""

import csv
import io
import json
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finport import CallContext, PartialTableWarning
from gateway.tables import conversion
from tests.support.gateways import LocalGateway

pytestmark = pytest.mark.anyio

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    | st.sampled_from(['a"b', "x,y", "l1\nl2", "\r\n", "=1+1"])
)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
rows_of = st.lists(names, min_size=2, max_size=4, unique=True).flatmap(
    lambda columns: st.lists(st.fixed_dictionaries(dict.fromkeys(columns, scalars)), max_size=8)
)


def as_text(cell: Any) -> str:
    if isinstance(cell, bool):
        return json.dumps(cell)
    return "" if cell is None else str(cell)


@given(rows_of)
def test_csv_is_read_again_cell_by_cell(rows: list[dict[str, Any]]) -> None:
    columns = [*rows[0]] if rows else ["a"]
    read = [*csv.reader(io.StringIO(conversion.to_csv(rows, columns), newline=""), strict=True)]
    assert read == [columns, *([as_text(row[name]) for name in columns] for row in rows)]


@given(rows_of)
def test_an_arrow_table_has_every_row(rows: list[dict[str, Any]]) -> None:
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    columns = [*rows[0]] if rows else ["a"]
    found = conversion.to_arrow(rows, columns).to_pylist()
    assert len(found) == len(rows)
    for row, original in zip(found, rows, strict=True):
        for name in columns:
            assert row[name] == original[name] or json.loads(row[name]) == original[name]


async def test_a_result_gives_its_rows(local: LocalGateway) -> None:
    pytest.importorskip("pyarrow", reason="the extra parquet is not installed")
    pandas = pytest.importorskip("pandas", reason="the extra akshare is not installed")
    gateway = local.gateway
    cut = await gateway.call("stock_zh_a_hist", {"symbol": "000001"})
    said = r"stock_zh_a_hist: only rows 151-250 of 250, .*; CallContext\(max_rows=250\) gives all"
    for convert in (cut.to_pandas, cut.to_arrow, cut.to_csv):
        with pytest.warns(PartialTableWarning, match=said):
            convert()
    result = await gateway.call("stock_zh_a_hist", {"symbol": "000001"}, CallContext(max_rows=250))
    frame = result.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    dated = [{**row, "日期": date.fromisoformat(row["日期"])} for row in result.value]
    assert result.to_arrow().to_pylist() == dated
    frame["日期"] = frame["日期"].dt.date
    assert frame.to_dict("records") == dated
    assert len(frame) == 250
    shortened = await gateway.call(
        "stock_zh_a_hist", {"symbol": "000001"}, CallContext(max_tokens=100)
    )
    document = await gateway.call("get_coin", {"uuid": "x"})
    failed = await gateway.call("get_coin", {})
    for wrong, said in ((shortened, "shortened"), (document, "document"), (failed, "uuid")):
        with pytest.raises(conversion.NoTableError, match=said):
            wrong.to_csv()
