"""Recorded decisions: rows of figures, and errors that name line and field."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from adapters.market.prices import Market, MarketDay
from bench.suites.investorbench.decisions import read_decisions
from bench.suites.investorbench.returns import day_returns, figures
from bench.suites.suite import TraceFormatError

DAYS = (date(2020, 10, 1), date(2020, 10, 2), date(2020, 10, 5), date(2020, 10, 6))
PRICES = (100.0, 110.0, 99.0, 105.0)
EARLIER = MarketDay(date(2020, 9, 30), 90.0)
MARKETS = {"HON": Market("HON", (EARLIER, *map(MarketDay, DAYS, PRICES)))}
POSITIONS = {"2020-10-01": 1, "2020-10-02": -1, "2020-10-05": 0, "2020-10-06": 1}
WRONG: tuple[object, ...] = (2, -2, 0.5, True, False, None, "1", "buy", [], float("nan"))


def line(**changed: object) -> str:
    return json.dumps({"id": "a", "symbol": "HON", "positions": POSITIONS} | changed)


def rows(folder: Path, *lines: str) -> list[dict[str, Any]]:
    file = folder / "decisions.jsonl"
    file.write_text("".join(f"{one}\n" for one in lines))
    return [found.row() for found in read_decisions(file, MARKETS)]


def test_a_line_becomes_a_row_of_figures(tmp_path: Path) -> None:
    [row] = rows(tmp_path, line())
    full = figures(day_returns(PRICES, [1, -1, 0, 1]), year_days=252)
    names = ("CR", "SR", "MDD", "AV")
    wanted = [full[name] for name in names]
    assert [row[name] for name in names] == pytest.approx(wanted, abs=1e-6)
    assert row["id"] == "a"
    assert row["symbol"] == "HON"
    assert (row["days"], row["missing_days"]) == (4, 0)
    assert (row["from"], row["to"]) == ("2020-10-01", "2020-10-06")
    assert row["win_rate"] == 1.0
    assert row["turnover"] == pytest.approx((1 + 2 + 1) / 3, abs=1e-6)
    assert row["exposure"] == pytest.approx(2 / 3, abs=1e-6)
    assert "SR_missing" not in row


def test_a_missing_day_holds_nothing_and_is_counted(tmp_path: Path) -> None:
    sparse, explicit = rows(
        tmp_path,
        line(positions={"2020-10-01": 1}),
        line(id="b", positions={"2020-10-01": 1, "2020-10-02": 0, "2020-10-05": 0}),
    )
    assert (sparse["missing_days"], explicit["missing_days"]) == (2, 0)
    same = ("CR", "SR", "MDD", "AV", "turnover", "exposure")
    assert [sparse[name] for name in same] == [explicit[name] for name in same]


def test_a_sharpe_ratio_that_is_undefined_is_said_to_be_so(tmp_path: Path) -> None:
    [row] = rows(tmp_path, line(positions={}))
    assert (row["CR"], row["SR"], row["MDD"], row["AV"]) == (0.0, None, 0.0, 0.0)
    assert row["SR_missing"] == "zero volatility"
    assert row["missing_days"] == 3


def test_numbers_may_be_written_with_a_point_and_symbols_in_small_letters(tmp_path: Path) -> None:
    written = line(symbol="hon", positions={day: float(one) for day, one in POSITIONS.items()})
    assert rows(tmp_path, written) == rows(tmp_path, line(model="other fields are ignored"))


def test_an_id_may_have_several_assets(tmp_path: Path) -> None:
    file = tmp_path / "decisions.jsonl"
    file.write_text(f"{line()}\n\n{line(symbol='UVV')}")
    markets = MARKETS | {"UVV": Market("UVV", MARKETS["HON"].records)}
    assert [found.market.symbol for found in read_decisions(file, markets)] == ["HON", "UVV"]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("{", "not JSON: "),
        ("[]", "not an object with id, symbol and positions"),
        ('{"symbol": "HON", "positions": {}}', "id: missing"),
        ('{"id": "b", "id": "c", "symbol": "HON", "positions": {}}', "id: it is there twice"),
        (line(id=""), "id: not a text, or empty"),
        (line(id=3), "id: not a text, or empty"),
        (line(id="\ud800"), "id: not Unicode"),
        (line(), "id: 'a' has decisions on HON in line 1 too"),
        (line(id="b", symbol="TSLA"), "symbol: 'TSLA' is unknown; there are HON"),
        (line(id="b", symbol=1), "symbol: not a text"),
        (line(id="b", positions=[1]), "positions: not an object from dates to positions"),
        (line(id="b", positions={"1 Oct": 1}), "positions: '1 Oct' is no date; write it as "),
        (
            line(id="b", positions={"2020-10-03": 1}),
            "positions.2020-10-03: no trading day of HON",
        ),
        (
            line(id="b", positions={"2020-09-30": 1}),
            "positions.2020-09-30: outside the window, which is 2020-10-01 to 2020-10-06 for HON",
        ),
        (
            '{"id": "b", "symbol": "HON", "positions": {"2020-10-01": 1, "2020-10-01": 0}}',
            "positions.2020-10-01: it is there twice",
        ),
        *(
            (
                line(id="b", positions={"2020-10-02": value}),
                f"positions.2020-10-02: {json.dumps(value)} is no position; it must be -1 (short)",
            )
            for value in WRONG
        ),
    ],
)
def test_a_bad_line_is_named_with_its_field(tmp_path: Path, bad: str, said: str) -> None:
    with pytest.raises(TraceFormatError) as raised:
        rows(tmp_path, line(), bad)
    assert str(raised.value).startswith(f"{tmp_path / 'decisions.jsonl'}:2: {said}")


def test_a_file_without_decisions_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match="there are no decisions"):
        rows(tmp_path)
    with pytest.raises(TraceFormatError, match="No such file"):
        list(read_decisions(tmp_path / "none.jsonl", MARKETS))
