"""kill -9 while writing: what is on disk afterwards is whole, and is all that was acknowledged."""

import asyncio
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cache import DiskTier, Recorder, Snapshot
from cache.merge import merge
from tests.support import rows
from tests.support.checkout import ROOT

pytestmark = pytest.mark.anyio


def killed(action: str, path: Path, start: int, is_enough: Callable[[int], bool]) -> list[int]:
    """What a writer said before it was killed, upon so many words that are enough."""
    command = [sys.executable, "-m", "tests.support.rows", action, str(path), str(start)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as writer:
        assert writer.stdout is not None
        first = [writer.stdout.readline()]
        while not is_enough(len(first)):
            first.append(writer.stdout.readline())
        writer.kill()
        lines = b"".join([*first, writer.stdout.read()]).split(b"\n")
    return [int(line) for line in lines[:-1] if line]  # the last one may be torn


async def kill_while_recording(folder: Path, times: int) -> int:
    """Rows acknowledged before one of `times` kills; each of them is found afterwards."""
    luck, path, said = random.Random(9), folder / "s.snap", []
    for kill in range(times):
        start, most = kill * 10**6, luck.randrange(1, 200)
        said += await asyncio.to_thread(killed, "record", path, start, most.__le__)
        journal = path.with_name("s.snap.journal")
        await asyncio.to_thread(merge, [journal], folder / f"{kill}.snap")
        with Snapshot(folder / f"{kill}.snap") as snapshot:
            lost = [n for n in said if snapshot.get(rows.row(n).key) is None]
            assert lost == []
    async with Recorder.open(path) as recorder:
        assert all(recorder.answered(rows.row(n).key) == bool(n % 10) for n in said)
    with Snapshot(path) as snapshot:
        assert snapshot.verify() == []
        for number in said:
            found = snapshot.get(rows.row(number).key)
            assert found is not None
            assert found.digest == rows.row(number).digest
    return len(said)


async def kill_while_filling(folder: Path, times: int) -> int:
    """Entries found after one of `times` kills; none differs from what was put."""
    luck, cache, found = random.Random(9), folder / "cache", 0
    for kill in range(times):
        start, most = kill * 10**6, rows.kept(cache) + luck.randrange(50, 500)

        def is_enough(_: int, most: int = most) -> bool:
            return rows.kept(cache) >= most

        said = await asyncio.to_thread(killed, "fill", cache, start, is_enough)
        async with DiskTier.open(cache, 2**30) as tier:
            for number in said:
                kept = await tier.get(rows.key(number))
                assert kept in (None, rows.entry(number, at=1.0))
                found += kept is not None
            assert tier.refused == 0
            tier.put("still", rows.entry(0), keep_s=60)
        async with DiskTier.open(cache, 2**30) as tier:
            assert await tier.get("still") is not None
    return found


async def test_a_recording_holds_every_acknowledged_row(tmp_path: Path) -> None:
    assert await kill_while_recording(tmp_path, 2) > 100


async def test_the_cache_opens_and_gives_nothing_that_upstream_did_not(tmp_path: Path) -> None:
    assert await kill_while_filling(tmp_path, 2) > 100


@pytest.mark.soak
async def test_50_kills_each(tmp_path: Path) -> None:
    (tmp_path / "recording").mkdir()
    recorded = await kill_while_recording(tmp_path / "recording", 50)
    kept = await kill_while_filling(tmp_path, 50)
    text = f"50 kills each: {recorded} acknowledged rows, none lost; {kept} entries, none wrong"
    sys.stdout.write(f"\n{text}\n")
