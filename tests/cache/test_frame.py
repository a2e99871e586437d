import sys
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache import frame
from cache.frame import FrameError, pack, read_head, unpack

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


names = st.text(max_size=5).filter(lambda name: name != "v")
heads = st.dictionaries(names, st.text() | st.integers(0, 2**53))


@given(
    heads.filter(lambda h: all(not isinstance(v, int) or v < 2**53 for v in h.values())),
    st.binary(),
)
def test_a_frame_gives_back_what_went_in(head: dict[str, object], data: bytes) -> None:
    assert unpack(pack(head, data)) == (head, data)
    assert read_head(pack(head, data)) == head


@given(st.binary(max_size=300), st.data())
def test_no_bit_can_change_unseen(data: bytes, draw: st.DataObject) -> None:
    whole = pack({"a": 1}, data)
    place = draw.draw(st.integers(0, 8 * len(whole) - 1))
    changed = bytearray(whole)
    changed[place // 8] ^= 1 << place % 8
    cut = whole[: draw.draw(st.integers(0, len(whole) - 1))]
    for torn in (bytes(changed), cut, whole + b"x"):
        with pytest.raises(FrameError):
            unpack(torn)
        with pytest.raises(FrameError):
            read_head(torn)


def test_a_planted_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = pack({}, bytes(2**20))
    monkeypatch.setattr(frame, "MAX_DATA", 2**16)
    with pytest.raises(FrameError, match="over 65536 bytes"):
        unpack(bomb)
    with pytest.raises(FrameError, match="over 65536 bytes"):
        pack({}, bytes(2**20))


def test_a_frame_that_hides_its_length_or_lies_about_it_is_refused() -> None:
    whole = zstd.compress(b"x" * 1000)
    compressor = zstd.ZstdCompressor()
    unsaid = compressor.compress(b"x" * 1000) + compressor.flush()
    assert zstd.get_frame_info(unsaid).decompressed_size is None
    skippable = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"abcd"
    for torn in (unsaid, whole[:-1], whole + whole, skippable + whole, b"", whole[:5]):
        rest = b'{"v":2}\n' + torn
        with pytest.raises(FrameError):
            unpack(blake2b(rest, digest_size=16).digest() + rest)


def test_another_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "FORMAT", 99)
    future = pack({}, b"")
    monkeypatch.undo()
    with pytest.raises(FrameError, match="not a frame of format 2"):
        unpack(future)
