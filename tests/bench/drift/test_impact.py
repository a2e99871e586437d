"""What became of single calls and episodes between two snapshots."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.agents.agent import ToolCall
from bench.drift.impact import Fate, Fates, Impact
from bench.record import DRIVER, EpisodeRecord
from cache import Recorder, Row, Snapshot
from gateway import ErrorCode
from gateway.pipeline.bind import REDACTED, Binder
from manifests import Catalog
from tests.support.records import episode, made
from tests.support.rows import answering, entry, refusing

CATALOG = Catalog.load().with_market()


def row_of(number: int) -> Row:
    """An answered call of `get_coin`."""
    bound = Binder(CATALOG).bind("get_coin", {"uuid": f"coin{number}"})
    revision = bound.plan.manifest.revision
    return Row("get_coin", revision, bound.arguments, "ok", entry(1, at=1.0))


def coin(number: int) -> ToolCall:
    return ToolCall("get_coin", {"uuid": f"coin{number}"})


@contextmanager
def fates(a: list[Row], b: list[Row]) -> Iterator[Fates]:
    async def record(path: Path, rows: list[Row]) -> None:
        async with Recorder.open(path) as recorder:
            for row in rows:
                await recorder.add(row)

    paths = Path("a.snap"), Path("b.snap")
    for path, rows in zip(paths, (a, b), strict=True):
        asyncio.run(record(path, rows))
    with Snapshot(paths[0]) as first, Snapshot(paths[1]) as second:
        yield Fates(first, second, CATALOG)


def test_what_becomes_of_a_call() -> None:
    rows = [row_of(number) for number in range(9)]
    timeout = ErrorCode.TIMEOUT
    a = [*rows[:3], refusing(rows[3]), refusing(rows[4]), refusing(rows[5]), rows[6]]
    later = refusing(rows[5])
    worded = replace(later.entry, data=later.entry.data.replace(b"gone", b"away"), digest="")
    b = [
        *(rows[0], answering(rows[1], "x"), refusing(rows[2]), rows[3], refusing(rows[4], timeout)),
        *(replace(later, entry=worded), rows[7]),
    ]
    with fates(a, b) as found:
        assert [found.of(coin(number)) for number in range(9)] == [
            *(Fate.SAME, Fate.OTHER_ANSWER, Fate.NOW_FAILS, Fate.NOW_ANSWERS, Fate.OTHER_ERROR),
            *(Fate.SAME, Fate.MISSING_B, Fate.MISSING_A, Fate.MISSING_BOTH),
        ]


@pytest.mark.parametrize(
    ("tool", "arguments", "fate"),
    [
        ("generate_wallet", {}, Fate.NEVER_RECORDED),
        ("market_open", {"symbols": "JNJ"}, Fate.NEVER_RECORDED),
        ("market_observe", {}, Fate.NEVER_RECORDED),
        ("get_coin", {"uid": 3, "other": 4}, Fate.REFUSED),
        ("no_such_tool", {}, Fate.REFUSED),
    ],
)
def test_calls_that_no_snapshot_can_hold(tool: str, arguments: dict[str, Any], fate: Fate) -> None:
    with fates([row_of(0)], [row_of(0)]) as found:
        assert found.of(ToolCall(tool, arguments)) is fate
        assert found.of(ToolCall("get_coin", {"uuid": "coin0"}, "a problem")) is Fate.REFUSED


def with_calls(*calls: ToolCall, step: int = 1) -> EpisodeRecord:
    return episode(
        *(
            replace(made(step), tool_name=call.tool, parameters=dict(call.arguments))
            for call in calls
        )
    )


def test_calls_of_the_driver_and_redacted_ones_are_not_compared() -> None:
    impact = Impact()
    with fates([row_of(0)], [answering(row_of(0), "x")]) as found:
        for record in (
            with_calls(coin(0), step=DRIVER),
            with_calls(ToolCall("get_coin", {"uuid": REDACTED})),
            with_calls(ToolCall("generate_wallet", {}), coin(0)),
        ):
            impact.add(record, found, {"m": 1.0}, {"m": 1.0})
    result = impact.result()
    calls = {name: n for name, n in result["calls"].items() if name != "tools" and n}
    expected = {"calls": 3, "changed": 1, "other_answer": 1, "never_recorded": 1, "refused": 1}
    assert calls == expected
    assert result["episodes"]["compared_without_a_call"] == 2
    assert [change["tools"] for change in result["episodes"]["changes"]] == [{"get_coin": 1}]


def test_an_outcome_that_changes_alone_is_told_and_an_episode_that_was_not_played_counts_not() -> (
    None
):
    impact = Impact()
    with fates([row_of(0)], [row_of(0)]) as found:
        impact.add(with_calls(coin(0)), found, {"m": 1.0}, {"m": None})
        impact.add(with_calls(coin(0)), found, None, {"m": 1.0})
    result = impact.result()["episodes"]
    assert result["changed_outcomes_without_a_changed_call"] == 1
    assert result["changes"][0]["outcome"] == {"m": (1.0, None)}
    assert (result["compared"], result["not_replayed"], impact.same_outcomes) == (1, 1, 0.0)
