"""Sessions in a recorded market: their days, their bounds, and that no later day shows."""

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from gateway import ErrorCode, Gateway
from gateway.trace import JsonLines
from tests.support.markets import DATES, DAYS, act, day, market_gateway, opened, write_market
from tests.support.upstreams import embeddings, upstream

pytestmark = pytest.mark.anyio


async def test_a_day_ends_when_each_asset_has_a_decision(tmp_path: Path) -> None:
    async with market_gateway(write_market(tmp_path / "m"), tmp_path) as gateway:
        session = await opened(gateway, "AAA,bbb")
        seen = (await act(gateway, "observe", session=session)).value
        assert (seen["date"], seen["phase"]) == (day(0), "warm_up")
        assert [asset["symbol"] for asset in seen["assets"]] == ["AAA", "BBB"]
        traded = await act(
            gateway, "trade", session=session, date=day(0), symbol="AAA", action="sell"
        )
        assert traded.value["next_date"] == day(0)
        again = await act(
            gateway, "trade", session=session, date=day(0), symbol="AAA", action="buy"
        )
        assert again.error is not None
        assert again.error.code is ErrorCode.INVALID_ARGUMENTS
        assert again.error.message.endswith(
            "decision for 2024-01-01 already: sell; still to be decided: BBB"
        )
        traded = await act(
            gateway, "trade", session=session, date=day(0), symbol="bbb", action="buy"
        )
        assert traded.value["next_date"] == day(1)
        one = (await act(gateway, "observe", session=session, symbol="AAA")).value
        assert [(asset["symbol"], asset["position"]) for asset in one["assets"]] == [("AAA", -1)]
        assert one["assets"][0]["price"] != seen["assets"][0]["price"]


async def play(gateway: Gateway, session: str, days: int) -> list[dict[str, Any]]:
    found = []
    for number in range(days):
        traded = await act(gateway, "trade", session=session, date=day(number), action="buy")
        assert traded.ok, traded.error
        found.append(traded.value)
    return found


async def test_a_session_ends_after_its_last_day(tmp_path: Path) -> None:
    async with market_gateway(write_market(tmp_path / "m"), tmp_path) as gateway:
        session = await opened(gateway)
        traded = await play(gateway, session, DAYS)
        assert [one["is_over"] for one in traded] == [False] * (DAYS - 1) + [True]
        assert [one["phase"] for one in traded] == ["warm_up"] * 3 + ["test"] * (DAYS - 3)
        for operation in ("observe", "trade", "recall"):
            more = {"date": day(DAYS - 1), "action": "buy"} if operation == "trade" else {}
            more |= {"question": "news"} if operation == "recall" else {}
            after = await act(gateway, operation, session=session, **more)
            assert after.error is not None
            assert "the session is over: its last day was 2024-01-12" in after.error.message
        closed = await act(gateway, "close", session=session)
        assert closed.value == {"closed": True, "is_over": True}
        gone = await act(gateway, "observe", session=session)
        assert gone.error is not None
        assert gone.error.code is ErrorCode.NOT_FOUND


ODD_CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("trade", {"date": "2024-01-02", "action": "buy"}, "current day is 2024-01-01, not"),
    ("trade", {"date": day(0), "action": "keep"}, "buy"),
    ("trade", {"date": day(0), "action": "buy", "symbol": "CCC"}, "which has AAA"),
    ("trade", {"date": day(0), "action": "buy", "memories": "1,x"}, "such as 3,17"),
    ("trade", {"date": day(0), "action": "buy", "reason": "a" * 1001}, "at most 1000"),
    ("observe", {"symbol": "BBB"}, "no asset of this session"),
    ("recall", {"question": "q", "limit": 0}, "from 1 to 20"),
    ("recall", {"question": "q" * 4_001}, "at most 4000 characters"),
    ("recall", {"question": "q", "chars": 5}, "from 50 to 10000"),
    ("open", {"symbols": "AAA,ZZZ", **DATES}, "'ZZZ' is no asset of this market; there are AAA, B"),
    ("open", {"symbols": "AAA,aaa", **DATES}, "AAA is named twice"),
    ("open", {"symbols": ",", **DATES}, "1 to 20 assets"),
    ("open", {"symbols": "AAA"}, "no trading day from 2023-02-11 to 2023-11-05"),
    ("open", {"symbols": "AAA", "test_from": "2024-01-04"}, "give test_from and test_to"),
    (
        "open",
        {"symbols": "AAA", "test_from": "2024-01-04", "test_to": "2024-01-02"},
        "test_to: '2024-01-02' is before test_from '2024-01-04'",
    ),
    (
        "open",
        {"symbols": "AAA", **DATES, "warm_up_from": "2025-01-01"},
        "warm_up_from <= test_from",
    ),
]


async def test_calls_that_do_not_fit_say_what_would(tmp_path: Path) -> None:
    async with market_gateway(write_market(tmp_path / "m"), tmp_path) as gateway:
        session = await opened(gateway)
        for operation, arguments, said in ODD_CALLS:
            of = {} if operation == "open" else {"session": session}
            result = await act(gateway, operation, **of, **arguments)
            assert result.error is not None, arguments
            assert result.error.code is ErrorCode.INVALID_ARGUMENTS
            assert result.error.fault == "agent"
            assert said in result.error.message
        assert (await act(gateway, "observe", session=session)).value["date"] == day(0)


async def test_sessions_are_of_their_client_and_bounded(tmp_path: Path) -> None:
    folder = write_market(tmp_path / "m")
    async with market_gateway(folder, tmp_path, market_sessions=4) as gateway:
        mine, others = "a", "b"
        first = (await act(gateway, "open", mine, symbols="AAA", **DATES)).value["session"]
        unknown = await act(gateway, "observe", others, session=f"0-{'0' * 32}")
        foreign = await act(gateway, "observe", others, session=first)
        assert foreign.error == unknown.error, "whether it exists does not show"
        assert (await act(gateway, "observe", mine, session=first)).ok
        assert (await act(gateway, "open", mine, symbols="AAA", **DATES)).ok
        full = await act(gateway, "open", mine, symbols="AAA", **DATES)
        assert full.error is not None
        assert (full.error.code, full.error.retryable) == (ErrorCode.QUOTA_EXHAUSTED, False)
        assert "a client has at most 2 sessions" in full.error.message
        assert (await act(gateway, "close", mine, session=first)).ok
        assert (await act(gateway, "open", mine, symbols="AAA", **DATES)).ok


async def test_reasons_are_bounded_in_bytes_and_by_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adapters.market.adapter.REASON_BYTES", 400)
    async with market_gateway(write_market(tmp_path / "m"), tmp_path) as gateway:

        async def trade(client: str, session: str, number: int, **more: str) -> ErrorCode | None:
            given = {"session": session, "date": day(number), "action": "buy", **more}
            result = await act(gateway, "trade", client, **given)
            return None if result.error is None else result.error.code

        opened_by = {
            one: (await act(gateway, "open", one, symbols="AAA", **DATES)).value["session"]
            for one in "ab"
        }
        assert await trade("a", opened_by["a"], 0, reason="r" * 190, memories="1") is None
        assert await trade("a", opened_by["a"], 1, reason="r") is ErrorCode.OVERLOADED
        assert await trade("a", opened_by["a"], 1, memories="1") is ErrorCode.OVERLOADED
        assert await trade("b", opened_by["b"], 0, reason="r" * 90) is None, "half is for others"
        assert await trade("a", opened_by["a"], 1) is None, "a trade needs no reason"
        await act(gateway, "close", "a", session=opened_by["a"])
        again = (await act(gateway, "open", "a", symbols="AAA", **DATES)).value["session"]
        assert await trade("a", again, 0, reason="r") is None


async def test_a_session_that_is_not_used_ends(tmp_path: Path) -> None:
    folder = write_market(tmp_path / "m")
    async with market_gateway(folder, tmp_path, market_idle_s=0.05, market_sessions=2) as gateway:
        session = await opened(gateway)
        await asyncio.sleep(0.1)
        assert (await opened(gateway)) != session, "the old one no longer takes room"
        gone = await act(gateway, "observe", session=session)
        assert gone.error is not None
        assert gone.error.code is ErrorCode.NOT_FOUND


async def test_answers_are_never_cached_or_shared_and_the_id_is_in_no_record(
    tmp_path: Path,
) -> None:
    folder, trace = write_market(tmp_path / "m"), tmp_path / "calls.jsonl"
    async with (
        JsonLines.open(trace) as lines,
        market_gateway(folder, tmp_path, lines) as gateway,
    ):
        session = await opened(gateway)
        seen = await asyncio.gather(*(act(gateway, "observe", session=session) for _ in "ab"))
        assert {result.source for result in seen} == {"recorded"}
        assert [result.handle for result in seen] == [None, None]
        assert sum(result.attempts for result in seen) == 2
        await act(gateway, "trade", session=session, date=day(3), action="buy")
    assert session not in trace.read_text()
    assert session[2:] not in trace.read_text()
    records = [json.loads(line) for line in trace.read_text().splitlines()]
    assert len(records) == 4
    assert {record["digest"] for record in records} == {None}


async def every_answer(gateway: Gateway, days: int) -> list[bytes]:
    """All that the tools say on a day, with what is wrong among it."""
    session = await opened(gateway)
    await play(gateway, session, days)
    said = []
    for operation, arguments in (
        ("observe", {}),
        ("observe", {"symbol": "ZZZ"}),
        ("recall", {"question": "news of the year", "limit": 20}),
        ("recall", {"question": "", "limit": 1}),
        ("trade", {"date": day(days + 1), "action": "buy"}),
        ("trade", {"date": day(DAYS - 1), "action": "sell", "memories": "99999"}),
        ("trade", {"date": "2024-02-01", "action": "sell"}),
        ("open", {"symbols": "AAA", **DATES, "warm_up_from": day(0)}),
        ("open", {"symbols": "AAA,ZZZ"}),
        ("close", {}),
    ):
        of: dict[str, Any] = {} if operation == "open" else {"session": session}
        result = await act(gateway, operation, **of, **arguments)
        if result.error is not None:
            said.append(repr(result.error).encode())
        else:
            said.append(result.data.replace(session.encode(), b""))
    opened_again = said[7]
    said[7] = opened_again[opened_again.index(b'"symbols"') :]
    return said


async def test_no_tool_says_anything_of_a_later_day(tmp_path: Path) -> None:
    """A market that is equal to another up to a day, and in nothing after it, gives the same
    answers.
    """
    async with market_gateway(write_market(tmp_path / "m"), tmp_path / "cache") as whole:
        for days in range(DAYS):
            folder = write_market(tmp_path / f"{days}", seed=1, same_until=days + 1)
            async with market_gateway(folder, tmp_path / f"cache-{days}") as other:
                assert await every_answer(whole, days) == await every_answer(other, days)


async def test_sessions_side_by_side_are_as_alone(tmp_path: Path) -> None:
    """Sessions of interleaved calls see what each sees alone."""
    actions = [*itertools.islice(itertools.cycle(("buy", "sell", "hold")), DAYS)]

    async def course(gateway: Gateway, shift: int) -> list[bytes]:
        session, seen = await opened(gateway), []
        for number in range(DAYS):
            observed = await act(gateway, "observe", session=session)
            question: dict[str, Any] = {"question": f"news {number}", "session": session}
            recalled = await act(gateway, "recall", **question)
            ids = [one["id"] for one in recalled.value["memories"]["short"]]
            action = actions[(number + shift) % DAYS]
            traded = await act(
                gateway,
                "trade",
                session=session,
                date=day(number),
                action=action,
                reason=f"day {number} of {shift}",
                memories=ids,
            )
            seen += [observed.data, recalled.data, traded.data]
        return seen

    async with market_gateway(write_market(tmp_path / "m"), tmp_path) as gateway:
        alone = [await course(gateway, shift) for shift in range(5)]
        together = await asyncio.gather(*(course(gateway, shift) for shift in range(5)))
        assert [*together] == alone


async def test_memories_are_searched_by_embeddings_where_an_embedder_is_set(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_market(tmp_path / "m")
    asked: dict[str, Any] = {"question": "AAA news", "limit": 20}
    async with upstream(embeddings) as url:
        options: dict[str, Any] = {
            "embeddings_url": url,
            "embeddings_model": "words",
            "embeddings_key": "k",
        }
        async with market_gateway(folder, tmp_path / "a", **options) as gateway:
            session = await opened(gateway)
            await play(gateway, session, 9)
            found = [(await act(gateway, "recall", session=session, **asked)).value for _ in "ab"]
    assert found[0] == found[1]
    assert found[0]["similarity"] == "embeddings"
    options["embeddings_url"] = "http://127.0.0.1:1"
    async with market_gateway(folder, tmp_path / "b", **options) as gateway:
        session = await opened(gateway)
        await play(gateway, session, 9)
        alone = (await act(gateway, "recall", session=session, **asked)).value
    assert alone["similarity"] == "BM25"
    assert "searched without embeddings" in caplog.text
    assert alone["held"] == found[0]["held"]
    assert alone["memories"] != found[0]["memories"]
