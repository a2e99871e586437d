import asyncio
import contextlib
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cache import Entry, Recorder, Row, Snapshot, SnapshotError
from cache.blocks import block
from cache.frame import FrameError
from cache.merge import merge
from cache.snapshot import JOURNAL
from tests.support import rows

pytestmark = pytest.mark.anyio


async def recorded(path: Path, *content: Row) -> Path:
    async with Recorder.open(path) as recorder:
        for row in content:
            await recorder.add(row)
    return path


async def interrupted(path: Path, *content: Row, origin: str = "") -> None:
    with contextlib.suppress(KeyboardInterrupt):
        async with Recorder.open(path, origin) as recorder:
            for row in content:
                await recorder.add(row)
            raise KeyboardInterrupt


async def test_the_same_answers_have_the_same_id_in_any_order_at_any_time(tmp_path: Path) -> None:
    numbers = list(range(60))
    one = await recorded(tmp_path / "one", *(rows.row(n, at=1.0) for n in numbers))
    random.Random(1).shuffle(numbers)
    other = await recorded(tmp_path / "other", *(rows.row(n, at=2.0) for n in numbers))
    halves = []
    for half in (0, 1):
        content = (rows.row(n) for n in numbers[half::2])
        halves.append(await recorded(tmp_path / f"half-{half}", *content))
    merged = merge(halves, tmp_path / "merged")
    with Snapshot(one) as a, Snapshot(other) as b, Snapshot(tmp_path / "merged") as c:
        assert a.id == b.id == c.id == merged.id
        assert (a.summary.rows, merged.conflicts) == (60, 0)
        assert a.summary.statuses == {"ok": 54, "upstream_error": 6}
        assert {row.key for row in a.rows()} == {row.key for row in b.rows()}
        assert a.verify() == b.verify() == c.verify() == []
        assert [row.arguments["n"] for row in a.rows("get_coin")] != []
        assert {row.tool for row in a.rows("get_coin")} == {"get_coin"}
        assert list(a.rows("no_such_tool")) == []
    assert one.stat().st_mode & 0o777 == 0o444


@pytest.mark.parametrize(
    "change",
    [
        {"tool": "other"},
        {"revision": "1" * 16},
        {"arguments": {"n": 2}},
        {"status": "timeout"},
        {"data": b'[{"a":"x"}]'},
        {"columns": ("b",)},
        {"rows": 2},
        {"upstream": "live"},
    ],
)
def test_the_digest_covers_what_was_asked_and_answered(change: dict[str, Any]) -> None:
    row = rows.row(1)
    of_call = change.keys() & {"tool", "revision", "arguments", "status"}
    of_entry: dict[str, Any] = {} if of_call else change
    entry = replace(row.entry, digest="", **of_entry)
    other = replace(row, **({} if of_entry else change), entry=entry)
    assert other.digest != row.digest
    timeless = replace(entry, digest="", recorded_at=0.0, latency_ms=0.0)
    assert replace(other, entry=timeless).digest == other.digest, "and no time"


async def test_where_sources_differ_an_answer_stands_before_an_error_then_the_later(
    tmp_path: Path,
) -> None:
    def row(status: str, text: bytes, at: float) -> Row:
        return Row("t", "r", {}, status, Entry(text, None, None, at, 1.0, "live"))

    first = await recorded(tmp_path / "1", row("ok", b"1", 1.0))
    second = await recorded(tmp_path / "2", row("ok", b"2", 2.0))
    failed = await recorded(tmp_path / "3", row("timeout", b'{"code":"timeout"}', 3.0))
    sources = [first, second, failed]
    ids = set()
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        out = tmp_path / f"merged-{order}"
        summary = merge([sources[n] for n in order], out)
        ids.add(summary.id)
        assert (summary.rows, summary.conflicts) == (1, 1)
        with Snapshot(out) as snapshot:
            assert [r.entry.data for r in snapshot.rows()] == [b"2"]
    assert len(ids) == 1


async def test_verify_finds_any_flipped_byte(tmp_path: Path) -> None:
    path = await recorded(tmp_path / "s", *(rows.row(n) for n in range(8)))
    whole = path.read_bytes()
    luck = random.Random(2)
    places = [*range(40), *range(len(whole) - 60, len(whole))]
    places += luck.sample(range(len(whole)), 500)
    changed = tmp_path / "changed"
    for place in places:
        content = bytearray(whole)
        content[place] ^= 1 << luck.randrange(8)
        changed.write_bytes(content)
        try:
            with Snapshot(changed) as snapshot:
                assert snapshot.verify() != [], f"byte {place} of {len(whole)}"
        except SnapshotError:
            continue


async def test_a_snapshot_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = (await recorded(tmp_path / "s", rows.row(1), rows.row(2))).read_bytes()
    cut = tmp_path / "cut"
    for length in {0, 1, 18, 19, 100, len(whole) // 2, len(whole) - 1}:
        cut.write_bytes(whole[:length])
        with pytest.raises(SnapshotError, match=r"no snapshot, or a damaged one|ends before"):
            Snapshot(cut)


async def test_a_file_that_shrinks_while_it_is_open_is_an_error(tmp_path: Path) -> None:
    path = await recorded(tmp_path / "s", rows.row(1), rows.row(2))
    with Snapshot(path) as snapshot:
        path.chmod(0o600)
        with path.open("r+b") as file:
            file.truncate(100)
        with pytest.raises(SnapshotError, match="ends before byte"):
            snapshot.get(rows.row(1).key)


async def test_a_recording_of_nothing_is_no_snapshot(tmp_path: Path) -> None:
    path = await recorded(tmp_path / "s")
    assert os.listdir(tmp_path) == []
    async with Recorder.open(path) as recorder:
        with pytest.raises(SnapshotError, match="no row, no snapshot"):
            merge([recorder.journal], tmp_path / "out")


async def test_a_recording_that_ends_by_an_exception_can_be_gone_on_with(tmp_path: Path) -> None:
    for number in (1, 2):
        await interrupted(tmp_path / "s", rows.row(number))
        assert os.listdir(tmp_path) == ["s.journal"]
    await recorded(tmp_path / "s", rows.row(3))
    with Snapshot(tmp_path / "s") as snapshot:
        assert snapshot.summary.rows == 3


async def test_a_journal_of_another_upstream_is_not_gone_on_with(tmp_path: Path) -> None:
    await interrupted(tmp_path / "s", rows.row(1), origin="simulated-0")
    with pytest.raises(SnapshotError, match="is of upstream simulated-0, not live"):
        async with Recorder.open(tmp_path / "s", "live"):
            pass


async def test_an_error_takes_nothing_from_an_answer(tmp_path: Path) -> None:
    answer = rows.row(1)
    error = Row(answer.tool, answer.revision, answer.arguments, "timeout", rows.entry(2))
    error = rows.failed(error)
    async with Recorder.open(tmp_path / "s") as recorder:
        await recorder.add(answer)
        await recorder.add(error)
        assert recorder.answered(answer.key)
    with Snapshot(tmp_path / "s") as snapshot:
        assert [row.status for row in snapshot.rows()] == ["ok"]


async def test_nobody_waits_for_a_row_that_will_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Recorder.open(tmp_path / "s") as recorder:
        await recorder.add(rows.row(1))
        odd = Row("t", "r", {"a": object()}, "ok", rows.entry(1))
        with pytest.raises(SnapshotError, match="a row of t can't be recorded"):
            await recorder.add(odd)
        await recorder.add(rows.row(2))  # one row that is none costs no other
    with pytest.raises(SnapshotError, match="no longer recorded"):
        await recorder.add(rows.row(3))

    def fail(*_: object) -> None:
        raise MemoryError

    async def broken() -> None:
        async with Recorder.open(tmp_path / "broken") as recorder:
            monkeypatch.setattr(recorder, "_append", fail)
            waiting = [asyncio.create_task(recorder.add(rows.row(n))) for n in range(5)]
            told = await asyncio.gather(*waiting, return_exceptions=True)
            assert {type(error) for error in told} == {SnapshotError}
            with pytest.raises(SnapshotError, match="MemoryError"):
                await recorder.add(rows.row(9))

    with anyio.fail_after(5), pytest.raises(SnapshotError, match="MemoryError"):
        await broken()


async def test_nearest_are_those_that_differ_least(tmp_path: Path) -> None:
    def row(**arguments: object) -> Row:
        return Row("t", "r", arguments, "ok", Entry(b"1", None, None, 1.0, 1.0, "live"))

    path = await recorded(
        tmp_path / "s",
        row(symbol="600519", start="20240101"),
        row(symbol="000001", start="20240101"),
        row(symbol="600519", start="20230101"),
        row(symbol="300750", start="20200101"),
    )
    with Snapshot(path) as snapshot:
        assert snapshot.nearest("t", {"symbol": "600518", "start": "20240101"}) == [
            {"symbol": "600519", "start": "20240101"},
            {"symbol": "000001", "start": "20240101"},
            {"symbol": "600519", "start": "20230101"},
        ]


values = st.text(max_size=8) | st.integers(-(2**53), 2**53) | st.booleans() | st.none()
calls = st.tuples(
    st.sampled_from("abc"), st.dictionaries(st.text(max_size=4), values, max_size=3), values
)


@settings(max_examples=30)
@given(st.lists(calls, min_size=1, max_size=12))
def test_every_row_is_found_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, content: list[tuple[str, dict[str, object], object]]
) -> None:
    folder = tmp_path_factory.mktemp("snapshot")
    made = [
        Row(
            tool, "r", arguments, "ok", Entry(orjson.dumps(data), None, None, float(n), 1.0, "live")
        )
        for n, (tool, arguments, data) in enumerate(content)
    ]
    path = asyncio.run(recorded(folder / "s", *made))
    last = {row.key: row for row in made}
    with Snapshot(path) as snapshot:
        assert snapshot.summary.rows == len(last)
        for key, row in last.items():
            found = snapshot.get(key)
            assert found is not None
            assert (found.tool, found.arguments) == (row.tool, row.arguments)
            assert found.entry.data == row.entry.data
        assert snapshot.get("f" * 32) is None
        assert snapshot.verify() == []


def test_a_row_under_another_key_is_refused() -> None:
    frame = rows.row(1).encode()
    assert Row.decode(frame) == rows.row(1, at=Row.decode(frame).entry.recorded_at)
    with pytest.raises(FrameError, match="not a row"):
        Row.decode(rows.entry(1).encode("k"))


async def test_one_recorder_at_a_time_and_never_over_a_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "s"
    async with Recorder.open(path) as recorder:
        await recorder.add(rows.row(1))
        with pytest.raises(SnapshotError, match="being recorded by another process"):
            async with Recorder.open(path):
                pass
    with pytest.raises(SnapshotError, match="a snapshot never changes"):
        async with Recorder.open(path):
            pass
    with pytest.raises(SnapshotError, match="a snapshot never changes"):
        merge([path], path)


async def test_a_recording_under_way_is_told_from_a_snapshot(tmp_path: Path) -> None:
    async with Recorder.open(tmp_path / "s") as recorder:
        await recorder.add(rows.row(1))
        with pytest.raises(SnapshotError, match="a recording that has not ended"):
            Snapshot(recorder.journal)
        assert merge([recorder.journal], tmp_path / "so-far").rows == 1


async def test_a_write_that_was_cut_off_is_no_row_and_costs_no_other(tmp_path: Path) -> None:
    journal = await _journal(tmp_path, 3)
    path = tmp_path / "torn.journal"
    zeros = [bytes(n) for n in (1, 3, 8, 10, 4_095, 4_096, 4_097)]
    more = block(rows.row(4).encode())
    torn_ends = [*zeros, *(more[:n] for n in (1, 7, 8, 9, 100, len(more) - 1))]
    torn_ends.append(more[:100] + bytes(len(more) - 100))  # the pages of a write may come alone
    for end in torn_ends:
        path.write_bytes(journal + end)
        await recorded(tmp_path / "torn", rows.row(5))
        with Snapshot(tmp_path / "torn") as snapshot:
            assert snapshot.summary.rows == 4, end[:20]
        (tmp_path / "torn").unlink()
    for start in (b"", bytes(10), bytes(4_096), journal[:10]):
        path.write_bytes(start)
        await recorded(tmp_path / "torn", rows.row(5))
        (tmp_path / "torn").unlink()


async def test_damage_in_a_journal_is_told_and_nothing_is_cut(tmp_path: Path) -> None:
    journal = await _journal(tmp_path, 10)
    path, first = tmp_path / "s.journal", len(JOURNAL) + 1
    for place, salvaged in ((first, 0), (first + 3, 0), (first + 7, 0), (first + 50, 9)):
        damaged = bytearray(journal)
        damaged[place] ^= 0x40
        path.write_bytes(damaged)
        with pytest.raises(SnapshotError, match=r"row (begins )?at byte .*--salvage"):
            await recorded(tmp_path / "s")
        with pytest.raises(SnapshotError, match="at byte"):
            merge([path], tmp_path / "merged")
        assert path.read_bytes() == damaged, "left as it was found"
        if salvaged:
            summary = merge([path], tmp_path / "merged", salvage=True)
            assert (summary.rows, summary.damaged) == (salvaged, 1)
    path.write_bytes(b"something else entirely, of another program")
    with pytest.raises(SnapshotError, match="no journal of a recording"):
        await recorded(tmp_path / "s")


async def _journal(folder: Path, content: int) -> bytes:
    """A journal of so many rows."""
    async with Recorder.open(folder / "made") as recorder:
        for number in range(1, content + 1):
            await recorder.add(rows.row(number))
        return recorder.journal.read_bytes()


async def test_a_disk_that_takes_no_more_ends_the_recording_and_loses_nothing(
    tmp_path: Path,
) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    acknowledged = []

    async def until_full() -> None:
        async with Recorder.open(tmp_path / "s") as recorder:
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
            for number in range(1_000):
                await recorder.add(rows.row(number))
                acknowledged.append(number)

    try:
        with pytest.raises(SnapshotError, match="File too large; what was recorded before is in"):
            await until_full()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(acknowledged) > 3
    summary = merge([tmp_path / "s.journal"], tmp_path / "salvaged")
    assert summary.rows == len(acknowledged)
    async with Recorder.open(tmp_path / "s"):
        pass
    with Snapshot(tmp_path / "s") as snapshot:
        assert snapshot.id == summary.id
