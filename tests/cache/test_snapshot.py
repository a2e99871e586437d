import random
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cache import Entry, Recorder, Row, Snapshot, SnapshotError, merge
from cache.frame import FrameError
from tests.cache import rows

pytestmark = pytest.mark.anyio


async def recorded(path: Path, *content: Row) -> Path:
    async with Recorder.open(path) as recorder:
        for row in content:
            await recorder.add(row)
    return path


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
def test_the_digest_covers_what_was_asked_and_answered(change: dict[str, object]) -> None:
    row = rows.row(1)
    call = {name: getattr(row, name) for name in ("tool", "revision", "arguments", "status")}
    entry = {
        name: getattr(row.entry, name)
        for name in ("data", "columns", "rows", "upstream", "recorded_at", "latency_ms")
    }
    for part in (call, entry):
        part |= {name: value for name, value in change.items() if name in part}
    other = Row(**call, entry=Entry(**entry))
    assert other.digest != row.digest
    later = Row(**{**call, "entry": Entry(**entry | {"recorded_at": 0.0, "latency_ms": 0.0})})
    assert later.digest == other.digest, "and no time"


async def test_where_sources_differ_an_answer_stands_before_an_error_then_the_later(
    tmp_path: Path,
) -> None:
    def row(status: str, text: bytes, at: float) -> Row:
        return Row("t", "r", {}, status, Entry(text, None, None, at, 1.0, "live"))

    first = await recorded(tmp_path / "1", row("ok", b"1", 1.0))
    second = await recorded(tmp_path / "2", row("ok", b"2", 2.0))
    failed = await recorded(tmp_path / "3", row("timeout", b"{}", 3.0))
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
    path = await recorded(tmp_path / "s", *(rows.row(n) for n in range(20)))
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


async def test_an_empty_recording_is_a_snapshot_too(tmp_path: Path) -> None:
    with Snapshot(await recorded(tmp_path / "s")) as snapshot:
        assert (snapshot.summary.rows, snapshot.verify()) == (0, [])
        assert snapshot.get("0" * 32) is None
        assert snapshot.nearest("t", {}) == []


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
    st.sampled_from("abc"), st.dictionaries(st.text(max_size=4), values, max_size=3), st.binary()
)


@settings(max_examples=30)
@given(st.lists(calls, max_size=12))
def test_every_row_is_found_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, content: list[tuple[str, dict[str, object], bytes]]
) -> None:
    import asyncio

    folder = tmp_path_factory.mktemp("snapshot")
    made = [
        Row(tool, "r", arguments, "ok", Entry(data, None, None, float(n), 1.0, "live"))
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
    async with Recorder.open(path):
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


async def test_damage_inside_a_journal_is_told_and_a_torn_end_is_cut(tmp_path: Path) -> None:
    async with Recorder.open(tmp_path / "s") as recorder:
        await recorder.add(rows.row(1))
        await recorder.add(rows.row(2))
        journal = recorder.journal.read_bytes()
    for torn in (journal[:-1], journal + struct.pack(">I", 10**6), journal + bytes(3)):
        (tmp_path / "torn.journal").write_bytes(torn)
        async with Recorder.open(tmp_path / "torn") as recorder:
            await recorder.add(rows.row(3))
        with Snapshot(tmp_path / "torn") as snapshot:
            assert snapshot.get(rows.row(1).key) is not None
            assert snapshot.get(rows.row(3).key) is not None
            assert snapshot.summary.rows == (2 if torn == journal[:-1] else 3)
        (tmp_path / "torn").unlink()
    damaged = bytearray(journal)
    damaged[100] ^= 1
    (tmp_path / "damaged.journal").write_bytes(damaged)
    with pytest.raises(SnapshotError, match="the row at byte 23: the hash does not match"):
        async with Recorder.open(tmp_path / "damaged"):
            pass
    assert (tmp_path / "damaged.journal").read_bytes() == damaged, "left as it was found"
    (tmp_path / "alien.journal").write_bytes(b"something else entirely, of another program")
    with pytest.raises(SnapshotError, match="no journal of a recording"):
        async with Recorder.open(tmp_path / "alien"):
            pass


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
