"""Snapshots that were made by hand to be believed: every hash in them is right."""

import contextlib
import io
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cache import Entry, Row, Snapshot, SnapshotError
from cache.blocks import block
from cache.export import write_jsonl, write_parquet
from cache.frame import FORMAT, FrameError
from cache.merge import merge
from cache.row import RowHead
from cache.snapshot import END, INDEX, MAGIC, TRAILER, Summary, summary_of

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


TABLE = Entry(b'[{"a":1},\n{"a":"x"}]', ("a",), 2, 1.7e9, 5.0, "live")
ERROR = Entry(b'{"code":"timeout","message":"late"}', None, None, 1.7e9, 5.0, "live")


def frame(head: dict[str, Any], compressed: bytes) -> bytes:
    rest = orjson.dumps({"v": FORMAT, **head}) + b"\n" + compressed
    return blake2b(rest, digest_size=16).digest() + rest


def head_of(row: Row) -> dict[str, Any]:
    """As `Row.encode` makes it, without its checks."""
    return {**row.head, **row.entry.head}


def frame_of(row: Row) -> bytes:
    return frame(head_of(row), zstd.compress(row.entry.data))


def crafted(
    path: Path,
    rows: list[tuple[Row, bytes]],
    footer: dict[str, Any] | None = None,
    places: dict[str, int] | None = None,
) -> Path:
    """A snapshot of such frames, one of each call; `footer` and `places` (in its index) differ."""
    text, index = MAGIC, []
    starts: dict[str, int] = {}
    for row, whole in sorted(rows, key=lambda pair: (pair[0].tool, bytes.fromhex(pair[0].key))):
        starts.setdefault(row.tool, len(text))
        text += block(whole)
        place = {"offset": len(text) - len(whole), "length": len(whole), **(places or {})}
        index.append(
            INDEX.pack(bytes.fromhex(row.key), row.digest, place["offset"], place["length"])
        )
    summary = summary_of([RowHead.of(frame_of(row)) for row, _ in rows], 0, 0, 0)
    said = {**asdict(summary), "starts": starts, **(footer or {})}
    told = orjson.dumps(said)
    rest = b"".join(sorted(index)) + told
    hashed = blake2b(rest, digest_size=16).digest()
    at = len(text)
    trailer = TRAILER.pack(at, at + len(rest) - len(told), hashed, END)
    path.write_bytes(text + rest + trailer)
    return path


def a_row(entry: Entry = TABLE, status: str = "ok", **arguments: Any) -> Row:
    return Row("t", "r", arguments, status, entry)


def everything(path: Path) -> list[str]:
    """Does all that can be done with a snapshot; what `verify` says. Raises `SnapshotError`."""
    with Snapshot(path) as snapshot:
        problems = snapshot.verify()
        for key in [a_row(n=n).key for n in range(4)]:
            with contextlib.suppress(SnapshotError):
                found = snapshot.get(key)
                if found is not None and found.status == "ok":
                    found.entry.view(1), found.entry.view(100), orjson.loads(found.entry.data)
        for write in (write_jsonl, write_parquet):
            out = io.BytesIO()
            with contextlib.suppress(SnapshotError):
                write(snapshot, out)
                if write is write_jsonl:
                    [orjson.loads(line) for line in out.getvalue().splitlines()]
        with contextlib.suppress(SnapshotError):
            snapshot.nearest("t", {"n": 1})
    with contextlib.suppress(SnapshotError):
        merge([path], path.with_name(f"{path.name}.merged"), salvage=True)
    path.with_name(f"{path.name}.merged").unlink(missing_ok=True)
    return problems


def test_an_honest_one_made_so_is_whole(tmp_path: Path) -> None:
    rows = [a_row(n=n) for n in range(3)] + [a_row(ERROR, "timeout", n=3)]
    assert everything(crafted(tmp_path / "s", [(row, frame_of(row)) for row in rows])) == []


NO_ANSWERS = {
    "no JSON": Entry(b"hello", None, None, 1.0, 1.0, "live"),
    "a way out of the envelope": Entry(b'1,"provenance":{}', None, None, 1.0, 1.0, "live"),
    "nothing": Entry(b"", None, None, 1.0, 1.0, "live"),
    "no UTF-8": Entry(b'"\xff"', None, None, 1.0, 1.0, "live"),
    "two values": Entry(b"1 2", None, None, 1.0, 1.0, "live"),
    "a table of half a bracket": Entry(b"[", ("a",), 0, 1.0, 1.0, "live"),
    "a table that is none": Entry(b'{"a":1}', ("a",), 1, 1.0, 1.0, "live"),
    "fewer records": Entry(b'[{"a":1}]', ("a",), 2, 1.0, 1.0, "live"),
    "no records": Entry(b"[]", ("a",), 1, 1.0, 1.0, "live"),
    "a comma too many": Entry(b'[{"a":1},\n]', ("a",), 1, 1.0, 1.0, "live"),
    "a large table that ends early": Entry(
        b'[{"a":"%b"},\n]' % (b"x" * 2**20), ("a",), 1, 1.0, 1.0, "live"
    ),
}


@pytest.mark.parametrize("what", NO_ANSWERS)
def test_data_that_is_no_answer_is_found_and_given_to_nobody(what: str, tmp_path: Path) -> None:
    row = a_row(NO_ANSWERS[what], n=1)
    path = crafted(tmp_path / "s", [(row, frame_of(row))])
    assert everything(path) != []
    with Snapshot(path) as snapshot:
        with pytest.raises(SnapshotError, match="the row at byte"):
            snapshot.get(row.key)
        with pytest.raises(SnapshotError, match="the row at byte"):
            list(snapshot.rows())
    with pytest.raises(FrameError):
        row.encode()


@pytest.mark.parametrize(
    ("data", "rows"),
    [(b'[{"a":1},{"a":2}]', 2), (b"[1,\n2]", 2), (b'[{"a":1,\n"b":2}]', 1)],
)
def test_verify_finds_a_table_that_is_not_one_record_a_line(
    data: bytes, rows: int, tmp_path: Path
) -> None:
    row = a_row(Entry(data, ("a",), rows, 1.0, 1.0, "live"), n=1)
    assert "one record a line" in everything(crafted(tmp_path / "s", [(row, frame_of(row))]))[0]


@pytest.mark.parametrize("data", [b"{}", b"[]", b'{"code":"ok"}', b'{"code":["timeout"]}', b"1"])
def test_a_row_of_an_error_holds_that_error(data: bytes, tmp_path: Path) -> None:
    row = a_row(Entry(data, None, None, 1.0, 1.0, "live"), "timeout", n=1)
    assert (
        "no error of code timeout" in everything(crafted(tmp_path / "s", [(row, frame_of(row))]))[0]
    )


BOMBS: dict[str, Callable[[], bytes]] = {
    "more than fits": lambda: zstd.compress(bytes(2**28)),
    "more than it says": lambda: zstd.compress(b"1") + zstd.compress(b"[" * 2**28),
    "lists": lambda: zstd.compress(b"[" + b"[]," * (10 * 2**20) + b"[]]"),
}


def test_bombs_take_little_memory(tmp_path: Path) -> None:
    row = a_row(n=1)
    for name, bomb in BOMBS.items():
        path = crafted(tmp_path / name, [(row, frame(head_of(row), bomb()))])
        assert path.stat().st_size < 200_000
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from cache import Snapshot, SnapshotError\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (200 * 2**20, 200 * 2**20))\n"
        "for path in sys.argv[2:]:\n"
        "    with Snapshot(Path(path)) as snapshot:\n"
        "        try: snapshot.get(sys.argv[1])\n"
        "        except SnapshotError: print(Path(path).name, len(snapshot.verify()))\n"
    )
    command = [sys.executable, "-c", code, row.key, *(str(tmp_path / name) for name in BOMBS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("".join(f"{name} 1\n" for name in BOMBS), "")


def test_a_place_in_the_index_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    row = a_row(n=0)
    for places in ({"length": 2**32 - 1}, {"offset": 2**63}, {"offset": 2**64 - 1}, {"length": 0}):
        path = crafted(tmp_path / "s", [(row, frame_of(row))], places=places)
        assert everything(path) != []
        with Snapshot(path) as snapshot, pytest.raises(SnapshotError):
            snapshot.get(row.key)


FORGED = 'x","source":"live","z":"'


def test_nothing_that_goes_into_envelopes_as_it_is_can_be_forged(tmp_path: Path) -> None:
    row = a_row(n=0)
    for forged in (FORGED, "\x1b[2J", FORGED.ljust(40, "x")[:40], FORGED.ljust(64, "x")):
        with pytest.raises(SnapshotError):
            Snapshot(crafted(tmp_path / "s", [(row, frame_of(row))], {"id": forged}))
        for name in ("upstream", "digest"):
            whole = frame(head_of(row) | {name: forged}, zstd.compress(row.entry.data))
            path = crafted(tmp_path / "s", [(row, whole)])
            with Snapshot(path) as snapshot, pytest.raises(SnapshotError, match=f"{name} can't"):
                snapshot.get(row.key)


@pytest.mark.parametrize(
    "change",
    [
        *({"statuses": {"ok": 2}}, {"tools": {"other": 1}}, {"upstreams": {}}),
        *({"recorded_from": 5.0}, {"starts": {"t": 1}}, {"starts": {}}),
        {"id": "f" * 64},
    ],
)
def test_verify_finds_a_footer_that_says_something_else(
    change: dict[str, Any], tmp_path: Path
) -> None:
    row = a_row(n=0)
    assert everything(crafted(tmp_path / "s", [(row, frame_of(row))], change)) != []


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
FIELDS = sorted({*head_of(a_row(n=0)), "views", "data"})
FOOTER = sorted({*Summary.__slots__, "starts", "other"})


@settings(max_examples=60)
@given(
    st.dictionaries(st.sampled_from(FIELDS), anything, max_size=2),
    st.dictionaries(st.sampled_from(FOOTER), anything, max_size=2),
    st.sets(st.sampled_from(FIELDS), max_size=1),
    st.none() | st.binary(max_size=40) | anything.map(orjson.dumps),
    st.booleans(),
)
def test_whatever_is_in_it_a_crafted_snapshot_is_refused_or_whole(
    tmp_path_factory: pytest.TempPathFactory,
    head: dict[str, Any],
    footer: dict[str, Any],
    missing: set[str],
    data: bytes | None,
    is_compressed: bool,
) -> None:
    path = tmp_path_factory.getbasetemp() / "crafted"
    row = a_row(n=0)
    if data is not None and is_compressed:
        row = a_row(Entry(data, None, None, 1.0, 1.0, "live"), n=0)
    changed = {n: v for n, v in (head_of(row) | head).items() if n not in missing}
    compressed = zstd.compress(row.entry.data)
    if data is not None and not is_compressed:
        compressed = data
    whole = [(row, frame(changed, compressed)), *((r, frame_of(r)) for r in [a_row(n=1)])]
    with contextlib.suppress(SnapshotError):
        everything(crafted(path, whole, footer))
