import asyncio
import pickle
import random
import resource
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from cache import DiskTier, Entry
from cache.disk import BytesCache
from tests.support import rows
from tests.support.checkout import ROOT
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.anyio

ENTRY = Entry(b'[{"a":1},\n{"a":2}]', ("a",), 2, 1_700_000_000.0, 5.0, "live")


class Mine:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.mark,)


async def test_entries_outlive_the_process_and_the_folder_is_private(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    async with DiskTier.open(folder, 2**20) as tier:
        assert await tier.get("k") is None
        for number in range(1_000):
            tier.put(f"k{number}", ENTRY, keep_s=60)
    async with DiskTier.open(folder, 2**20) as tier:
        assert [await tier.get(f"k{n}") for n in (0, 500, 999)] == [ENTRY] * 3
        assert tier.refused == tier.left_out == 0
    assert folder.stat().st_mode & 0o777 == 0o700


async def test_an_expired_entry_is_gone(tmp_path: Path) -> None:
    async with DiskTier.open(tmp_path, 2**20) as tier:
        tier.put("k", ENTRY, keep_s=-1)
    async with DiskTier.open(tmp_path, 2**20) as tier:
        assert await tier.get("k") is None


@pytest.mark.parametrize(
    "column", ["mode = 4", "mode = 2, filename = '../../etc/passwd'", "mode = 3"]
)
async def test_a_planted_row_is_refused_counted_and_never_run(tmp_path: Path, column: str) -> None:
    mark = tmp_path / "mark"
    async with DiskTier.open(tmp_path / "cache", 2**20) as tier:
        tier.put("k", ENTRY, keep_s=60)
    with sqlite3.connect(tmp_path / "cache" / "cache.db") as database:
        row = pickle.dumps(Mine(mark))
        database.execute(f"UPDATE Cache SET value = ?, {column}", (row,))  # noqa: S608 - own text
    database.close()
    async with DiskTier.open(tmp_path / "cache", 2**20) as tier:
        assert await tier.get("k") is None
        assert tier.refused == 1
        assert await tier.get("k") is None
        assert tier.refused == 1, "the row was dropped"
    assert not mark.exists()


async def test_many_are_read_at_once_and_a_row_that_cannot_be_read_hides_no_other(
    tmp_path: Path,
) -> None:
    keys = [f"k{number}" for number in range(1_000)]
    async with DiskTier.open(tmp_path, 2**20) as tier:
        for key in keys:
            tier.put(key, ENTRY, keep_s=60)
    with closing(sqlite3.connect(tmp_path / "cache.db")) as database, database:
        not_text = "UPDATE Cache SET value = CAST(x'ff' AS TEXT) WHERE key = ?"
        database.execute(not_text, (b"k500",))
    async with DiskTier.open(tmp_path, 2**20) as tier:
        found = dict(zip(keys, await asyncio.gather(*map(tier.get, keys)), strict=True))
        assert found.pop("k500") is None
        assert set(found.values()) == {ENTRY}
        assert (tier.failed, tier.refused) == (1, 0)


async def test_the_folder_is_bounded(tmp_path: Path) -> None:
    bound = 4 * 2**20
    async with DiskTier.open(tmp_path, bound) as tier:
        for number in range(800):
            luck = random.Random(number).randbytes(20_000)
            entry = Entry(luck, None, None, 1_700_000_000.0, 5.0, "live")
            tier.put(str(number), entry, keep_s=60)
            await anyio.lowlevel.checkpoint()
        await until(lambda: not tier.state()["queued"])
        assert await tier.get("799") is not None
        assert await tier.get("0") is None, "the oldest went first"
    size = (await anyio.Path(tmp_path / "cache.db").stat()).st_size
    assert bound / 2 < size < 1.5 * bound, "of 16 MB that were put"


async def test_several_processes_share_a_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.rows", "fill", str(tmp_path)]
    said: list[bytes] = []

    async def write(start: int) -> None:
        async with await anyio.open_process([*command, str(start)], cwd=ROOT) as writer:
            assert writer.stdout is not None
            lines = 0
            while lines < 400 or rows.kept(tmp_path) < 400:
                said.append(await writer.stdout.receive())
                lines += said[-1].count(b"\n")
            writer.kill()

    async with anyio.create_task_group() as writers:
        for number in range(3):
            writers.start_soon(write, number * 10**6)
    numbers = [int(line) for chunk in said for line in chunk.split()[1:-1]]
    async with DiskTier.open(tmp_path, 2**30) as tier:
        found = 0
        for number in numbers:
            kept = await tier.get(rows.key(number))
            assert kept is None or kept == rows.entry(number, at=1.0)
            found += kept is not None
        assert found > 100
        assert tier.state()["refused"] == 0


async def test_a_miss_asks_the_database_only_where_another_process_has_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cache.disk.SCAN_S", 0.0)
    async with DiskTier.open(tmp_path, 2**20) as tier, DiskTier.open(tmp_path, 2**20) as other:
        asked: list[str] = []
        read = tier._read

        def reads(keys: list[str]) -> list[Entry | None]:
            asked.extend(keys)
            return read(keys)

        while not tier._index.is_current():
            assert await tier.get("none") is None
        monkeypatch.setattr(tier, "_read", reads)
        for number in range(100):
            assert await tier.get(f"none{number}") is None
            tier.put(f"k{number}", ENTRY, keep_s=60)
        await until(lambda: not tier.state()["queued"])
        assert await tier.get("none") is None
        assert not asked
        other.put("theirs", ENTRY, keep_s=60)
        await until(lambda: not other.state()["queued"])
        assert await tier.get("theirs") == ENTRY
        assert await other.get("k99") == ENTRY
        assert asked == ["theirs"]


async def test_a_database_of_too_many_keys_for_an_index_is_asked_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cache.disk.MOST_KEYS", 10)
    for _ in range(2):
        async with DiskTier.open(tmp_path, 2**20) as tier:
            for number in range(20):
                tier.put(f"k{number}", ENTRY, keep_s=60)
            await until(lambda tier=tier: not tier.state()["queued"])  # type: ignore[misc]
            assert [await tier.get(f"k{number}") for number in range(21)] == [ENTRY] * 20 + [None]
            assert not tier._index.is_current()


async def test_a_full_queue_leaves_out_and_counts(tmp_path: Path) -> None:
    large = Entry(b"x" * 2**20, None, None, 1_700_000_000.0, 5.0, "live")
    async with DiskTier.open(tmp_path, 2**30) as tier:
        for number in range(100):  # no chance to write in between
            tier.put(f"k{number}", large, keep_s=60)
        assert tier.left_out == 79, "64 MiB may wait, and an entry counts with a view"


async def test_a_database_that_cannot_be_read_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "cache.db").write_bytes(b"not a database" * 1_000)
    async with DiskTier.open(tmp_path, 2**20) as tier:
        tier.put("k", ENTRY, keep_s=60)
    async with DiskTier.open(tmp_path, 2**20) as tier:
        assert await tier.get("k") == ENTRY
    assert (tmp_path / "unreadable-cache.db").exists()


async def test_a_database_that_breaks_while_in_use_is_a_miss(tmp_path: Path) -> None:
    async with DiskTier.open(tmp_path, 2**20) as tier:
        with sqlite3.connect(tmp_path / "cache.db") as database:
            database.execute("DROP TABLE Cache")
        database.close()
        for missed in (1, 2):
            assert await tier.get("k") is None
            assert tier.failed == missed
        tier.put("k", ENTRY, keep_s=60)
    assert tier.left_out == 1


async def test_a_full_disk_says_nothing_against_what_is_kept(tmp_path: Path) -> None:
    async with DiskTier.open(tmp_path, 2**20) as tier:
        tier.put("k", ENTRY, keep_s=60)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
    try:
        with pytest.raises(OSError, match="can't be opened"):
            async with DiskTier.open(tmp_path, 2**20):
                pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    async with DiskTier.open(tmp_path, 2**20) as tier:
        assert await tier.get("k") == ENTRY


async def test_a_reader_that_fails_is_a_miss_and_the_next_read_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with DiskTier.open(tmp_path, 2**20) as tier:
        tier.put("k", ENTRY, keep_s=60)
    async with DiskTier.open(tmp_path, 2**20) as tier:
        with monkeypatch.context() as broken:
            broken.setattr(Entry, "decode", lambda *_: bytearray(2**62))
            assert await tier.get("k") is None
        assert await tier.get("k") == ENTRY
        assert (tier.failed, tier.refused) == (1, 0)


async def test_nobody_waits_for_a_tier_that_has_closed(tmp_path: Path) -> None:
    async with DiskTier.open(tmp_path, 2**20) as tier:
        asked = asyncio.create_task(tier.get("k"))
        await anyio.lowlevel.checkpoint()
    with anyio.fail_after(PATIENCE_S):
        assert await asked is None
        assert await tier.get("k") is None
        tier.put("k", ENTRY, keep_s=60)
    assert tier.left_out == 1


@pytest.mark.parametrize("lock_s", [0.3, 2 * PATIENCE_S])
async def test_a_database_that_is_locked_holds_up_no_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lock_s: float
) -> None:
    monkeypatch.setattr("cache.disk.LOCK_S", lock_s)
    async with DiskTier.open(tmp_path, 2**20) as tier:
        tier.put("k", ENTRY, keep_s=60)
        assert await tier.get("k") == ENTRY, "seen before it is written"
        await until(lambda: not tier.state()["queued"])
        locker = sqlite3.connect(tmp_path / "cache.db", isolation_level=None)
        locker.execute("BEGIN IMMEDIATE")
        tier.put("other", ENTRY, keep_s=60)
        if lock_s < PATIENCE_S:
            await until(lambda: tier.left_out == 1)  # the write waited so long and was left out
        else:
            await anyio.sleep(0.05)
            with anyio.fail_after(PATIENCE_S):
                assert await tier.get("k") == ENTRY
            assert tier.left_out == 0, "the write still waits"
        locker.close()


def test_many_rows_are_set_as_single_ones_are(tmp_path: Path) -> None:
    keys = [b"%d" % number for number in range(7_000)]
    with closing(BytesCache(str(tmp_path), cull_limit=0)) as store:
        store.set(keys[0], b"before", expire=100)
        store.set_all([(key, b"first", 100.0) for key in keys])
        store.set_all([(key, b"second", 100.0) for key in keys[::2]] + [(keys[0], b"last", 100.0)])
        store.set_all([(b"gone", b"x", -1.0)])
        store.set_all([])
        assert store.get(keys[0]) == b"last"
        assert {store.get(key) for key in keys[1::2]} == {b"first"}
        assert {store.get(key) for key in keys[2::2]} == {b"second"}
        assert store.get(b"gone") is None
        assert len(store) == len(keys) + 1
        assert store.check() == []
