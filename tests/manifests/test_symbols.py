"""Codes for names: spellings, ambiguity, forms, and the table that is kept on disk."""

import logging
import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manifests.symbols import OLD_S, Symbol, Symbols, SymbolTable, rows

CODES = {
    **dict.fromkeys(("sh", "sz", "bj", "of"), r"\d{6}"),
    "hk": r"\d{5}|HS[A-Z]+",
    **dict.fromkeys(("nasdaq", "nyse", "amex"), r"[A-Z]{1,5}(\.[A-Z])?"),
    **dict.fromkeys(("shfe", "dce", "czce", "cffex", "ine", "gfex"), "[A-Z]{1,2}"),
    "fx": "[A-Z]{3}",
}


def test_the_packaged_table_is_well_formed() -> None:
    table = Symbols.load()
    assert len(table) > 1_000
    for one in table:
        assert one.name.strip(), one
        assert re.fullmatch(CODES.get(one.exchange, r"[A-Z0-9.]+"), one.code), one


@pytest.mark.parametrize(
    ("text", "exchange", "code", "by"),
    [
        ("贵州茅台", "sh", "600519", "name"),
        ("kweichow moutai", "sh", "600519", "name"),
        ("Ｍｏｕｔａｉ", "sh", "600519", "name"),
        ("guizhoumaotai", "sh", "600519", "pinyin"),
        ("GZMT", "sh", "600519", "pinyin"),
        ("600519.SH", "sh", "600519", "code"),
        ("sh600519", "sh", "600519", "code"),
        ("0700.HK", "hk", "00700", "code"),
        ("aapl", "nasdaq", "AAPL", "code"),
        ("105.AAPL", "nasdaq", "AAPL", "code"),
        ("NASDAQ:AAPL", "nasdaq", "AAPL", "code"),
        ("AAPL.O", "nasdaq", "AAPL", "code"),
        ("BRK-B", "nyse", "BRK.B", "code"),
        ("700.hk", "hk", "00700", "code"),
        ("600519.XSHG", "sh", "600519", "code"),
        ("Tesla", "nasdaq", "TSLA", "name"),
        ("贵州茅苔", "sh", "600519", "pinyin"),
        ("Kweichow Moutay", "sh", "600519", "similar spelling"),
    ],
)
def test_a_name_or_code_in_any_spelling_finds_its_instrument(
    text: str, exchange: str, code: str, by: str
) -> None:
    best = Symbols.load().resolve(text)[0]
    assert (best.symbol.exchange, best.symbol.code) == (exchange, code)
    assert best.by == by


def test_a_name_of_several_instruments_gives_them_all() -> None:
    names = {match.symbol.name for match in Symbols.load().resolve("平安") if match.score == 100}
    assert names >= {"中国平安", "平安银行"}


@settings(max_examples=100)
@given(st.text(max_size=80), st.integers(1, 30))
def test_any_text_is_resolved_the_same_twice(text: str, limit: int) -> None:
    table = Symbols.load()
    found = table.resolve(text, limit)
    assert found == table.resolve(text, limit)
    assert len(found) <= limit
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    for start, end, those in table.mentioned(text):
        assert 0 <= start < end <= len(text.lower())
        assert those


def test_codes_are_written_as_each_kind_of_tool_wants_them() -> None:
    share = Symbol("sz", "000001", "share", ("平安银行",)).forms()
    assert share["a-share-code"] == "000001"
    assert (share["a-share-prefixed"], share["a-share-suffixed"]) == ("sz000001", "000001.SZ")
    assert Symbol("nyse", "KO", "share", ("x",)).forms() == {"ticker": "KO", "us-code": "106.KO"}
    assert Symbol("hk", "00700", "share", ("x",)).forms()["ticker"] == "0700.HK"
    assert Symbol("sh", "510300", "etf", ("x",)).forms()["fund-code"] == "510300"


def test_a_ticker_is_one_instrument_whichever_exchange_a_listing_names() -> None:
    listed = Symbol("nasdaq", "DIS", "share", ("Disney",))
    table = Symbols.load().with_more([listed])
    (found,) = table.exact("Disney")
    assert (found.exchange, found.code) == ("nyse", "DIS")


@pytest.mark.parametrize(
    ("text", "named"),
    [("block trades", []), ("Block earnings", ["Block"]), ("the yield curve", [])],
)
def test_words_that_are_names_too_count_in_capitals_only(text: str, named: list[str]) -> None:
    found = Symbols.load().mentioned(text, {"trades", "yield"})
    assert [text[start:end] for start, end, _ in found] == named


def test_a_line_of_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="line 1: six columns are expected"):
        [*rows("sh\t600519\tshare")]


@pytest.mark.anyio
async def test_listings_are_added_and_kept_and_read_again(tmp_path: Path) -> None:
    file = tmp_path / "symbols.tsv"
    asked = 0

    async def listings() -> list[Symbol]:
        nonlocal asked
        asked += 1
        return [Symbol("sh", "699999", "share", ("新\t公|司\n", "Newco"))]

    table = SymbolTable(file, listings)
    assert not (await table.read()).exact("Newco")
    assert (await table.renewed()).exact("Newco")[0].code == "699999"
    again = SymbolTable(file, listings)
    assert (await again.read()).exact("新 公 司")[0].code == "699999"
    await again.renewed()
    assert asked == 1
    old = file.stat().st_mtime - 2 * OLD_S
    os.utime(file, (old, old))
    late = SymbolTable(file, listings)
    await late.renewed()
    assert asked == 2
    await late.aclose()


@pytest.mark.anyio
@pytest.mark.parametrize("text", [b"sh\t1\n", b"\xff\xfe\x00", b""])
async def test_a_damaged_file_is_told_and_the_packaged_table_stands_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: bytes
) -> None:
    file = tmp_path / "symbols.tsv"
    file.write_bytes(text)
    with caplog.at_level(logging.WARNING, "finport"):
        assert (await SymbolTable(file).read()).exact("贵州茅台")
    assert bool(text) == ("symbols.tsv: it is not read" in caplog.text)


@pytest.mark.anyio
async def test_a_table_of_any_size_is_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "symbols.tsv"
    file.write_bytes(b"sh\t600001\tshare\ta\tb\tc\n" * 100_000)
    with caplog.at_level(logging.WARNING, "finport"):
        assert len(await SymbolTable(file).read()) == len(Symbols.load())
    assert "2,200,000 bytes, over 2,000,000" in caplog.text


@pytest.mark.anyio
async def test_listings_that_fail_leave_the_table_as_it_was(tmp_path: Path) -> None:
    async def listings() -> list[Symbol]:
        raise TimeoutError

    table = SymbolTable(tmp_path / "no" / "symbols.tsv", listings)
    assert (await table.renewed()).exact("贵州茅台")
    assert not (tmp_path / "no").exists()
