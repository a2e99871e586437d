"""Work that pages wait for."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from bench.view import work
from bench.view.work import Kept, Tell, UnderWayError
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.anyio


def held(result: str, told: str = "") -> tuple[Callable[[Tell], str], threading.Event]:
    """Work that gives `result` once the event is set."""
    released = threading.Event()

    def made(tell: Tell) -> str:
        tell(told)
        assert released.wait(PATIENCE_S)
        return result

    return made, released


async def test_nobody_waits_for_long_and_the_work_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "PATIENCE_S", 0.05)
    kept = Kept[str](2, asyncio.Semaphore(2))
    first, released = held("one", "half is read")
    with pytest.raises(UnderWayError, match="half is read"):
        await kept.get("a", 1, first)
    monkeypatch.setattr(work, "PATIENCE_S", PATIENCE_S)
    released.set()
    assert await kept.get("a", 2, first) == "one"

    monkeypatch.setattr(work, "PATIENCE_S", 0.05)
    second, released = held("two")
    assert await kept.get("a", 3, second) == "one", "the last result, until there is a newer one"
    monkeypatch.setattr(work, "PATIENCE_S", PATIENCE_S)
    released.set()
    assert await kept.get("a", 3, second) == "two"


async def test_a_failure_is_not_kept() -> None:
    kept, results = Kept[int](1, asyncio.Semaphore(1)), iter([0, 1])
    for expected in (None, 1, 1):
        try:
            assert await kept.get("a", 1, lambda _: 1 // next(results)) == expected
        except ZeroDivisionError:
            assert expected is None


async def test_who_asks_again_is_told_of_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, released = Kept[str](1, asyncio.Semaphore(1)), threading.Event()

    def failing(_: Tell) -> str:
        assert released.wait(PATIENCE_S)
        raise ValueError("spoilt")

    monkeypatch.setattr(work, "PATIENCE_S", 0.05)
    with pytest.raises(UnderWayError):
        await kept.get("a", 1, failing)
    released.set()
    monkeypatch.setattr(work, "PATIENCE_S", PATIENCE_S)
    with pytest.raises(ValueError, match="spoilt"):
        await kept.get("a", 1, lambda _: "made")
    assert await kept.get("a", 1, lambda _: "made") == "made"


async def test_only_so_many_results_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept[str](2, asyncio.Semaphore(4))
    for name in "abc":
        await kept.get(name, 1, lambda _: "made")
    assert [kept.last(name) for name in "abc"] == [None, "made", "made"]
    monkeypatch.setattr(work, "PATIENCE_S", 0.05)
    works = [held("x") for _ in range(3)]
    for name, (made, _) in zip("xyz", works, strict=True):
        with pytest.raises(UnderWayError):
            await kept.get(name, 1, made)
    for _, released in works:
        released.set()
